// The tensors that an attention keeps on the GPU for the backward pass, and the kernels of attention.cu between its
// products (cuda_attention.c), which are those of linear layers of each step.
#ifndef SOUNDER_NN_CUDA_CUDA_ATTENTION_H
#define SOUNDER_NN_CUDA_CUDA_ATTENTION_H

#include "base/host_device.h"
#include "nn/cuda/cuda_kernels.h"

C_BEGIN

// Pointers into device memory, for M models, T steps of E values and N columns. Passed to kernels by value.
typedef struct AttentionKept {
    float *projected;          // (M, T, 3E,N): queries, keys, values
    float *shares;             // (M, heads, T, T,N); on the backward pass the gradients of the scores
    float *context;            // (M, T, E,N)
    float *projected_gradient; // (M, T, 3E,N)
    float *context_gradient;   // (M, T, E,N)
    uint32_t steps, width, heads, samples;
    float scale; // factor of the scores
    bool causal;
} AttentionKept;

// Computes shares and contexts from projected.
void cuda_attention_mix(const AttentionKept *kept, const CudaStep *step);
// Computes projected_gradient from context_gradient.
void cuda_attention_mix_back(const AttentionKept *kept, const CudaStep *step);

C_END

#endif
