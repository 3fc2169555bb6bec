// The part of a linear layer's CUDA twin that is kernels: what happens to the bias before and after cuBLAS's products.
#ifndef SOUNDER_NN_LINEAR_CUDA_H
#define SOUNDER_NN_LINEAR_CUDA_H

#include "nn/cuda_kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

// out (M, OUT,N) += bias (M strided; OUT) of its row; with relu, then max(0, .).
void cuda_linear_add_bias(float *out, const float *bias, size_t stride, bool relu, int outs, const CudaStep *step);

// bias_gradient (M strided; OUT) = sums of the rows of out_gradient (M, OUT,N).
void cuda_linear_sum_rows(float *bias_gradient, const float *out_gradient, size_t stride, int outs,
                          const CudaStep *step);

#ifdef __cplusplus
}
#endif

#endif
