// The ops of src/nn, built once per instruction set, and the choice among them at start-up.
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
    size_t packed;   // the weight as the inner loops want it: written once a batch, read by every chunk
    size_t gradient; // the weight's gradient in that layout: added to by every chunk
    size_t scratch;  // forgotten between calls; may be shared by all layers
} ConvSizes;

// One way to compute a convolution (conv.c: directly; winograd.c: through transformed tiles; conv_columns.c: those that
// are not plain, through matrices of columns).
typedef struct ConvKernels {
    ConvSizes (*sizes)(const Layer *layer);

    // weight: (OC,IC,K,K), bias: (OC).
    void (*pack)(float *packed, const float *weight, const Layer *layer);

    // out: (OC,OH,OW,N), of which the columns from count on mean nothing; in: (IC,H,W,N).
    void (*forward)(float *out, float *scratch, const float *in, const float *packed, const float *bias,
                    const Layer *layer, int count, int samples);

    // Adds this chunk's weight gradient to packed_gradient and its bias gradient to bias_gradient; overwrites
    // in_gradient (IC,H,W,N), or with `adds` is added to it; NULL: nobody needs it. Of a rectified layer, zeros come
    // where `in` is not positive. out_gradient (OC,OH,OW,N) must be zero from column count on, and there in_gradient
    // becomes zero, or stays as it was.
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
    bool begins; // with keep = 0: what it was is zero, and a step with weights at hand writes it, too
    // Only for an op that is given the weights, one for each:
    const float *shift; // joins its gradient; NULL: none
    const float
        *before; // where the step finds it, if elsewhere than it leaves it; NULL: there. Of linear weights alone
    // Linear layers go from the last output to the first: what a step ends with is still in the cache when the next one
    // begins there.
    bool upwards;
} SgdUpdate;

// A linear layer's input of one sample as its ops keep it: padded, and by a vector more, so that the same place in
// neighbouring rows does not compete for the same set of a cache.
static inline size_t linear_row_floats(const Layer *layer) {
    return (shape_size(layer->in) + 15) / 16 * 16 + 16;
}

static inline size_t linear_scratch_floats(const Layer *layer, int samples) {
    return (size_t)samples * linear_row_floats(layer) + 16 * shape_size(layer->out);
}

typedef struct Kernels {
    const char *name; // "avx512", "avx2" or "baseline"
    int lanes;        // samples in one vector
    // The same for batches that a shorter vector of samples holds: they leave no lanes empty, and activations take a
    // half or a quarter of the room. Without `conv`, in whose place `columns` works, and without sequences' ops. NULL:
    // there is no shorter one.
    const struct Kernels *few;

    // One SGD step as PyTorch's SGD does it (sgd_velocity in step.h). weights, velocity, gradient: (count). velocity
    // starts as zeros.
    void (*sgd_step)(float *weights, float *velocity, const float *gradient, const Sgd *sgd, size_t count);

    // The same to the bit, but the weights are shared with processes that step at the same time (Hogwild): one
    // compare-and-swap a weight, so that no update is lost.
    void (*sgd_step_atomically)(float *weights, float *velocity, const float *gradient, const Sgd *sgd, size_t count);

    // out (C,H,W,N): sample s < count is row indices[s] (or first + s if indices is NULL) of pixels (rows, C,H,W), each
    // pixel p of channel c as p * scale[c] + shift[c]; the samples from count on are zero.
    void (*gather)(float *out, const uint8_t *pixels, const uint32_t *indices, uint32_t first, const float *scale,
                   const float *shift, Shape shape, int count, int samples);

    // The same samples for a linear layer, which wants them one a row: rows (count, row_floats), with zeros from the
    // last element to the end of a vector.
    void (*gather_rows)(float *rows, const uint8_t *pixels, const uint32_t *indices, uint32_t first, const float *scale,
                        const float *shift, Shape shape, size_t row_floats, int count);

    ConvKernels conv, winograd, columns;

    // Max pooling. out: (C,OH,OW,N). The gradient goes to the first maximum of a window in row-major order, as in
    // PyTorch. in_gradient (C,H,W,N) is overwritten; if the layer is plain, it may be `in` itself.
    void (*pool_forward)(float *out, const float *in, const Layer *layer, int samples);
    void (*pool_backward)(float *in_gradient, const float *in, const float *out_gradient, const Layer *layer,
                          int samples);

    // Average pooling: the window's sum by its size, in which padding counts.
    void (*average_forward)(float *out, const float *in, const Layer *layer, int samples);
    void (*average_backward)(float *in_gradient, const float *out_gradient, const Layer *layer, int samples);

    // In place on `values` and `gradient` (features,N); out is what forward left.
    void (*relu_forward)(float *values, size_t features, int samples);
    void (*relu_backward)(float *gradient, const float *out, size_t features, int samples);

    // A function of each value (activation.h). out, in, in_gradient, out_gradient: (C,H,W,N).
    void (*activation_forward)(float *out, const float *in, const Layer *layer, int samples);
    void (*activation_backward)(float *in_gradient, const float *in, const float *out_gradient, const Layer *layer,
                                int samples);

    // Group and layer normalisation. statistics (groups, 2,N): of what belongs to a group the mean and the factor,
    // written on the way forward and read on the way back. weight, bias: as many as norm_weights says. Adds to the
    // gradients of both; overwrites in_gradient, unless that is NULL.
    void (*norm_forward)(float *out, float *statistics, const float *in, const float *weight, const float *bias,
                         const Layer *layer, int samples);
    void (*norm_backward)(float *weight_gradient, float *bias_gradient, float *in_gradient, const float *statistics,
                          const float *in, const float *out_gradient, const float *weight, const Layer *layer,
                          int samples);

    // Batch normalisation of one chunk that is the whole batch. statistics (channels of BatchStatistics, norm_batch.h)
    // is written on the way forward and read on the way back. parameters: weight, bias, running means and variances;
    // with trains the statistics are the batch's, else the running ones. Adds to gradient (weight, bias); overwrites
    // in_gradient, unless that is NULL. out_gradient must be zero from column count on, and there in_gradient is, too.
    void (*batch_norm_forward)(float *out, float *statistics, const float *in, const float *parameters, bool trains,
                               const Layer *layer, int count, int samples);
    void (*batch_norm_backward)(float *gradient, float *in_gradient, const float *statistics, const float *in,
                                const float *out_gradient, const float *weight, const Layer *layer, int count,
                                int samples);

    // out (1,T,WIDTH,N) = the rows of weight (VOCABULARY,WIDTH) that in (T values,N) numbers. Adds to weight_gradient;
    // where out_gradient is zero nothing changes.
    void (*embedding_forward)(float *out, const float *in, const float *weight, const Layer *layer, int samples);
    void (*embedding_backward)(float *weight_gradient, const float *in, const float *out_gradient, const Layer *layer,
                               int samples);

    // out (1,T,E,N) = in + weight (T,E). Adds to weight_gradient; in's gradient is out's.
    void (*positions_forward)(float *out, const float *in, const float *weight, const Layer *layer, int samples);
    void (*positions_backward)(float *weight_gradient, const float *out_gradient, const Layer *layer, int samples);

    // out: (1,T,UNITS,N), or (UNITS,N) of the last step. kept (lstm_places of sequence.h) is written on the way
    // forward, and read and spoilt on the way back; scratch: lstm_scratch_floats. weight, gradient: all of the layer's
    // parameters. Adds to gradient; overwrites in_gradient (1,T,F,N), unless that is NULL.
    void (*lstm_forward)(float *out, float *kept, float *scratch, const float *in, const float *weight,
                         const Layer *layer, int samples);
    void (*lstm_backward)(float *gradient, float *in_gradient, float *kept, float *scratch, const float *out_gradient,
                          const float *weight, const Layer *layer, int samples);

    // out = a + b; all (features,N). out may be a.
    void (*add)(float *out, const float *a, const float *b, size_t features, int samples);

    // In place on values (features, plane, N): features are channels for dropout2d, with plane = rows * columns; or
    // elements, with plane = 1. keep (features,N) gets a byte of all ones for what is kept, zeros for the rest, and
    // dropout_apply multiplies by 0 or 1 / (1 - rate) accordingly: values on the way forward, gradients back.
    void (*dropout_draw)(int8_t *keep, const DropoutNoise *noise, size_t features, int samples);
    void (*dropout_apply)(float *values, const int8_t *keep, float rate, size_t features, size_t plane, int samples);

    // A linear layer's samples change sides: rows (count, linear_row_floats) = in (IN,N), one sample a row; and back,
    // in_gradient (IN,N) = rows, with zeros from column count on.
    void (*linear_rows)(float *rows, const float *in, const Layer *layer, int count, int samples);
    void (*linear_columns)(float *in_gradient, const float *rows, const Layer *layer, int count, int samples);

    // out (OUT,N) = weight (OUT,IN) * in (IN,N) + bias (OUT), in the first `count` columns; what the others get is
    // finite if bias is, and means nothing. rows is written by linear_rows, for linear_backward_weight to read; or, if
    // in is NULL, it holds the samples already.
    void (*linear_forward)(float *out, float *rows, const float *in, const float *weight, const float *bias,
                           const Layer *layer, int count, int samples);
    // in_gradient (IN,N) is overwritten; if it is NULL, what linear_columns would make it of begins at scratch. From
    // column count on, out_gradient (OUT,N) must be zero and in_gradient becomes zero. scratch: linear_scratch_floats.
    void (*linear_backward_input)(float *in_gradient, float *scratch, const float *out_gradient, const float *weight,
                                  const Layer *layer, int count, int samples);
    // weight_gradient (OUT,IN) is changed as descent says; and so is weight, unless it is NULL.
    void (*linear_backward_weight)(float *weight_gradient, float *weight, const float *rows, const float *out_gradient,
                                   const SgdUpdate *descent, const Layer *layer, int count, int samples);
    // linear_backward_input and then linear_backward_weight with the weights at hand, to the bit; the weight comes from
    // memory once where it can.
    void (*linear_backward_step)(float *in_gradient, float *scratch, float *velocity, float *weight, const float *rows,
                                 const float *out_gradient, const SgdUpdate *descent, const Layer *layer, int count,
                                 int samples);
    // As linear_backward_weight for bias_gradient (OUT) and bias, whose gradients are the sums of out_gradient's rows.
    void (*linear_backward_bias)(float *bias_gradient, float *bias, const float *out_gradient, const SgdUpdate *descent,
                                 const Layer *layer, int samples);

    // The same at each place of a layer of LAYER_LINEAR_EACH: out (C,H,OUT,N), in (C,H,IN,N), rows (places, N,
    // linear_row_floats) of one place. weight, gradient: (OUT,IN) and behind it the bias (OUT). Adds to gradient;
    // overwrites in_gradient, unless that is NULL.
    void (*linear_each_forward)(float *out, float *rows, const float *in, const float *weight, const Layer *layer,
                                int count, int samples);
    void (*linear_each_backward)(float *gradient, float *in_gradient, float *scratch, const float *rows,
                                 const float *out_gradient, const float *weight, const Layer *layer, int count,
                                 int samples);

    // out, in: (1,T,E,N). kept (attention_places of sequence.h) is written on the way forward and read on the way back;
    // scratch: attention_scratch_floats. weight, gradient: all of the layer's parameters. Adds to gradient; overwrites
    // in_gradient, unless that is NULL. From column count on, outputs mean nothing, out_gradient must be zero and
    // in_gradient becomes zero.
    void (*attention_forward)(float *out, float *kept, const float *in, const float *weight, const Layer *layer,
                              int count, int samples);
    void (*attention_backward)(float *gradient, float *in_gradient, float *kept, float *scratch,
                               const float *out_gradient, const float *weight, const Layer *layer, int count,
                               int samples);

    // Softmax and cross-entropy. Returns the summed loss of the first `count` samples, in nats; of the distribution
    // that gives every class smoothing / classes and the label the rest, as PyTorch's label_smoothing. Overwrites
    // gradient (classes,N) with d(scale * sum of losses) / d(logits), zero from count on, unless it is NULL. If hits is
    // not NULL it gets the number of samples whose first largest logit is their label. logits: (classes,N); labels:
    // (count).
    double (*softmax_cross_entropy)(float *gradient, uint32_t *hits, const float *logits, const uint16_t *labels,
                                    float scale, float smoothing, int classes, int count, int samples);
} Kernels;

// The builds themselves; kernels.c chooses among those that exist on this architecture.
extern const Kernels kernels_avx512, kernels_avx2, kernels_baseline;

// The widest build this machine can run, or the one that the environment variable SOUNDER_ISA names. A name that is
// unknown or cannot run here is answered with a warning and the widest.
const Kernels *kernels_best(void);

// Whether it is the name of a build, of this machine or another.
bool kernels_is_name(const char *name);

// The build of that name; NULL if it is unknown or cannot run here.
const Kernels *kernels_named(const char *name);

#endif
