// Fully connected layers through OpenBLAS: twins of the linear ops of kernels.h, with the same contracts.
//
// linear.c reads a weight in place, for a chunk of samples that fits the cache. That is fastest for few samples. But a
// weight that does not fit the cache is then read from memory again for every chunk, and its columns, along which the
// input gradient is summed, are spread over as many pages as the layer has outputs. OpenBLAS first copies both factors
// into blocks that fit the cache, which pays if many samples share the copies: so nets whose wide layers outweigh their
// activations take large chunks (buffers.h) and multiply here. No factor is transposed or padded for it, as OpenBLAS
// takes (IN,N) and (OUT,N).
//
// The layer's size and the number of samples alone decide between the two, so that the bits do not depend on anything
// else. `tools/bench/run --rows linear-crossover` measures the thresholds; tools/bench/NOTES.md has the figures.
#ifndef SOUNDER_NN_LINEAR_BLAS_H
#define SOUNDER_NN_LINEAR_BLAS_H

#include "nn/blas.h"
#include "nn/kernels.h"

enum {
    LINEAR_WIDE = 1 << 20,    // weights of a wide layer: 4 MiB, more than most second caches
    LINEAR_MANY_SAMPLES = 96, // samples from which on OpenBLAS computes every product of a wide layer
    LINEAR_TALL = 1024,       // outputs of a layer whose input gradient OpenBLAS computes
    LINEAR_SOME_SAMPLES = 32, // ... from this number of samples on
};

static inline bool linear_is_wide(const Layer *layer) {
    return layer->kind == LAYER_LINEAR && shape_size(layer->in) * shape_size(layer->out) >= LINEAR_WIDE;
}

// Whether OpenBLAS computes the outputs and the weight's gradient of `count` samples: both or none, since the ops of
// linear.c write `rows` on the forward pass for their backward pass.
static inline bool linear_blas_pays(const Layer *layer, int count) {
    return linear_is_wide(layer) && count >= LINEAR_MANY_SAMPLES;
}

// Whether OpenBLAS computes the input's gradient.
static inline bool linear_blas_pays_backward(const Layer *layer, int count) {
    int least = layer->out.channels >= LINEAR_TALL ? LINEAR_SOME_SAMPLES : LINEAR_MANY_SAMPLES;
    return linear_is_wide(layer) && count >= least;
}

// rows is read if in is NULL, and unused otherwise.
void linear_blas_forward(float *out, const Blas *blas, const float *in, const float *rows, const float *weight,
                         const float *bias, const Layer *layer, int count, int samples);
void linear_blas_backward_input(float *in_gradient, const Blas *blas, const float *out_gradient, const float *weight,
                                const Layer *layer, int count, int samples);
void linear_blas_backward_weight(float *weight_gradient, float *weight, const Blas *blas, const float *in,
                                 const float *rows, const float *out_gradient, const SgdUpdate *descent,
                                 const Layer *layer, int count, int samples);

#endif
