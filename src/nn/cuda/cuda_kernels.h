// The CUDA twins of the ops in kernels.h: X.cu beside X.c, with the same arguments in the same order, plus a step that
// gives the number of models and the stream.
//
// Every op works on M models in lockstep. Activations are (M, C,H,W, N), batch innermost: N = step->samples columns per
// model, a multiple of 4, of which the first counts[m] are real. Parameters of model m begin m * stride floats after
// those of model 0; with stride 0 all models share them (then only M = 1 may write). The columns from count on keep the
// promises of the CPU op: they enter as zeros, gradients are zero there, and all are finite if the weights are. A model
// whose count is 0 is idle: its weights stay, and what its other tensors hold, gradients among them, means nothing. Its
// blocks end at once, so that a launch costs what its working models cost.
//
// Pointers are device memory, 16-byte aligned except for parameters and pixels. No op synchronises or depends on the
// host after its launch, so that a graph can capture all of them: numbers that change from step to step are read from
// device memory. Sums are taken in a fixed order, so that every run has the same bits. A tensor of one model has fewer
// than 2^32 floats. A refused launch shows in cudaGetLastError.
//
// The arithmetic of indices is in __host__ __device__ functions of X_index.h; tests run every kernel over all threads
// of its grid on the CPU (tests/emulator).
#ifndef SOUNDER_NN_CUDA_CUDA_KERNELS_H
#define SOUNDER_NN_CUDA_CUDA_KERNELS_H

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/host_device.h"
#include "base/rng.h"
#include "base/shape.h"
#include "nn/spec.h"
#include "nn/step.h"

C_BEGIN

typedef struct CudaStep {
    int models;             // M
    int samples;            // N, columns of every tensor
    const uint32_t *counts; // device (M): samples of each model in this step
    cudaStream_t stream;
} CudaStep;

// Begins the next step of every model's task (cuda_progress.h): stores its counts, firsts and numbers for the ops that
// follow, and gathers its samples. Sample s < counts[m] of model m is row indices[firsts[m] + s] (or firsts[m] + s if
// indices is NULL) of pixels (rows, C,H,W), cropped and flipped by the model's key as in augment.h unless augment is
// NULL, then as the model's view in progress shows them, without its noise. scale, shift: device (C); NULL: pixels are
// float32, which enter as they are, and augment is NULL.
struct CudaProgress;
void cuda_gather(float *out, const uint8_t *pixels, const uint32_t *indices, const struct CudaProgress *progress,
                 const float *scale, const float *shift, Shape shape, const Augment *augment, const CudaStep *step);

// After cuda_gather, adds the noise of the models' views to what it has gathered.
void cuda_add_noise(float *out, const uint32_t *indices, const struct CudaProgress *progress, const float *scale,
                    Shape shape, const CudaStep *step);

// Convolution. Plain layers and the others (layer_is_plain) have different kernels; these functions choose.
void cuda_conv_forward(float *out, const float *in, const float *weight, const float *bias, size_t stride,
                       const Layer *layer, const CudaStep *step);
// weight_gradient (M strided; OC,IC,K,K) and bias_gradient (M strided; OC; NULL as the bias, if the layer has none) are
// overwritten; stride is the gradients'. scratch: cuda_conv_scratch_floats, meaningless between calls; all layers on
// one stream can share it.
void cuda_conv_backward_weight(float *weight_gradient, float *bias_gradient, float *scratch, const float *in,
                               const float *out_gradient, size_t stride, const Layer *layer, const CudaStep *step);
// Floats of device memory. The sums of a small weight are divided among several blocks, which store their parts there:
// at most 212 kB for each model. Otherwise 0, and scratch may be NULL.
size_t cuda_conv_scratch_floats(const Layer *layer, int models, int samples);
// With `adds`, the gradient is added to the one that is already there.
void cuda_conv_backward_input(float *in_gradient, bool adds, const float *out_gradient, const float *weight,
                              size_t stride, const Layer *layer, const CudaStep *step);

// With relu, the same pass applies max(0, .) after the pooling; on the backward pass a window whose maximum is not
// positive then gets no gradient. in_gradient may be `in` itself if the layer is plain.
void cuda_pool_forward(float *out, const float *in, bool relu, const Layer *layer, const CudaStep *step);
void cuda_pool_backward(float *in_gradient, const float *in, const float *out_gradient, bool relu, const Layer *layer,
                        const CudaStep *step);

// Average pooling. Padding counts as zeros, and the sum is divided by the whole window's size.
void cuda_average_forward(float *out, const float *in, const Layer *layer, const CudaStep *step);
void cuda_average_backward(float *in_gradient, const float *out_gradient, const Layer *layer, const CudaStep *step);

// A function of each value (activation.h); the backward pass reads its input.
void cuda_activation_forward(float *out, const float *in, const Layer *layer, const CudaStep *step);
void cuda_activation_backward(float *in_gradient, const float *in, const float *out_gradient, const Layer *layer,
                              const CudaStep *step);

// A leakyrelu whose slopes are weight (M strided; layer->groups). Overwrites the weight's gradient (M strided).
void cuda_prelu_forward(float *out, const float *in, const float *weight, size_t stride, const Layer *layer,
                        const CudaStep *step);
void cuda_prelu_backward_input(float *in_gradient, const float *in, const float *out_gradient, const float *weight,
                               size_t stride, const Layer *layer, const CudaStep *step);
void cuda_prelu_backward_weight(float *weight_gradient, const float *in, const float *out_gradient, size_t stride,
                                const Layer *layer, const CudaStep *step);

// statistics: (M, groups, 2,N). With relu, the pass applies max(0, .), too, and a backward pass begins with that of
// the relu; it computes the relu's input again, from `in`.
void cuda_norm_forward(float *out, float *statistics, const float *in, const float *weight, const float *bias,
                       size_t stride, bool relu, const Layer *layer, const CudaStep *step);
// Overwrites the gradients of input, weight and bias; NULL: not needed (weight and bias together). gradient_stride: of
// the gradients of weight and bias. Where cuda_norm_backs_at_once, and all are needed, they are one launch.
void cuda_norm_backward(float *weight_gradient, float *bias_gradient, float *in_gradient, const float *statistics,
                        const float *in, const float *out_gradient, const float *weight, const float *bias,
                        size_t stride, size_t gradient_stride, bool relu, const Layer *layer, const CudaStep *step);
bool cuda_norm_backs_at_once(const Layer *layer, const CudaStep *step);

// statistics: (M, C, 4): the mean and scale of the forward pass; backward_weight, which must come first, adds the means
// that backward_input needs. parameters: weight, bias, running means and variances. means, variances (M strided; C):
// the running ones, which move if the batch trains; NULL: they stay. gradient (M strided; weight, bias and zeros for
// the running ones) is overwritten; NULL: only the means are computed. relu: as of a norm.
void cuda_batch_norm_forward(float *out, float *statistics, float *means, float *variances, const float *in,
                             const float *parameters, size_t stride, bool trains, bool relu, const Layer *layer,
                             const CudaStep *step);
void cuda_batch_norm_backward_weight(float *gradient, float *statistics, const float *in, const float *out_gradient,
                                     const float *parameters, size_t stride, size_t gradient_stride, bool relu,
                                     const Layer *layer, const CudaStep *step);
void cuda_batch_norm_backward_input(float *in_gradient, const float *statistics, const float *in,
                                    const float *out_gradient, const float *parameters, size_t stride, bool relu,
                                    const Layer *layer, const CudaStep *step);

// `features` of the `all` features of a tensor, from `first` on, for all models.
typedef struct CudaRows {
    float *at; // (M, all,N)
    size_t all, first;
} CudaRows;

// out = in + other; with relu, out = max(0, in + other).
void cuda_sum_forward(float *out, const float *in, const float *other, bool relu, size_t features,
                      const CudaStep *step);
// The backward pass of that relu, in place in `gradient`, which becomes the gradient of both terms: other_gradient gets
// a copy, or with other_adds the sum with what is already there; NULL if unused. A sum without a relu needs no pass.
void cuda_sum_backward(float *gradient, float *other_gradient, bool other_adds, const float *out, size_t features,
                       const CudaStep *step);

// out = a * b, as the op of the CPU.
void cuda_mul_forward(float *out, const float *a, const float *b, size_t a_features, size_t b_features,
                      size_t out_features, const CudaStep *step);
void cuda_mul_backward(float *gradient, bool adds, const float *factor, const float *out_gradient, size_t features,
                       size_t factor_features, size_t out_features, const CudaStep *step);

// out (M, second, first, plane,N) = in (M, first, second, plane,N).
void cuda_swap(float *out, const float *in, size_t first, size_t second, size_t plane, const CudaStep *step);

// to = from, or with `adds` to += from.
void cuda_add(CudaRows to, CudaRows from, size_t features, bool adds, const CudaStep *step);

// In place, for all models' tensors together; out is the output of cuda_relu_forward.
void cuda_relu_forward(float *values, size_t features, const CudaStep *step);
void cuda_relu_backward(float *gradient, const float *out, size_t features, const CudaStep *step);

// Draws the mask that the CPU draws for the same key and step number, and applies it. keep: (M, features,N). keys,
// numbers: device (M). Models differ in step numbers, since they differ in their number of batches. out may be in.
void cuda_dropout_forward(float *out, int8_t *keep, const float *in, const RngKey *keys, const uint32_t *numbers,
                          float rate, size_t features, size_t plane, const CudaStep *step);
// in_gradient may be out_gradient. relu_out: the layer's own output after a relu, whose backward pass is then included;
// otherwise NULL.
void cuda_dropout_backward(float *in_gradient, const int8_t *keep, const float *out_gradient, const float *relu_out,
                           float rate, size_t features, size_t plane, const CudaStep *step);

// Linear layers of in (M, places, IN,N) and out (M, places, OUT,N); a layer over its whole input has one place, and
// with `blas` cuBLAS multiplies its models in a batch. A NULL blas, or several places: one launch of our own product.
// relu_out: in, if it is the output of a relu whose backward pass is included; otherwise NULL. bias: NULL if the layer
// has none, whose gradient is then not written either.
struct CudaBlas; // cuda_blas.h
void cuda_linear_forward(float *out, const float *in, const float *weight, const float *bias, size_t stride, bool relu,
                         const Layer *layer, struct CudaBlas *blas, const CudaStep *step);
void cuda_linear_backward_input(float *in_gradient, const float *out_gradient, const float *relu_out,
                                const float *weight, size_t stride, const Layer *layer, struct CudaBlas *blas,
                                const CudaStep *step);
void cuda_linear_backward_weight(float *weight_gradient, float *bias_gradient, const float *in,
                                 const float *out_gradient, size_t stride, const Layer *layer, struct CudaBlas *blas,
                                 const CudaStep *step);

// A row of the table for each number of in (M, T,N); overwrites the table's gradient (M strided).
void cuda_embedding_forward(float *out, const float *in, const float *weight, size_t stride, const Layer *layer,
                            const CudaStep *step);
void cuda_embedding_backward(float *weight_gradient, const float *in, const float *out_gradient, size_t stride,
                             const Layer *layer, const CudaStep *step);

// out (M, T,E,N) = in + weight (M strided; T,E); overwrites the weight's gradient. The input's gradient is
// out_gradient.
void cuda_positions_forward(float *out, const float *in, const float *weight, size_t stride, const Layer *layer,
                            const CudaStep *step);
void cuda_positions_backward(float *weight_gradient, const float *out_gradient, size_t stride, const Layer *layer,
                             const CudaStep *step);

// An lstm or a gru; a launch for each step. weight: the layer's first parameter. gradient: the gradients of all its
// parameters, overwritten, or NULL. kept (M, features,N): written on the forward pass, read and overwritten on the
// backward pass. in_gradient: NULL if not needed.
size_t cuda_recurrent_kept_features(const Layer *layer);
void cuda_recurrent_forward(float *out, float *kept, const float *in, const float *weight, size_t stride,
                            const Layer *layer, const CudaStep *step);
void cuda_recurrent_backward(float *gradient, float *in_gradient, float *kept, const float *in,
                             const float *out_gradient, const float *weight, size_t stride, size_t gradient_stride,
                             const Layer *layer, const CudaStep *step);

// Attention, with the arguments of an lstm.
size_t cuda_attention_kept_features(const Layer *layer);
void cuda_attention_forward(float *out, float *kept, const float *in, const float *weight, size_t stride,
                            const Layer *layer, const CudaStep *step);
void cuda_attention_backward(float *gradient, float *in_gradient, float *kept, const float *in,
                             const float *out_gradient, const float *weight, size_t stride, size_t gradient_stride,
                             const Layer *layer, const CudaStep *step);

// Softmax and cross-entropy. gradient (M, classes, N): d(mean loss over the model's samples) / d(logits); NULL: the
// step evaluates and counts hits. Losses and hits are added to those of progress, and its tasks move on to their next
// step. Labels are addressed by row as in cuda_gather, and replaced as progress says. class_weights (classes): what a
// sample of each counts in the mean, not in the losses; NULL: 1.
void cuda_softmax_cross_entropy(float *gradient, const struct CudaProgress *progress, const float *logits,
                                const uint16_t *labels, const uint32_t *indices, const float *class_weights,
                                float smoothing, int classes, const CudaStep *step);

// Binary cross-entropy of each output, as in label_rows.h. rows (samples, classes): the samples' labels; NULL: each has
// the one of `labels`, and a hit is its largest output. gradient, outputs: (M, classes,N).
void cuda_binary_cross_entropy(float *gradient, const struct CudaProgress *progress, const float *outputs,
                               const float *rows, const uint16_t *labels, const uint32_t *indices, int classes,
                               const CudaStep *step);

// The squared distance of the one output from a target, its gradient and hits as in regression.h. gradient, outputs:
// (M, 1,N).
void cuda_squared_loss(float *gradient, const struct CudaProgress *progress, const float *outputs, const float *targets,
                       const uint32_t *indices, const CudaStep *step);

// The arrays that a step of SGD changes, of all parameters of a model. Passed to kernels by value.
typedef struct CudaSgdUpdate {
    float *weights;      // (M strided; parameters)
    float *velocity;     // (M strided; parameters); without momentum neither read nor written
    size_t stride;       // of the weights, floats
    size_t state_stride; // of velocity, shifts and gradients
    const float *lr;     // device (1): used instead of sgd.lr, as the rate changes while captured steps do not
    Sgd sgd;
    const float *shifts; // (M strided; parameters): each joins the gradient of its weight; NULL: nothing
    const float *pulls;  // (M): added to each model's weight decay, if there are shifts
} CudaSgdUpdate;

// sgd_step for the `count` parameters from `first` on. gradient: (M state_stride). Idle models keep their parameters.
void cuda_sgd_step(const CudaSgdUpdate *descent, const float *gradient, size_t first, size_t count,
                   const CudaStep *step);
// cuda_sgd_step with one atomic addition per weight, so that no step of several processes is lost (Hogwild).
void cuda_sgd_step_atomically(const CudaSgdUpdate *descent, const float *gradient, size_t first, size_t count,
                              const CudaStep *step);

// full, gradient (M strided): full += gradient * count / totals (M), for these parameters; count: of the step.
void cuda_add_share(float *full, const float *gradient, const uint32_t *totals, size_t stride, size_t first,
                    size_t count, const CudaStep *step);

struct CudaOptimizer; // cuda_net.h

// A block of threads adds the squares of this many parameters.
enum { CUDA_LENGTH_PART = 1 << 16 };

// Arrays for a step that needs a model's whole gradient first, or more state than a velocity. Device (M each).
typedef struct CudaWholeStep {
    double *lengths; // (M, parts): squared, of the parts of the gradients; zeros between steps
    float *factors;  // factors of the gradients, which bound their length (clipping)
    AdamStep *adam;
    uint32_t parts; // of a model's gradient: of CUDA_LENGTH_PART parameters
} CudaWholeStep;

// gradient (M state_stride) += shifts + pulls * weights, for these parameters.
void cuda_join_terms(float *gradient, const CudaSgdUpdate *descent, size_t first, size_t count, const CudaStep *step);
// whole->lengths += the squares of the gradient of these parameters, in a fixed order.
void cuda_add_lengths(const CudaWholeStep *whole, const float *gradient, size_t stride, size_t first, size_t count,
                      const CudaStep *step);
// Sets factors and adam of each model's next step from lengths and forgotten (M, 2).
void cuda_begin_whole_step(const CudaWholeStep *whole, double *forgotten, const struct CudaOptimizer *optimizer,
                           const CudaSgdUpdate *descent, const CudaStep *step);
// The step of these parameters, after cuda_join_terms has added shifts and pulls to the gradient.
void cuda_whole_step(const CudaSgdUpdate *descent, const CudaWholeStep *whole, const struct CudaOptimizer *optimizer,
                     const float *gradient, size_t first, size_t count, const CudaStep *step);
// A step of SGD with one atomic addition per weight (Hogwild).
void cuda_whole_step_atomically(const CudaSgdUpdate *descent, const CudaWholeStep *whole,
                                const struct CudaOptimizer *optimizer, const float *gradient, size_t first,
                                size_t count, const CudaStep *step);

// cuda_linear_backward_weight and the step of SGD of several linear layers in one pass over their parameters, which
// stores no gradient. The layers are over their whole input; count: 1 to CUDA_MOST_LINEAR.
enum { CUDA_MOST_LINEAR = 8 }; // per launch, as they are passed as a kernel's argument

typedef struct CudaLinear {
    const Layer *layer;
    const float *in, *out_gradient;
} CudaLinear;

void cuda_linear_step(const CudaSgdUpdate *descent, const CudaLinear *layers, int count, const CudaStep *step);

C_END

#endif
