// The CUDA twins of the ops in kernels.h: X.cu beside X.c, the same arguments in the same order, plus a step that says
// for how many models at once and on which stream.
//
// Every op works on M models in lockstep. Activations are (M, C,H,W, N), batch innermost: N = step->samples columns a
// model, a multiple of 4, of which the first counts[m] are real. Parameters of model m begin `stride` floats behind
// those of model m - 1; stride 0: all models share them (then only M = 1 may write). What the CPU op promises about the
// columns from count on holds here too: they enter as zeros, gradients are zero there, all are finite if the weights
// are. A model whose count is 0 is idle: its gradients come out zero and its weights, which must be finite, stay.
// Pointers are device memory, 16-byte aligned except for parameters and pixels. Nothing synchronises and nothing
// depends on the host after the launch, so that all of it can be captured in a graph: what changes from step to step is
// read from device memory. Sums are taken in a fixed order: the same bits in every run. A tensor of one model has less
// than 2^32 floats. A launch that was refused shows in cudaGetLastError.
//
// The arithmetic of indices is in __host__ __device__ functions of X_index.h; tests run every kernel over all threads
// of its grid on the CPU (tests/emulator).
#ifndef SOUNDER_NN_CUDA_CUDA_KERNELS_H
#define SOUNDER_NN_CUDA_CUDA_KERNELS_H

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/rng.h"
#include "base/shape.h"
#include "nn/spec.h"
#include "nn/step.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct CudaStep {
    int models;             // M
    int samples;            // N, columns of every tensor
    const uint32_t *counts; // device (M): samples of each model in this step
    cudaStream_t stream;
} CudaStep;

// Begins the next step of every model's task (cuda_progress.h): writes its counts, firsts and numbers down for the ops
// that follow, and gathers its samples. Sample s < counts[m] of model m is row indices[firsts[m] + s] (or firsts[m] + s
// if indices is NULL) of pixels (rows, C,H,W), as augment.h makes it of the model's key unless augment is NULL. scale,
// shift: device (C).
struct CudaProgress;
void cuda_gather(float *out, const uint8_t *pixels, const uint32_t *indices, const struct CudaProgress *progress,
                 const float *scale, const float *shift, Shape shape, const Augment *augment, const CudaStep *step);

void cuda_conv_forward(float *out, const float *in, const float *weight, const float *bias, size_t stride,
                       const Layer *layer, const CudaStep *step);
// weight_gradient (M strided; OC,IC,K,K) and bias_gradient (M strided; OC) are overwritten; stride is the gradients'.
// scratch: cuda_conv_scratch_floats, forgotten between calls; may be shared by all layers on one stream.
void cuda_conv_backward_weight(float *weight_gradient, float *bias_gradient, float *scratch, const float *in,
                               const float *out_gradient, size_t stride, const Layer *layer, const CudaStep *step);
// Floats of device memory. With few models the sums are shared among more blocks, whose parts lie there; otherwise 0,
// and scratch may be NULL. A few hundred kilobytes at most.
size_t cuda_conv_scratch_floats(const Layer *layer, int models, int samples);
void cuda_conv_backward_input(float *in_gradient, const float *out_gradient, const float *weight, size_t stride,
                              const Layer *layer, const CudaStep *step);

// With relu, max(0, .) follows the pooling in the same pass; on the way back a window whose maximum is not above zero
// then gets no gradient. in_gradient may be `in` itself if the layer is plain.
void cuda_pool_forward(float *out, const float *in, bool relu, const Layer *layer, const CudaStep *step);
void cuda_pool_backward(float *in_gradient, const float *in, const float *out_gradient, bool relu, const Layer *layer,
                        const CudaStep *step);

void cuda_average_forward(float *out, const float *in, const Layer *layer, const CudaStep *step);
void cuda_average_backward(float *in_gradient, const float *out_gradient, const Layer *layer, const CudaStep *step);

void cuda_activation_forward(float *out, const float *in, const Layer *layer, const CudaStep *step);
void cuda_activation_backward(float *in_gradient, const float *in, const float *out_gradient, const Layer *layer,
                              const CudaStep *step);

// statistics: (M, groups, 2,N). The gradients of weight and bias are overwritten.
void cuda_norm_forward(float *out, float *statistics, const float *in, const float *weight, const float *bias,
                       size_t stride, const Layer *layer, const CudaStep *step);
void cuda_norm_backward_input(float *in_gradient, const float *statistics, const float *in, const float *out_gradient,
                              const float *weight, size_t stride, const Layer *layer, const CudaStep *step);
void cuda_norm_backward_weight(float *weight_gradient, float *bias_gradient, const float *statistics, const float *in,
                               const float *out_gradient, size_t stride, const Layer *layer, const CudaStep *step);

// statistics: (M, C, 4): mean and scale of the way there; backward_weight, which comes first, adds the means that
// backward_input needs. parameters: weight, bias, running means and variances. means, variances (M strided; C): those
// parameters, which the batch moves if it trains; NULL: it leaves them. gradient (M strided; weight, bias and zeros for
// the running ones) is overwritten; NULL: only the means are wanted. An idle model has its running statistics.
void cuda_batch_norm_forward(float *out, float *statistics, float *means, float *variances, const float *in,
                             const float *parameters, size_t stride, bool trains, const Layer *layer,
                             const CudaStep *step);
void cuda_batch_norm_backward_weight(float *gradient, float *statistics, const float *in, const float *out_gradient,
                                     size_t stride, const Layer *layer, const CudaStep *step);
void cuda_batch_norm_backward_input(float *in_gradient, const float *statistics, const float *in,
                                    const float *out_gradient, const float *weight, size_t stride, const Layer *layer,
                                    const CudaStep *step);

// Some features of tensors of all models: from `first` on, of a tensor that has `all`.
typedef struct CudaRows {
    float *at; // (M, all,N)
    size_t all, first;
} CudaRows;

// Those of `to` become, or with `adds` are increased by, those of `from`.
void cuda_add(CudaRows to, CudaRows from, size_t features, bool adds, const CudaStep *step);

void cuda_relu_forward(float *values, size_t features, const CudaStep *step);
void cuda_relu_backward(float *gradient, const float *out, size_t features, const CudaStep *step);

// The mask that the CPU draws for the same key and step number. keys, numbers: device (M): models that do not have the
// same number of batches come to a step with different numbers.
void cuda_dropout_draw(int8_t *keep, const RngKey *keys, const uint32_t *numbers, float rate, size_t features,
                       const CudaStep *step);
void cuda_dropout_apply(float *values, const int8_t *keep, float rate, size_t features, size_t plane,
                        const CudaStep *step);

// cuBLAS, strided and batched over the models, once for each place of in (M, places, IN,N) and out (M, places, OUT,N):
// a layer of all values has one. Then one kernel for the bias (and max(0, .) with relu).
struct CudaBlas; // cuda_blas.h
void cuda_linear_forward(float *out, const float *in, const float *weight, const float *bias, size_t stride, bool relu,
                         const Layer *layer, struct CudaBlas *blas, const CudaStep *step);
void cuda_linear_backward_input(float *in_gradient, const float *out_gradient, const float *weight, size_t stride,
                                const Layer *layer, struct CudaBlas *blas, const CudaStep *step);
void cuda_linear_backward_weight(float *weight_gradient, float *bias_gradient, const float *in,
                                 const float *out_gradient, size_t stride, const Layer *layer, struct CudaBlas *blas,
                                 const CudaStep *step);

// A row of the table for each number of in (M, T,N); the table's gradient (M strided) is overwritten.
void cuda_embedding_forward(float *out, const float *in, const float *weight, size_t stride, const Layer *layer,
                            const CudaStep *step);
void cuda_embedding_backward(float *weight_gradient, const float *in, const float *out_gradient, size_t stride,
                             const Layer *layer, const CudaStep *step);

// out (M, T,E,N) = in + weight (M strided; T,E), whose gradient is overwritten. in's gradient is out's.
void cuda_positions_forward(float *out, const float *in, const float *weight, size_t stride, const Layer *layer,
                            const CudaStep *step);
void cuda_positions_backward(float *weight_gradient, const float *out_gradient, size_t stride, const Layer *layer,
                             const CudaStep *step);

// weight: the layer's first parameter, gradient the same of gradients, which are overwritten, or NULL. kept (M,
// features,N) goes from forward to backward, which spoils it. in_gradient: NULL if nobody needs it. With cuBLAS, step
// by step.
size_t cuda_lstm_kept_features(const Layer *layer);
void cuda_lstm_forward(float *out, float *kept, const float *in, const float *weight, size_t stride, const Layer *layer,
                       struct CudaBlas *blas, const CudaStep *step);
void cuda_lstm_backward(float *gradient, float *in_gradient, float *kept, const float *in, const float *out_gradient,
                        const float *weight, size_t stride, size_t gradient_stride, const Layer *layer,
                        struct CudaBlas *blas, const CudaStep *step);

// The same of an attention.
size_t cuda_attention_kept_features(const Layer *layer);
void cuda_attention_forward(float *out, float *kept, const float *in, const float *weight, size_t stride,
                            const Layer *layer, struct CudaBlas *blas, const CudaStep *step);
void cuda_attention_backward(float *gradient, float *in_gradient, float *kept, const float *in,
                             const float *out_gradient, const float *weight, size_t stride, size_t gradient_stride,
                             const Layer *layer, struct CudaBlas *blas, const CudaStep *step);

// Softmax and cross-entropy. gradient (M, classes, N): d(mean loss over the model's samples) / d(logits); NULL: the
// step evaluates, and hits are counted. Losses and hits are added to those of progress, whose tasks go on to their next
// step. Labels by rows as in cuda_gather.
void cuda_softmax_cross_entropy(float *gradient, const struct CudaProgress *progress, const float *logits,
                                const uint16_t *labels, const uint32_t *indices, float smoothing, int classes,
                                const CudaStep *step);

// What a step of SGD works on: arrays of all parameters of a model. Travels to kernels by value.
typedef struct CudaSgdUpdate {
    float *weights;    // (M strided; parameters)
    float *velocity;   // (M, parameters); without momentum neither read nor written
    size_t stride;     // of the weights, floats
    size_t parameters; // of a model
    const float *lr;   // device (1): the rate, in the place of sgd.lr, for it changes while captured steps stay
    Sgd sgd;
    const float *shifts; // (M, parameters): each joins the gradient of its weight; NULL: none
    const float *pulls;  // (M): on top of each model's weight decay; where there are shifts
} CudaSgdUpdate;

// As sgd_step, of the `count` parameters from `first` on. gradient: (M, parameters). Idle models keep theirs.
void cuda_sgd_step(const CudaSgdUpdate *descent, const float *gradient, size_t first, size_t count,
                   const CudaStep *step);
// The same with one atomic addition a weight: of several processes' steps at once (Hogwild) none is lost.
void cuda_sgd_step_atomically(const CudaSgdUpdate *descent, const float *gradient, size_t first, size_t count,
                              const CudaStep *step);

struct CudaOptimizer; // cuda_net.h

// What a step needs that looks at a model's whole gradient first, or remembers more than a velocity. Device (M each).
typedef struct CudaWholeStep {
    double *lengths; // squared, of the gradients; zeros between steps
    float *factors;  // what the gradient is multiplied by, so that it is not longer than it may be
    AdamStep *adam;
} CudaWholeStep;

// gradient (M, parameters) += the shifts and pulls that join the gradients otherwise, of those parameters.
void cuda_join_terms(float *gradient, const CudaSgdUpdate *descent, size_t first, size_t count, const CudaStep *step);
// lengths += the sums of those gradients' squares, in a fixed order.
void cuda_add_lengths(double *lengths, const float *gradient, size_t parameters, size_t first, size_t count,
                      const CudaStep *step);
// factors and adam of each model's next step, from lengths and forgotten (M, 2).
void cuda_begin_whole_step(const CudaWholeStep *whole, double *forgotten, const struct CudaOptimizer *optimizer,
                           const CudaSgdUpdate *descent, const CudaStep *step);
// The step of those parameters. The shifts and pulls have joined the gradients.
void cuda_whole_step(const CudaSgdUpdate *descent, const CudaWholeStep *whole, const struct CudaOptimizer *optimizer,
                     const float *gradient, size_t first, size_t count, const CudaStep *step);

// cuda_linear_backward_weight and the step of the layer's parameters in one pass over them: no gradient is stored.
void cuda_linear_step(const CudaSgdUpdate *descent, const float *in, const float *out_gradient, const Layer *layer,
                      const CudaStep *step);

#ifdef __cplusplus
}
#endif

#endif
