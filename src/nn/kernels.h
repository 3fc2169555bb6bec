// The ops of src/nn, built once per instruction set, and the choice of a build at start-up.
//
// Each op's .c file is compiled three times with SOUNDER_LANES set to 16 (AVX-512), 8 (AVX2 and FMA) or 4 (baseline):
// a vector of lanes then fills exactly one register. Kernels is the table of one build; everything outside src/nn
// calls ops through it.
//
// Conventions of every op: outputs first, then const inputs, then sizes. Activations are (C,H,W,N), batch innermost:
// N = `samples`, a multiple of `lanes`, of which the first `count` are real. Tensors of lanes and scratch are 64-byte
// aligned; parameters and their gradients need no alignment. Nothing is read that was not written before, and nothing
// but the outputs and scratch is written.
#ifndef SOUNDER_NN_KERNELS_H
#define SOUNDER_NN_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/rng.h"
#include "base/shape.h"
#include "nn/spec.h"
#include "nn/step.h"

// Floats that a convolution keeps besides its tensors. All three are the caller's.
typedef struct ConvSizes {
    size_t packed;   // the weight in the layout of the inner loops: written once per batch, read by every chunk
    size_t gradient; // the weight's gradient in that layout: every chunk adds to it
    size_t scratch;  // meaningless between calls; all layers can share it
} ConvSizes;

// The most pairs of an output's and an input's place that conv_dense.c takes.
enum { CONV_DENSE_MOST = 64 };

// One way to compute a convolution: directly (conv.c), through transformed tiles (winograd.c), through matrices of
// columns (conv_columns.c), which alone takes layers in groups, or over channels and places at once (conv_dense.c).
typedef struct ConvKernels {
    ConvSizes (*sizes)(const Layer *layer);

    // weight: (OC,IC,K,K), bias and its gradient: (OC); NULL if the layer has none.
    void (*pack)(float *packed, const float *weight, const Layer *layer);

    // out: (OC,OH,OW,N), where columns from count on have no meaning; in: (IC,H,W,N).
    void (*forward)(float *out, float *scratch, const float *in, const float *packed, const float *bias,
                    const Layer *layer, int count, int samples);

    // Adds this chunk's weight gradient to packed_gradient and its bias gradient to bias_gradient. Overwrites
    // in_gradient (IC,H,W,N), or adds to it if `adds`; in_gradient is NULL if it is not needed. For a rectified layer,
    // in_gradient is zero wherever `in` is not positive. out_gradient (OC,OH,OW,N) must be zero from column count on;
    // in_gradient becomes zero there, or stays as it was.
    void (*backward)(float *packed_gradient, float *bias_gradient, float *in_gradient, bool adds, float *scratch,
                     const float *in, const float *out_gradient, const float *packed, const Layer *layer, int count,
                     int samples);

    // weight_gradient: (OC,IC,K,K), overwritten.
    void (*unpack)(float *weight_gradient, const float *packed_gradient, const Layer *layer);
} ConvKernels;

// The noise of one dropout layer in one step: keep[f,s] is true if rng_float(word f % 4 of
// rng_block(key, f / 4, first_sample + s, step, 0)) >= rate.
typedef struct DropoutNoise {
    RngKey key;
    uint32_t first_sample; // place of the chunk's first sample in the batch
    uint32_t step;
    float rate; // in [0, 1)
} DropoutNoise;

// How an op stores the gradient of a parameter: stored = keep * stored + gradient, where keep is 0 to overwrite, 1 to
// add up, and the momentum if SGD's velocity is stored. An op that is given the weights completes one step of SGD, with
// the bits of sgd_step: weight_decay * weight joins the gradient, and then weight -= lr * stored; with keep = 0 it may
// leave the stored value as it was, as no later step reads it.
typedef struct SgdUpdate {
    float keep, lr, weight_decay;
    bool begins; // with keep = 0: the stored value counts as zero, and a step writes it although keep is 0
    // Only for an op that is given the weights, one float per weight:
    const float *shift;  // joins the gradient; NULL: nothing
    const float *before; // the weights before the step, if not in place; NULL: in place. For linear weights alone
    // Linear layers alternate the order of outputs from step to step: the rows that a step ends with are still in the
    // cache when the next step begins with them.
    bool upwards;
} SgdUpdate;

// Floats of a linear layer's input for one sample, as its ops store it: padded to whole vectors, plus one vector, so
// that equal places in neighbouring rows do not compete for one set of a cache.
static inline size_t linear_row_floats(const Layer *layer) {
    return (shape_size(layer->in) + 15) / 16 * 16 + 16;
}

// Scratch of the linear ops: a row per sample, and the last partial vector of every output's weights.
static inline size_t linear_scratch_floats(const Layer *layer, int samples) {
    return (size_t)samples * linear_row_floats(layer) + 16 * shape_size(layer->out);
}

// The table of one build's ops. Shapes are those of the layer: C, H and W of its input or output, IC and OC channels of
// input and output, IN and OUT values of a linear layer's input and output, T steps of a sequence. An op that is given
// `layer` reads its sizes there.
typedef struct Kernels {
    const char *name; // "avx512", "avx2" or "baseline"
    int lanes;        // samples in one vector
    // Ops for batches that fit a shorter vector of samples: no lane stays empty, and activations take a half or a
    // quarter of the memory. It has no `conv` (columns serves instead) and no ops for sequences. NULL: no shorter
    // vector.
    const struct Kernels *few;

    // One SGD step as PyTorch's SGD does it (sgd_velocity in step.h). weights, velocity, gradient: (count). velocity
    // starts as zeros.
    void (*sgd_step)(float *weights, float *velocity, const float *gradient, const Sgd *sgd, size_t count);

    // The same arithmetic, to the bit, on weights that other processes step at the same time (Hogwild): one
    // compare-and-swap per weight, so that no update is lost.
    void (*sgd_step_atomically)(float *weights, float *velocity, const float *gradient, const Sgd *sgd, size_t count);

    // out (C,H,W,N): sample s < count is row indices[s] (or first + s if indices is NULL) of pixels (rows, C,H,W), each
    // pixel p of channel c as p * scale[c] + shift[c]; the samples from count on are zero.
    void (*gather)(float *out, const uint8_t *pixels, const uint32_t *indices, uint32_t first, const float *scale,
                   const float *shift, Shape shape, int count, int samples);

    // gather for a linear layer, which takes its samples as rows: rows (count, row_floats), with zeros after the last
    // element up to a whole vector.
    void (*gather_rows)(float *rows, const uint8_t *pixels, const uint32_t *indices, uint32_t first, const float *scale,
                        const float *shift, Shape shape, size_t row_floats, int count);

    ConvKernels conv, winograd, columns, dense;

    // Max pooling. out: (C,OH,OW,N). The gradient goes to the first maximum of a window in row-major order, as in
    // PyTorch. in_gradient (C,H,W,N) is overwritten; if the layer is plain, it may be `in` itself.
    void (*pool_forward)(float *out, const float *in, const Layer *layer, int samples);
    void (*pool_backward)(float *in_gradient, const float *in, const float *out_gradient, const Layer *layer,
                          int samples);

    // Average pooling: the window's sum divided by the window's size, padding included.
    void (*average_forward)(float *out, const float *in, const Layer *layer, int samples);
    void (*average_backward)(float *in_gradient, const float *out_gradient, const Layer *layer, int samples);

    // In place on `values` and `gradient` (features,N); out is the output of relu_forward.
    void (*relu_forward)(float *values, size_t features, int samples);
    void (*relu_backward)(float *gradient, const float *out, size_t features, int samples);

    // A function of each value (activation.h). out, in, in_gradient, out_gradient: (C,H,W,N).
    void (*activation_forward)(float *out, const float *in, const Layer *layer, int samples);
    void (*activation_backward)(float *in_gradient, const float *in, const float *out_gradient, const Layer *layer,
                                int samples);

    // Group and layer normalisation. statistics (groups, 2,N): the mean and the factor of every group and sample,
    // written on the forward pass and read on the backward pass. weight, bias: norm_weights floats each. Adds to the
    // gradients of both; overwrites in_gradient, unless that is NULL.
    void (*norm_forward)(float *out, float *statistics, const float *in, const float *weight, const float *bias,
                         const Layer *layer, int samples);
    void (*norm_backward)(float *weight_gradient, float *bias_gradient, float *in_gradient, const float *statistics,
                          const float *in, const float *out_gradient, const float *weight, const Layer *layer,
                          int samples);

    // Batch normalisation of one chunk that is the whole batch. statistics (channels of BatchStatistics,
    // batch_statistics.h) is written on the forward pass and read on the backward pass. parameters: weight, bias,
    // running means and variances; with trains the statistics are the batch's, else the running ones. Adds to gradient
    // (weight, bias); overwrites in_gradient, unless that is NULL. out_gradient must be zero from column count on;
    // in_gradient becomes zero there.
    void (*batch_norm_forward)(float *out, float *statistics, const float *in, const float *parameters, bool trains,
                               const Layer *layer, int count, int samples);
    void (*batch_norm_backward)(float *gradient, float *in_gradient, const float *statistics, const float *in,
                                const float *out_gradient, const float *weight, const Layer *layer, int count,
                                int samples);

    // in (T,N) holds row numbers of weight (VOCABULARY,WIDTH); out (1,T,WIDTH,N) gets these rows. The backward pass
    // adds to weight_gradient; zeros in out_gradient change nothing.
    void (*embedding_forward)(float *out, const float *in, const float *weight, const Layer *layer, int samples);
    void (*embedding_backward)(float *weight_gradient, const float *in, const float *out_gradient, const Layer *layer,
                               int samples);

    // out (1,T,E,N) = in + weight (T,E). The backward pass adds to weight_gradient; the input's gradient is
    // out_gradient.
    void (*positions_forward)(float *out, const float *in, const float *weight, const Layer *layer, int samples);
    void (*positions_backward)(float *weight_gradient, const float *out_gradient, const Layer *layer, int samples);

    // An lstm or a gru. out: (1,T,UNITS,N), or (UNITS,N) of the last step. kept (lstm_places of sequence.h) is written
    // on the forward pass; the backward pass reads and overwrites it. scratch: lstm_scratch_floats. weight, gradient:
    // all of the layer's parameters. Adds to gradient; overwrites in_gradient (1,T,F,N), unless that is NULL.
    void (*recurrent_forward)(float *out, float *kept, float *scratch, const float *in, const float *weight,
                              const Layer *layer, int samples);
    void (*recurrent_backward)(float *gradient, float *in_gradient, float *kept, float *scratch,
                               const float *out_gradient, const float *weight, const Layer *layer, int samples);

    // out = a + b; all (features,N). out may be a.
    void (*add)(float *out, const float *a, const float *b, size_t features, int samples);

    // out (out_features,N) = a * b. Each factor has as many features, or one for each `out_features / its features`
    // neighbours of them. The backward pass writes one factor's gradient, or with `adds` adds to it.
    void (*mul_forward)(float *out, const float *a, const float *b, size_t a_features, size_t b_features,
                        size_t out_features, int samples);
    void (*mul_backward)(float *gradient, bool adds, const float *factor, const float *out_gradient, size_t features,
                         size_t factor_features, size_t out_features, int samples);

    // In place on values (features, plane, N): for dropout2d a feature is a channel and plane is rows * columns;
    // otherwise a feature is an element and plane is 1. keep (features,N) gets a byte of all ones for a kept feature,
    // and zero otherwise. dropout_apply multiplies by 1 / (1 - rate) or 0 accordingly: values on the forward pass,
    // gradients on the backward pass.
    void (*dropout_draw)(int8_t *keep, const DropoutNoise *noise, size_t features, int samples);
    void (*dropout_apply)(float *values, const int8_t *keep, float rate, size_t features, size_t plane, int samples);

    // Transposes a linear layer's samples: rows (count, linear_row_floats) = in (IN,N), one row per sample; and in the
    // other direction in_gradient (IN,N) = rows, with zeros from column count on.
    void (*linear_rows)(float *rows, const float *in, const Layer *layer, int count, int samples);
    void (*linear_columns)(float *in_gradient, const float *rows, const Layer *layer, int count, int samples);

    // out (OUT,N) = weight (OUT,IN) * in (IN,N) + bias (OUT; NULL: zeros) in the first `count` columns; the other
    // columns are finite if bias is, and have no meaning. Writes rows as linear_rows does, for linear_backward_weight
    // to read; if in is NULL, rows must hold the samples already.
    void (*linear_forward)(float *out, float *rows, const float *in, const float *weight, const float *bias,
                           const Layer *layer, int count, int samples);
    // Overwrites in_gradient (IN,N); if that is NULL, scratch begins with the rows that linear_columns would transpose.
    // From column count on, out_gradient (OUT,N) must be zero and in_gradient becomes zero. scratch:
    // linear_scratch_floats.
    void (*linear_backward_input)(float *in_gradient, float *scratch, const float *out_gradient, const float *weight,
                                  const Layer *layer, int count, int samples);
    // Updates weight_gradient (OUT,IN) as descent says, and weight, too, unless that is NULL.
    void (*linear_backward_weight)(float *weight_gradient, float *weight, const float *rows, const float *out_gradient,
                                   const SgdUpdate *descent, const Layer *layer, int count, int samples);
    // linear_backward_input followed by linear_backward_weight with the weights given, to the bit; the weight is read
    // from memory only once if the samples' rows fit the cache.
    void (*linear_backward_step)(float *in_gradient, float *scratch, float *velocity, float *weight, const float *rows,
                                 const float *out_gradient, const SgdUpdate *descent, const Layer *layer, int count,
                                 int samples);
    // As linear_backward_weight, for bias_gradient (OUT) and bias: their gradients are the row sums of out_gradient.
    void (*linear_backward_bias)(float *bias_gradient, float *bias, const float *out_gradient, const SgdUpdate *descent,
                                 const Layer *layer, int samples);

    // The linear layer at each place of a LAYER_LINEAR_EACH: out (C,H,OUT,N), in (C,H,IN,N), rows (places, N,
    // linear_row_floats of one place). weight, gradient: (OUT,IN), followed by the bias (OUT) unless nobias. Adds to
    // gradient; overwrites in_gradient, unless that is NULL.
    void (*linear_each_forward)(float *out, float *rows, const float *in, const float *weight, const Layer *layer,
                                int count, int samples);
    void (*linear_each_backward)(float *gradient, float *in_gradient, float *scratch, const float *rows,
                                 const float *out_gradient, const float *weight, const Layer *layer, int count,
                                 int samples);

    // out, in: (1,T,E,N). kept (attention_places of sequence.h) is written on the forward pass and read on the backward
    // pass; scratch: attention_scratch_floats. weight, gradient: all of the layer's parameters. Adds to gradient;
    // overwrites in_gradient, unless that is NULL. From column count on, outputs have no meaning, out_gradient must be
    // zero and in_gradient becomes zero.
    void (*attention_forward)(float *out, float *kept, const float *in, const float *weight, const Layer *layer,
                              int count, int samples);
    void (*attention_backward)(float *gradient, float *in_gradient, float *kept, float *scratch,
                               const float *out_gradient, const float *weight, const Layer *layer, int count,
                               int samples);

    // Softmax and cross-entropy. Returns the summed loss of the first `count` samples, in nats. The target distribution
    // gives every class smoothing / classes and the label the rest, as PyTorch's label_smoothing. Overwrites gradient
    // (classes,N) with d(scale * sum of losses) / d(logits), zero from count on, unless it is NULL. If hits is not NULL
    // it gets the number of samples whose first largest logit is their label. logits: (classes,N); labels: (count).
    double (*softmax_cross_entropy)(float *gradient, uint32_t *hits, const float *logits, const uint16_t *labels,
                                    float scale, float smoothing, int classes, int count, int samples);
} Kernels;

// The builds. kernels.c chooses among those that exist on this architecture.
extern const Kernels kernels_avx512, kernels_avx2, kernels_baseline;

// The widest build that this machine can run, or the one that the environment variable SOUNDER_ISA names. If that name
// is unknown or cannot run here, it logs a warning and returns the widest.
const Kernels *kernels_best(void);

// Whether it is the name of a build, on this machine or another.
bool kernels_is_name(const char *name);

// The build of that name; NULL if it is unknown or cannot run here.
const Kernels *kernels_named(const char *name);

#endif
