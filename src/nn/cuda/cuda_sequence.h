// The tensors that an lstm and an attention keep on the GPU for the backward pass, and the kernels between their
// products: cuda_lstm.c and cuda_attention.c multiply with cuBLAS, sequence.cu and attention.cu do the rest. A product
// is computed for all models at once, one step after the other; attention projects like the linear layer of each step
// (linear_cuda.c).
//
//   lstm forward, each step:   gates = W in + U outputs before (cuBLAS); cuda_lstm_step_forward: gates, cells, outputs
//   lstm backward, each step:  cuda_lstm_step_backward: the gates' gradients, in their place; then their products
#ifndef SOUNDER_NN_CUDA_CUDA_SEQUENCE_H
#define SOUNDER_NN_CUDA_CUDA_SEQUENCE_H

#include "base/host_device.h"
#include "nn/cuda/cuda_kernels.h"

C_BEGIN

// Pointers into device memory, for M models, T steps, H units and N columns. Passed to kernels by value.
typedef struct LstmKept {
    float *gates;   // (M, T, 4H,N): input, forget, cell, output, as their functions left them; then their gradients
    float *cells;   // (M, T, H,N)
    float *outputs; // (M, T, H,N)
    float *output_gradient; // (M, H,N): gradient of the previous step's output, from the gates of a step
    float *cell_gradient;   // (M, H,N): gradient of the previous step's cell
    uint32_t steps, units, samples;
    bool last; // only the last step's output is given
} LstmKept;

// The gates of step t must hold the sums of both products. bias (M strided): W's, followed by U's.
void cuda_lstm_step_forward(const LstmKept *kept, float *out, const float *bias, size_t stride, uint32_t t,
                            const CudaStep *step);
// output_gradient must come from step t + 1; the last step does not read it.
void cuda_lstm_step_backward(const LstmKept *kept, const float *out_gradient, uint32_t t, const CudaStep *step);
// Sums the gates' gradients over steps and samples, for both biases.
void cuda_lstm_bias_gradient(float *bias_gradient, const LstmKept *kept, size_t stride, const CudaStep *step);

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
