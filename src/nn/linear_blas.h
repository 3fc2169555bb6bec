// Fully connected layers through OpenBLAS: twins of the linear ops of kernels.h, whose contracts they keep.
//
// linear.c reads a weight where it lies, for a chunk of samples that fits the cache. That wins for few samples; but a
// weight that does not fit the cache is then read from memory again for every chunk, and its columns, which the input
// gradient runs along, lie in as many pages as the layer has outputs. OpenBLAS first copies both factors into blocks
// that fit, which pays if many samples share the copies: so nets whose wide layers outweigh their activations take
// large chunks (buffers.h) and multiply here. No factor is transposed or padded for it: (IN,N) and (OUT,N) are what it
// takes.
//
// Which of the two computes a product follows from the layer's size and the number of samples alone; the figures are
// measured by `tools/bench/run --rows linear-crossover` and stand in tools/bench/NOTES.md.
#ifndef SOUNDER_NN_LINEAR_BLAS_H
#define SOUNDER_NN_LINEAR_BLAS_H

#include "nn/blas.h"
#include "nn/kernels.h"

enum {
    LINEAR_WIDE = 1 << 20,    // weights of a wide layer: 4 MiB, more than most second caches
    LINEAR_MANY_SAMPLES = 96, // from which on every product of a wide layer is OpenBLAS's
    LINEAR_TALL = 1024,       // outputs from which on the input gradient is so
    LINEAR_SOME_SAMPLES = 32, // already from this number of samples on
};

static inline bool linear_is_wide(const Layer *layer) {
    return layer->kind == LAYER_LINEAR && shape_size(layer->in) * shape_size(layer->out) >= LINEAR_WIDE;
}

// Whether OpenBLAS computes the outputs and the weight's gradient of `count` samples. Both or none: what the ops of
// linear.c leave in `rows` on the way forward they read on the way back.
static inline bool linear_blas_pays(const Layer *layer, int count) {
    return linear_is_wide(layer) && count >= LINEAR_MANY_SAMPLES;
}

// Whether it computes the input's gradient.
static inline bool linear_blas_pays_backward(const Layer *layer, int count) {
    int least = layer->out.channels >= LINEAR_TALL ? LINEAR_SOME_SAMPLES : LINEAR_MANY_SAMPLES;
    return linear_is_wide(layer) && count >= least;
}

// rows is read if in is NULL, and left alone otherwise.
void linear_blas_forward(float *out, const Blas *blas, const float *in, const float *rows, const float *weight,
                         const float *bias, const Layer *layer, int count, int samples);
void linear_blas_backward_input(float *in_gradient, const Blas *blas, const float *out_gradient, const float *weight,
                                const Layer *layer, int count, int samples);
void linear_blas_backward_weight(float *weight_gradient, float *weight, const Blas *blas, const float *in,
                                 const float *rows, const float *out_gradient, const SgdUpdate *descent,
                                 const Layer *layer, int count, int samples);

#endif
