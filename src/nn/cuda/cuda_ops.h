// What a net does on the GPU, op by op, and where the ops' tensors lie in its arena.
//
// An op is a layer, or two that are computed in one pass: a linear layer and the relu behind it, or a pooling and the
// relu on either side of it. (The maximum of a window commutes with max(0, .), and a window whose maximum is not above
// zero gets no gradient in either order.)
#ifndef SOUNDER_NN_CUDA_CUDA_OPS_H
#define SOUNDER_NN_CUDA_CUDA_OPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "nn/cuda/cuda_kernels.h"
#include "nn/spec.h"

// Tensors are (M, C,H,W, N). Relu and dropout work in place where nobody else takes their input: in and out coincide,
// and so do the gradients.
typedef struct CudaOp {
    const Layer *layer; // of the spec
    int number;         // the layer's place in the spec: dropout draws by it
    bool relu;          // max(0, .) in the same pass
    float *in, *out;
    float *other;                      // add, concat: the other value
    bool works;                        // there is something to do on the way back
    float *in_gradient, *out_gradient; // in_gradient: NULL if nobody needs it
    float *sum;                        // what in_gradient is added to afterwards, or NULL
    float *other_gradient;             // add, concat: NULL if nobody needs it
    bool other_adds;                   // others have written there before
    float *statistics; // norm: (M, groups, 2, N); batch norm: (M, C, 4); lstm, attention: what they keep
                       // (cuda_sequence.h)
    int8_t *keep;      // dropout: (M, features, N)
} CudaOp;

typedef struct CudaOps {
    CudaOp ops[SPEC_MAX_LAYERS];
    int count;
    int first;              // the first op with parameters: the way back ends there
    float *logits;          // (M, classes, N)
    float *logits_gradient; // the same
    float *scratch;         // of the convolutions; NULL if they need none
} CudaOps;

// Places everything for `models` times `samples` in the arena at `base` (device memory, or NULL to measure only).
// Without `training` there is no room for gradients and dropout. Returns the bytes that the arena needs. spec: borrowed
// for as long as ops is used.
size_t cuda_ops_carve(CudaOps *ops, char *base, const Spec *spec, int models, int samples, bool training);

#ifdef __cplusplus
extern "C" {
#endif

// The part of a convolution's CUDA twin that is not plain (conv_any.cu), but for the bias's gradients.
void cuda_conv_any_forward(float *out, const float *in, const float *weight, const float *bias, size_t stride,
                           const Layer *layer, const CudaStep *step);
void cuda_conv_any_backward_input(float *in_gradient, const float *out_gradient, const float *weight, size_t stride,
                                  const Layer *layer, const CudaStep *step);
void cuda_conv_any_backward_weight(float *weight_gradient, const float *in, const float *out_gradient, size_t stride,
                                   const Layer *layer, const CudaStep *step);

// The part of a linear layer's CUDA twin (linear_cuda.c) that is kernels: the bias, before and after cuBLAS's products.
// out (M, places, OUT,N) += bias (M strided; OUT) of its row; with relu, then max(0, .).
void cuda_linear_add_bias(float *out, const float *bias, size_t stride, bool relu, int places, int outs,
                          const CudaStep *step);

// bias_gradient (M strided; OUT) = sums of the rows of out_gradient (M, places, OUT,N).
void cuda_linear_sum_rows(float *bias_gradient, const float *out_gradient, size_t stride, int places, int outs,
                          const CudaStep *step);

#ifdef __cplusplus
}
#endif

#endif
