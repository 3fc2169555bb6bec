// The ops of a net on the GPU, and the places of their tensors in its arena.
//
// An op is a layer, or two that one pass computes: a layer that JOINS_RELU_BEHIND and the relu after it, or a pooling
// and the relu before it. (The maximum of a window commutes with max(0, .), and a window whose maximum is not positive
// gets no gradient in either order.)
#ifndef SOUNDER_NN_CUDA_CUDA_OPS_H
#define SOUNDER_NN_CUDA_CUDA_OPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/host_device.h"
#include "nn/cuda/cuda_kernels.h"
#include "nn/spec.h"

// Tensors are (M, C,H,W, N). Relu and dropout work in place if no other op reads their input: in and out are then one
// tensor, and so are the gradients.
typedef struct CudaOp {
    const Layer *layer; // of the spec
    int number;         // number of the layer in the spec, by which dropout draws
    bool relu;          // max(0, .) in the same pass
    bool relu_is_left;  // ... whose backward pass the next op includes in its own (relu_before)
    bool relu_before;   // its backward pass includes that of the relu in the op before, whose output is `in`
    float *in, *out;
    float *other;                      // add, concat: the second input
    bool works;                        // its backward pass has something to do
    float *in_gradient, *out_gradient; // in_gradient: NULL if no earlier op learns
    bool adds;                         // in_gradient is added to what is already there
    float *sum;                        // the tensor that in_gradient is added to afterwards, or NULL
    float *other_gradient;             // add, concat: NULL if no earlier op learns
    bool other_adds;                   // other_gradient is added to what is already there
    // For the backward pass. Norm: (M, groups, 2, N); batch norm: (M, C, 4); lstm, attention: as in their files.
    float *statistics;
    int8_t *keep; // dropout: (M, features, N)
} CudaOp;

typedef struct CudaOps {
    CudaOp ops[SPEC_MAX_LAYERS];
    int count;
    int first;              // number of the first op with parameters, where the backward pass ends
    float *logits;          // (M, classes, N)
    float *logits_gradient; // (M, classes, N)
    float *scratch;         // of the convolutions; NULL if they need none
} CudaOps;

// Places all tensors for `models` times `samples` in the arena at `base` (device memory, or NULL to measure only). With
// `training` there is room for gradients and dropout, too. Returns the arena's size in bytes. spec: borrowed for as
// long as ops is used.
size_t cuda_ops_carve(CudaOps *ops, char *base, const Spec *spec, int models, int samples, bool training);

C_BEGIN

// The CUDA twin of a convolution that is not plain (conv_any.cu).
void cuda_conv_any_forward(float *out, const float *in, const float *weight, const float *bias, size_t stride,
                           const Layer *layer, const CudaStep *step);
void cuda_conv_any_backward_input(float *in_gradient, bool adds, const float *out_gradient, const float *weight,
                                  size_t stride, const Layer *layer, const CudaStep *step);
void cuda_conv_any_backward_weight(float *weight_gradient, float *bias_gradient, const float *in,
                                   const float *out_gradient, size_t stride, const Layer *layer, const CudaStep *step);

// A linear layer's CUDA twin without cuBLAS (linear.cu, linear_product.cu): its bits depend neither on the number of
// models nor on the GPU.
void cuda_linear_product(float *out, const float *in, const float *weight, const float *bias, size_t stride, bool relu,
                         const Layer *layer, const CudaStep *step);
void cuda_linear_product_back(float *in_gradient, const float *out_gradient, const float *relu_out, const float *weight,
                              size_t stride, const Layer *layer, const CudaStep *step);
void cuda_linear_gradient(float *weight_gradient, float *bias_gradient, const float *in, const float *out_gradient,
                          size_t stride, const Layer *layer, const CudaStep *step);

// The kernels of a linear layer's CUDA twin (linear_cuda.c), before and after cuBLAS's products. out (M, OUT,N) +=
// bias (M strided; OUT) of its row; with relu, max(0, .) follows.
void cuda_linear_add_bias(float *out, const float *bias, size_t stride, bool relu, int outs, const CudaStep *step);

// bias_gradient (M strided; OUT) = sums of the rows of out_gradient (M, OUT,N).
void cuda_linear_sum_rows(float *bias_gradient, const float *out_gradient, size_t stride, int outs,
                          const CudaStep *step);

C_END

#endif
