// What an attention on the card keeps for the way back, and the kernels between its projections: cuda_attention.c
// projects as linear layers of each step do (linear_cuda.c), attention.cu does the rest.
#ifndef SOUNDER_NN_CUDA_ATTENTION_H
#define SOUNDER_NN_CUDA_ATTENTION_H

#include "nn/cuda_kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

// Places in device memory, for M models, T steps of E values and N columns. Travels to kernels by value.
typedef struct AttentionKept {
    float *projected;        // (M, T, 3E,N): queries, keys, values
    float *shares;           // (M, heads, T, T,N); on the way back the slopes of the scores
    float *context;          // (M, T, E,N)
    float *projected_slopes; // as projected
    float *context_slopes;   // as context
    uint32_t steps, width, heads, samples;
    float scale; // of the scores
    bool causal;
} AttentionKept;

// The shares and contexts of the projected.
void cuda_attention_mix(const AttentionKept *kept, const CudaStep *step);
// projected_slopes from context_slopes.
void cuda_attention_mix_back(const AttentionKept *kept, const CudaStep *step);

#ifdef __cplusplus
}
#endif

#endif
