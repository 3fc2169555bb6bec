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

// An op of the CPU and its twins. Rows with one check follow each other: it is called once per trial.
typedef struct Twin {
    size_t first, bytes; // the op's place in Kernels; zeros if there is none
    const char *on_gpu;  // functions of cuda_kernels.h, between spaces
    void (*check)(const Trial *trial);
} Twin;

#define OP(name) offsetof(Kernels, name), sizeof(((Kernels *)0)->name)

typedef struct Twins {
    const Twin *rows;
    size_t count;
} Twins;

extern const Twins layer_twins; // twin_layers.c: layers of images and functions of values
extern const Twins join_twins;  // twin_joins.c: sums and products of two layers
extern const Twins
    sequence_twins;              // twin_sequences.c: embedding, positions, linear layers of each step, lstm, attention
extern const Twins sample_twins; // twin_samples.c: data sets of floats, and samples as clients see them
extern const Twins step_twins;   // twin_steps.c: samples, losses, wide layers and steps

#endif
