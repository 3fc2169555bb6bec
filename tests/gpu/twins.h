// The checks of test_cuda_twins: each computes on the host what an op of the CPU says, and on the GPU what its twin
// says, for the models and samples of a trial, and fails where they differ.
#ifndef SOUNDER_TESTS_GPU_TWINS_H
#define SOUNDER_TESTS_GPU_TWINS_H

#include "gpu_trial.h"

#define LENGTH(array) (sizeof(array) / sizeof *(array))

static inline size_t parameters_of(const Layer *layer) {
    return layer->bias + (size_t)layer->out.channels;
}

// For the checks: the relu after a layer of model m, on the CPU, forward and backward.
void rectify_on_cpu(const Trial *trial, const Values *out, const Values *out_gradient, size_t features, int m);

// twin_layers.c: layers and what stands between them.
void check_direct(const Trial *trial);
void check_winograd(const Trial *trial);
void check_columns(const Trial *trial);
void check_norm(const Trial *trial);
void check_batch_norm(const Trial *trial);
void check_pool(const Trial *trial);
void check_average(const Trial *trial);
void check_swap(const Trial *trial);
void check_activation(const Trial *trial);
void check_prelu(const Trial *trial);
void check_relu(const Trial *trial);
void check_dropout(const Trial *trial);

// twin_joins.c: layers of two values.
void check_add(const Trial *trial);
void check_mul(const Trial *trial);

// twin_sequences.c: an embedding, positions, linear layers of each step, an lstm, and attention.
void check_embedding(const Trial *trial);
void check_positions(const Trial *trial);
void check_linear_each(const Trial *trial);
void check_lstm(const Trial *trial);
void check_gru(const Trial *trial);
void check_attention(const Trial *trial);

// twin_samples.c: data sets of floats, and samples as clients see them.
void check_values(const Trial *trial);
void check_views(const Trial *trial);

// twin_steps.c: samples, losses, wide layers and steps.
void check_gather(const Trial *trial);
void check_gather_rows(const Trial *trial);
void check_loss(const Trial *trial);
void check_linear(const Trial *trial);
void check_sgd(const Trial *trial);

#endif
