// What an lstm and an attention keep on the GPU for the way back, and the kernels between their products: cuda_lstm.c
// and cuda_attention.c multiply, sequence.cu and attention.cu do the rest. A product is of all models at once, from the
// first step to the last; attention projects as linear layers of each step do (linear_cuda.c).
//
//   lstm forward, each step:   gates = W in + U outputs before (cuBLAS); cuda_lstm_step_forward: gates, cells, outputs
//   lstm backward, each step:  cuda_lstm_step_backward: the gates' gradients, in their place; then their products
#ifndef SOUNDER_NN_CUDA_CUDA_SEQUENCE_H
#define SOUNDER_NN_CUDA_CUDA_SEQUENCE_H

#include "nn/cuda/cuda_kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

// Places in device memory, for M models, T steps, H units and N columns. Travels to kernels by value.
typedef struct LstmKept {
    float *gates;   // (M, T, 4H,N): input, forget, cell, output, as their functions left them; then their gradients
    float *cells;   // (M, T, H,N)
    float *outputs; // the same
    float *output_gradient; // (M, H,N): what a step's gradients say of the output before
    float *cell_gradient;   // the same of the cell
    uint32_t steps, units, samples;
    bool last; // only the last step's output is given
} LstmKept;

// The parts of what cuda_lstm_kept_features asks for.
LstmKept lstm_kept(float *kept, const Layer *layer, const CudaStep *step);

// The gates of step t hold the sums of both products. bias (M strided): that of W, behind it that of U.
void cuda_lstm_step_forward(const LstmKept *kept, float *out, const float *bias, size_t stride, uint32_t t,
                            const CudaStep *step);
// output_gradient are those of the step behind t; the last step has none.
void cuda_lstm_step_backward(const LstmKept *kept, const float *out_gradient, uint32_t t, const CudaStep *step);
// Sums of the gates' gradients over steps and samples, once for each of the biases.
void cuda_lstm_bias_gradient(float *bias_gradient, const LstmKept *kept, size_t stride, const CudaStep *step);

// Places in device memory, for M models, T steps of E values and N columns. Travels to kernels by value.
typedef struct AttentionKept {
    float *projected;          // (M, T, 3E,N): queries, keys, values
    float *shares;             // (M, heads, T, T,N); on the way back the gradients of the scores
    float *context;            // (M, T, E,N)
    float *projected_gradient; // as projected
    float *context_gradient;   // as context
    uint32_t steps, width, heads, samples;
    float scale; // of the scores
    bool causal;
} AttentionKept;

// The shares and contexts of the projected.
void cuda_attention_mix(const AttentionKept *kept, const CudaStep *step);
// projected_gradient from context_gradient.
void cuda_attention_mix_back(const AttentionKept *kept, const CudaStep *step);

#ifdef __cplusplus
}
#endif

#endif
