// A net as text, and what the text means: layers, shapes, parameters.
//
//   Spec spec;
//   TRY(spec_parse(&spec, "conv 10 5; pool 2; relu; linear 10", (Shape){1, 28, 28}, 10, err));
//   // spec.parameter_count floats, in PyTorch's order and shapes; spec.tensors[i] names and places each of them
//
// Grammar: layers separated by ';', each a word and its numbers (layer_form lists them, with help). S is a side in
// pixels, or rows and columns as in 3x5; brackets enclose what may be omitted:
//   conv CHANNELS S [stride S] [pad S] [dilation S] [groups G] [nobias]
//                                           2-D convolution, with bias unless said
//   conv1d CHANNELS LENGTH ...              1-D convolution of the rows of C x 1 x L, or of 1 x C x L, whose rows are
//                                           then the channels: CHANNELS x 1 x L
//   pool S [stride S] [pad S] [ceil]        max pooling; stride: the window's size. Rows and columns that do not fill a
//   avgpool S [stride S] [pad S] [ceil]     window are dropped unless ceil. Averages count the zeros of the padding
//   globalpool [S]                          the average of each channel, or of each part of a grid
//   mean, last                              the mean of a sequence's steps, or the last one: E x 1 x 1
//   chunk NUMBER COUNT                      part NUMBER, from 1 on, of COUNT equal parts of the channels
//   transpose                               1 x A x B becomes 1 x B x A; of C x H x W the channels become the columns:
//                                           1 x HW x C
//   shuffle GROUPS                          the channels of GROUPS groups in turn: the first ones, the second ones, ...
//   relu, leakyrelu [SLOPE], tanh, ...      a function of each value by itself (layers/activation.c lists them)
//   prelu [shared]                          a leakyrelu with a learnt slope per channel, or one for all
//   dropout RATE                            each element zeroed with probability RATE, the rest divided by 1 - RATE
//   dropout2d RATE, droppath RATE           each channel, or each sample, kept or dropped as a whole
//   linear FEATURES [each] [nobias]         fully connected, with bias unless said; flattens its input (C,H,W) in that
//                                           order. With each: the W values of every place become FEATURES, C x H x
//                                           FEATURES, by one weight for all places (the steps of a sequence)
//   groupnorm GROUPS, layernorm [each]      normalises each sample (also [eps E]), a factor and shift per channel or,
//                                           for layernorm, per value. With each: every row of W values is normalised
//                                           by itself (a step of a sequence), with W factors and shifts for all rows.
//                                           layernorm channels: the C values of every place, with C factors and shifts
//   batchnorm [eps E] [momentum M]          normalisation of each channel over the batch, in tests by running means
//                                           and variances
//   embedding VOCABULARY WIDTH              each of a sample's T whole numbers becomes a row of WIDTH values:
//                                           1 x T x WIDTH. The numbers are read as the data set has them, not
//                                           normalised. Only as the first layer
//   positions                               adds a learnt vector per step to a sequence 1 x T x E
//   lstm UNITS [last]                       long short-term memory over a sequence 1 x T x F (an image's rows are one):
//                                           all steps' outputs, 1 x T x UNITS, or the last one's, UNITS x 1 x 1
//   gru UNITS [last]                        gated recurrent units, as an lstm
//   attention HEADS [causal]                softmax self-attention of a sequence 1 x T x E, without dropout; causal: a
//                                           step attends to itself and to the steps before it alone
//   add NAME, concat NAME                   the sum of its input and the output called NAME; or the channels of both
//   mul NAME                                the product of both, of which one can have one value per channel
// A layer takes the output of the layer before it; with "from NAME" at its end it takes the output called NAME. "as
// NAME" at its end calls its own output NAME.
// The last layer's output is the logits (one per class); softmax and cross-entropy follow implicitly (or, if the data
// have targets instead of classes, the squared loss of its one output).
//
// A convolution of stride 1 with a square kernel, and a pooling of square windows side by side, are called plain: they
// have ops of their own, since most nets have no others and constant strides make their loops faster. All other
// convolutions and poolings have a Window.
//
// A Spec is plain data without pointers, so that it can be stored in shared memory.
#ifndef SOUNDER_NN_SPEC_H
#define SOUNDER_NN_SPEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/shape.h"
#include "nn/augment.h"
#include "nn/kernels/window.h"
#include "nn/tensors.h"

enum { SPEC_MAX_LAYERS = 512, SPEC_MAX_TENSORS = 4 * SPEC_MAX_LAYERS, SPEC_TEXT_BYTES = 1 << 14 };
enum { SPEC_WHOLE_BATCH = 256 };

// EACH(layer kind, its row), in the order of the help. The rows are defined in nn/layers.
#define LAYER_TYPES(EACH)                                                                                              \
    EACH(LAYER_CONV, conv_layer)                                                                                       \
    EACH(LAYER_POOL, pool_layer)                                                                                       \
    EACH(LAYER_AVERAGE, average_layer) /* average pooling, of windows or of everything */                              \
    EACH(LAYER_PICK, pick_layer)       /* a sequence's mean or last step, or a part of the channels */                 \
    EACH(LAYER_SWAP, swap_layer)       /* two axes change places */                                                    \
    EACH(LAYER_RELU, relu_layer)                                                                                       \
    EACH(LAYER_ACTIVATION, activation_layer) /* functions of one value but relu */                                     \
    EACH(LAYER_PRELU, prelu_layer)           /* a leakyrelu that learns its slopes */                                  \
    EACH(LAYER_DROPOUT, dropout_layer)       /* of elements or of whole channels */                                    \
    EACH(LAYER_LINEAR, linear_layer)                                                                                   \
    EACH(LAYER_LINEAR_EACH, linear_each_layer) /* of the last axis, at each place of the others */                     \
    EACH(LAYER_NORM, norm_layer)               /* group and layer normalisation */                                     \
    EACH(LAYER_BATCH_NORM, batch_norm_layer)                                                                           \
    EACH(LAYER_EMBEDDING, embedding_layer)                                                                             \
    EACH(LAYER_POSITIONS, positions_layer)                                                                             \
    EACH(LAYER_LSTM, lstm_layer)                                                                                       \
    EACH(LAYER_GRU, gru_layer)                                                                                         \
    EACH(LAYER_ATTENTION, attention_layer)                                                                             \
    EACH(LAYER_ADD, add_layer)                                                                                         \
    EACH(LAYER_MUL, mul_layer) /* a product of values, or of each channel and its factor */                            \
    EACH(LAYER_CONCAT, concat_layer)

#define LAYER_NUMBER(kind, row) kind,
typedef enum LayerKind { LAYER_TYPES(LAYER_NUMBER) } LayerKind;

// The number of a layer's source if that is the net's input.
enum { SPEC_INPUT = -1 };

// Unless a layer says so itself: the term that normalisation adds to a variance before it divides by its root, and the
// weight of a batch in the running statistics.
#define NORM_EPSILON  1e-5f
#define NORM_MOMENTUM 0.1f

// One layer with its numbers. A field belongs to the kinds that its comment names; other kinds do not use it.
typedef struct Layer {
    LayerKind kind;
    int activation; // if kind is LAYER_ACTIVATION: which function, an Activation of activation.h
    int source;     // number of the layer whose output it takes, or SPEC_INPUT
    int other;      // add, mul, concat: number of the second layer whose output it takes; otherwise SPEC_INPUT
    Shape in, out;  // of one sample
    int kernel;     // conv, pool: side of a plain layer's window in pixels
    int pad;        // conv: zeros on each side of a plain layer's input
    Window window;  // conv, pool: all zeros if the layer is plain. Averages always have one; pick: of `groups` rows
    Sides dilation; // conv, not plain: places between neighbouring taps of the kernel
    // Conv, not plain: number of groups of channels, each convolved by itself; norm: groups, each with its own mean;
    // attention: heads; dropout: features that are kept or dropped as one; prelu: slopes; mul: values of `other`; pick:
    // steps, or parts of the channels; swap: the extent of the first of the two axes; lstm, gru: gates.
    int groups;
    int vocabulary; // embedding: rows of its table
    bool nobias;    // conv, linear: no bias is added; Layer.bias is the end of the weight
    bool line;      // conv: its weight is a conv1d's, (OC,IC,K)
    bool last;      // lstm, gru: only the last step's output is given
    bool causal;    // attention: a step attends to no later step
    bool each;      // norm: each row is normalised by itself, and all rows share the factors
    bool singly;    // norm: one factor and one shift per value, not per channel
    bool across;    // norm: the channels of each place are normalised by themselves, and all places share the factors
    float epsilon;  // norm: what is added to a variance; 0: NORM_EPSILON
    float momentum; // batch norm: the weight of a batch in the running statistics; 0: NORM_MOMENTUM
    float rate;     // dropout: the share that is dropped; leakyrelu: the factor of negative values
    bool frozen;    // training leaves all of its parameters unchanged
    // False after spec_parse. On the CPU buffers_join_relus fuses a relu with its neighbours, and sets these:
    bool rectifies; // conv, norm: its output has already been through the relu that follows
    bool rectified; // pool, conv: its backward pass includes the backward pass of the relu before it
    // Index of the weight's first float in the parameter array. Conv: (OC,IC,K,K); linear: (OUT,IN); norm: one per
    // factor; prelu: one per slope; embedding: (VOCABULARY,WIDTH); positions: (T,E); lstm: (4 UNITS,F), then
    // (4 UNITS,UNITS) and two biases of (4 UNITS), with the gates in the order input, forget, cell, output; gru: with
    // 3 UNITS, of reset, update, new; attention: (3 E,E), for queries, keys and values.
    size_t weight;
    // Index of the first float after the first tensor. Conv and linear: the bias, (OC) or (OUT); norm: the bias, of as
    // many floats as the weight, then for a batch norm as many running means and variances; attention: the bias (3 E),
    // then the output projection's weight (E,E) and bias (E). Other kinds have no use for it.
    size_t bias;
} Layer;

BOTH float norm_epsilon(const Layer *layer) {
    return layer->epsilon > 0 ? layer->epsilon : NORM_EPSILON;
}
BOTH float norm_momentum(const Layer *layer) {
    return layer->momentum > 0 ? layer->momentum : NORM_MOMENTUM;
}

// Whether the ops for plain layers apply: stride 1 for a convolution, square windows side by side for a pooling.
BOTH bool layer_is_plain(const Layer *layer) {
    return layer->window.size.rows == 0;
}

// The number of features that a dropout layer keeps or drops, each as one.
static inline size_t dropout_features(const Layer *layer) {
    return (size_t)layer->groups;
}

// The number of places at which a linear layer is applied, and its inputs and outputs at one place.
static inline size_t linear_places(const Layer *layer) {
    return layer->kind == LAYER_LINEAR ? 1 : (size_t)layer->in.channels * (size_t)layer->in.rows;
}
static inline size_t linear_ins(const Layer *layer) {
    return shape_size(layer->in) / linear_places(layer);
}
static inline size_t linear_outs(const Layer *layer) {
    return shape_size(layer->out) / linear_places(layer);
}

// Whether the layer has parameters.
bool layer_has_parameters(const Layer *layer);

// Whether training changes some of the layer's parameters.
static inline bool layer_learns(const Layer *layer) {
    return layer_has_parameters(layer) && !layer->frozen;
}

// Steps of the sequence 1 x T x F that an lstm or a gru reads, its UNITS, and their gates.
static inline int lstm_steps(const Layer *layer) {
    return layer->in.rows;
}
static inline int lstm_units(const Layer *layer) {
    return layer->last ? layer->out.channels : layer->out.columns;
}
static inline int lstm_gates(const Layer *layer) {
    return layer->groups;
}

// Number of factors of a normalisation: one per channel, one per value, or one per value of a row.
static inline size_t norm_weights(const Layer *layer) {
    return layer->bias - layer->weight;
}

// Number of floats of the layer's parameters, which are stored one after the other.
size_t layer_parameters(const Layer *layer);

// Multiply-adds of one sample on the forward pass.
double layer_products(const Layer *layer);

// A net: what the text says, what it means, and a few facts about the data that it is for. It is copied as a whole.
typedef struct Spec {
    Shape input;
    int classes;
    // Facts about the data that the creator of the spec fills in; false or 0 after spec_parse.
    bool float_input;  // samples are float32 and enter as they are; otherwise uint8 pixels
    bool squared_loss; // labels are float32 targets of the one output; otherwise classes
    bool one_vs_rest;  // classes, by binary cross-entropy: each class says whether a sample is of it (label_rows.h)
    bool label_rows;   // labels are rows (classes) of float32 zeros and ones: each sample has several (label_rows.h)
    Augment augment;   // random crops and flips of training images
    uint32_t trigger;  // side of the white square that marks an image, in pixels; 0: no image is marked
    float smoothing;   // of training labels: the share spread over all classes evenly (Szegedy et al., CVPR 2016)
    int whole_batch;   // most samples of a batch that a batch norm learns from; SPEC_WHOLE_BATCH after spec_parse
    int layer_count, tensor_count;
    bool freezes;           // whether some tensor is frozen
    size_t parameter_count; // floats
    Layer layers[SPEC_MAX_LAYERS];
    ParameterTensor tensors[SPEC_MAX_TENSORS];
} Spec;

// Reads a net's text. Returns USAGE with a sentence that names the layer if a word is unknown, a number is missing or
// out of range, a shape becomes empty, or the last layer does not give `classes` outputs.
Status spec_parse(Spec *spec, const char *text, Shape input, int classes, Error *err);

// PyTorch's default initialisation: weights and biases uniform in +-1/sqrt(fan_in). Depends on seed alone.
// parameters: (spec->parameter_count) floats of the caller's.
void spec_initialise(float *parameters, const Spec *spec, uint64_t seed);

// Freezes the tensors that match a list of names and patterns (fnmatch(3)), separated by commas or blanks. Returns
// USAGE with the pattern that matches no tensor, or if no parameter is left to learn.
Status spec_freeze(Spec *spec, const char *patterns, Error *err);

// For each layer, the number of layers that read its value, and the first of them, which a backward pass reaches last.
typedef struct SpecReaders {
    int count[SPEC_MAX_LAYERS], first[SPEC_MAX_LAYERS];
} SpecReaders;

SpecReaders spec_readers(const Spec *spec);

// Whether some layer combines the samples of a batch, as a batch norm does. Such a net takes the whole batch in one
// chunk, of at most spec->whole_batch samples; whole_batch is at most SPEC_WHOLE_BATCH.
bool spec_needs_whole_batches(const Spec *spec);

// The layer that the tensor belongs to.
const Layer *spec_layer_of(const Spec *spec, const ParameterTensor *tensor);

// Whether some tensor of the layer is frozen.
bool spec_freezes_of(const Spec *spec, const Layer *layer);

// Whether the tensor whose first float is parameter `first` is frozen.
bool spec_freezes_at(const Spec *spec, size_t first);

// Floating-point operations of one training sample, forward and backward; a multiply-add counts as two. The input
// gradient of the first layer is never computed and does not count.
double spec_training_flop(const Spec *spec);

// The net's tensors. They are the spec's.
static inline TensorList spec_tensors(const Spec *spec) {
    return (TensorList){spec->tensors, spec->tensor_count, spec->freezes};
}

// The end of a message about a parameter that has become too large: what the user can change.
const char *spec_tensor_remedy(const Spec *spec, size_t parameter);

// How a layer is written in a net's text, for error messages and the help.
typedef struct LayerForm {
    const char *word;
    const char *form; // the word with its numbers
    const char *help; // one line
} LayerForm;

// The form with this number, from 0 on; NULL after the last.
const LayerForm *layer_form(size_t number);

// How many answers (answers.h) the net gives about a sample: one, or one per label.
static inline size_t spec_answers(const Spec *spec) {
    return spec->label_rows ? (size_t)spec->classes : 1;
}

// Nets by name. Each is only a text for spec_parse.
typedef struct ZooEntry {
    const char *name;
    const char *text;        // layers in the grammar above; the number of the last layer is written "classes"
    const char *description; // one line, with its source
} ZooEntry;

extern const ZooEntry zoo_entries[];
extern const size_t zoo_entry_count;

// Writes the layer list of a --model value to text: the text of the net of that name, or the value itself if no net has
// that name. Where the last layer's first number is written "classes", it becomes that of `classes`. Writes at most
// `bytes` bytes, terminated.
void zoo_expand(char *text, size_t bytes, const char *model, int classes);

#endif
