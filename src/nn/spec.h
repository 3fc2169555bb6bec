// A net as text, and what the text means: layers, shapes, parameters.
//
//   Spec spec;
//   TRY(spec_parse(&spec, "conv 10 5; pool 2; relu; linear 10", (Shape){1, 28, 28}, 10, err));
//   // spec.parameter_count floats, in PyTorch's order and shapes; spec.tensors[i] names and places each of them
//
// Grammar: layers separated by ';', each a word and its numbers (layer_form has the list, with help). S is a side in
// pixels, or rows and columns as in 3x5; what stands in brackets may be left out:
//   conv CHANNELS S [stride S] [pad S] [dilation S] [groups G]
//                                           2-D convolution with bias
//   pool S [stride S] [pad S]               max pooling; stride: the window's size. Rows and columns that do not fill a
//   avgpool S [stride S] [pad S]            window are dropped. Averages count the zeros of the padding
//   globalpool                              the average of each channel
//   relu, relu6, leakyrelu [SLOPE], tanh, sigmoid, gelu
//   dropout RATE                            each element zeroed with probability RATE, the rest divided by 1 - RATE
//   dropout2d RATE                          the same for whole channels
//   linear FEATURES [each]                  fully connected, bias; flattens its input (C,H,W) in that order. With each:
//                                           a place's W values become FEATURES, C x H x FEATURES: at every step of a
//                                           sequence the same
//   groupnorm GROUPS, layernorm [each]      normalisation within each sample, with a factor and a shift of each channel
//                                           or, as layernorm, of each value. With each: of every row of W values by
//                                           itself, as of a sequence's steps, with the same W factors and shifts
//   batchnorm                               normalisation of each channel over the batch, in tests by running means
//                                           and variances
//   embedding VOCABULARY WIDTH              a row of WIDTH values for each whole number of a sample, as the data set
//                                           has it, not normalised: of T numbers a sequence 1 x T x WIDTH. Only as the
//                                           first layer
//   positions                               a learnt vector of each step is added to a sequence 1 x T x E
//   lstm UNITS [last]                       long short-term memory over a sequence 1 x T x F (an image's rows are one):
//                                           the outputs of all steps, 1 x T x UNITS, or of the last, UNITS x 1 x 1
//   attention HEADS [causal]                softmax attention of a sequence 1 x T x E to itself, or with causal of each
//                                           step to those before it and itself: 1 x T x E, no dropout
//   add NAME, concat NAME                   its input plus what NAME gives; or the channels of both
// Each takes what the layer before it gives, or with "from NAME" behind it what NAME gives; "as NAME" behind a layer
// gives a name to what it gives.
// The last layer's output is the logits (one per class); softmax and cross-entropy follow implicitly (or,
// where the data have targets instead of classes, the squared loss of its one output).
// A convolution of stride 1 with a square kernel and a pooling of square windows side by side are plain: they have ops
// of their own, the others go a general way.
// A Spec is plain data without pointers: it may lie in shared memory.
#ifndef SOUNDER_NN_SPEC_H
#define SOUNDER_NN_SPEC_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/shape.h"
#include "nn/augment.h"
#include "nn/kernels/window.h"
#include <stddef.h>

enum { SPEC_MAX_LAYERS = 128, SPEC_MAX_TENSORS = 4 * SPEC_MAX_LAYERS, SPEC_TEXT_BYTES = 2048, TENSOR_NAME_BYTES = 32 };
enum { SPEC_WHOLE_BATCH = 256 };

// EACH(number of a kind of layer, its row): the order is that of the help. The rows are in nn/layers.
#define LAYER_TYPES(EACH)                                                                                              \
    EACH(LAYER_CONV, conv_layer)                                                                                       \
    EACH(LAYER_POOL, pool_layer)                                                                                       \
    EACH(LAYER_AVERAGE, average_layer) /* average pooling, of windows or of everything */                              \
    EACH(LAYER_RELU, relu_layer)                                                                                       \
    EACH(LAYER_ACTIVATION, activation_layer) /* the functions of Activation */                                         \
    EACH(LAYER_DROPOUT, dropout_layer)                                                                                 \
    EACH(LAYER_DROPOUT2D, dropout2d_layer)                                                                             \
    EACH(LAYER_LINEAR, linear_layer)                                                                                   \
    EACH(LAYER_LINEAR_EACH, linear_each_layer) /* of the last axis, at each place of the others */                     \
    EACH(LAYER_NORM, norm_layer)               /* group and layer normalisation */                                     \
    EACH(LAYER_BATCH_NORM, batch_norm_layer)                                                                           \
    EACH(LAYER_EMBEDDING, embedding_layer)                                                                             \
    EACH(LAYER_POSITIONS, positions_layer)                                                                             \
    EACH(LAYER_LSTM, lstm_layer)                                                                                       \
    EACH(LAYER_ATTENTION, attention_layer)                                                                             \
    EACH(LAYER_ADD, add_layer)                                                                                         \
    EACH(LAYER_CONCAT, concat_layer)

#define LAYER_NUMBER(kind, row) kind,
typedef enum LayerKind { LAYER_TYPES(LAYER_NUMBER) } LayerKind;
#undef LAYER_NUMBER

// In the place of a layer's number: the net's input.
enum { SPEC_INPUT = -1 };

// What normalisation adds to a variance.
#define NORM_EPSILON 1e-5f

// Functions of one value; activation.h has them, relu is a kind of layer of its own.
typedef enum Activation {
    ACTIVATION_TANH,
    ACTIVATION_SIGMOID,
    ACTIVATION_LEAKY_RELU,
    ACTIVATION_RELU6,
    ACTIVATION_GELU,
} Activation;

typedef struct Layer {
    LayerKind kind;
    Activation activation; // which, where the kind is that
    int source;            // the layer whose output it takes, or SPEC_INPUT
    int other;             // add, concat: the layer whose output it takes besides; otherwise SPEC_INPUT
    Shape in, out;         // of one sample
    int kernel;            // conv, pool: side of a plain layer's window in pixels
    int pad;               // conv: zeros on each side of a plain layer's input
    Window window;         // conv, pool: all zeros if the layer is plain. Averages always have one
    Sides dilation;        // conv, not plain: from one tap of the kernel to the next
    int groups;            // conv, not plain: of channels, each convolved by itself; norm: each with its own mean;
                           // attention: heads; dropout: of values that are dropped together
    int vocabulary;        // embedding: rows of its table
    bool last;             // lstm: only the last step's output is given
    bool causal;           // attention: no step looks at those behind it
    bool each;             // norm: each row by itself, by the same factors
    bool singly;           // norm: a factor and a shift of each value, not of each channel
    float rate;            // dropout; leakyrelu: what values below zero are multiplied by
    bool frozen;           // training moves none of its parameters
    // False after spec_parse; a net on the CPU joins a relu with its neighbours (buffers.h), all of whom say so.
    bool rectifies; // conv, norm: what it gives has been through the relu behind it
    bool rectified; // pool, conv: gradients go back as if through the relu before it, too
    // First float of the weight in the parameter array: conv (OC,IC,K,K), linear (OUT,IN), norm, embedding
    // (VOCABULARY,WIDTH), positions (T,E), lstm (4 UNITS,F) and then (4 UNITS,UNITS), the gates input, forget, cell,
    // output one after the other, attention (3 E,E), for queries, keys and values.
    size_t weight;
    // First float of the bias, behind the weight: (OC) or (OUT); lstm: two of (4 UNITS); embedding, positions: none;
    // norm: as many as of the weight, and of a batch norm as many running means and variances behind them; attention:
    // (3 E), and behind it the second projection's weight (E,E) and bias (E).
    size_t bias;
} Layer;

// Whether ops made for square windows serve: of convolutions with stride 1, of poolings side by side.
BOTH bool layer_is_plain(const Layer *layer) {
    return layer->window.size.rows == 0;
}

// What one output of a convolution is a sum of.
static inline size_t conv_inputs(const Layer *layer) {
    const size_t channels = (size_t)layer->in.channels, side = (size_t)layer->kernel;
    if (layer_is_plain(layer)) return channels * side * side;
    return channels / (size_t)layer->groups * (size_t)layer->window.size.rows * (size_t)layer->window.size.columns;
}

// How many features a dropout decides about.
static inline size_t dropout_features(const Layer *layer) {
    return (size_t)layer->groups;
}

// Whether it is fully connected: of everything, or of the last axis at each place.
static inline bool layer_is_linear(const Layer *layer) {
    return layer->kind == LAYER_LINEAR || layer->kind == LAYER_LINEAR_EACH;
}

// Where a linear layer is applied by itself, and what it takes and gives there.
static inline size_t linear_places(const Layer *layer) {
    return layer->kind == LAYER_LINEAR ? 1 : (size_t)layer->in.channels * (size_t)layer->in.rows;
}
static inline size_t linear_ins(const Layer *layer) {
    return shape_size(layer->in) / linear_places(layer);
}
static inline size_t linear_outs(const Layer *layer) {
    return shape_size(layer->out) / linear_places(layer);
}

// Whether it has parameters.
bool layer_has_parameters(const Layer *layer);

// Whether training moves any of them.
static inline bool layer_learns(const Layer *layer) {
    return layer_has_parameters(layer) && !layer->frozen;
}

// Of a sequence 1 x T x F: its steps, and what one of them is. UNITS of an lstm.
static inline int lstm_steps(const Layer *layer) {
    return layer->in.rows;
}
static inline int lstm_units(const Layer *layer) {
    return layer->last ? layer->out.channels : layer->out.columns;
}

// Factors of a normalisation: of each channel, of each value, or of each value of a row.
static inline size_t norm_weights(const Layer *layer) {
    return layer->bias - layer->weight;
}

// Floats of a layer's parameters, which are stored one after the other.
size_t layer_parameters(const Layer *layer);

// Multiply-adds of one sample on the forward pass.
double layer_products(const Layer *layer);

// One named parameter tensor, as PyTorch's state_dict has it ("conv1.weight").
typedef struct ParameterTensor {
    char name[TENSOR_NAME_BYTES];
    int rank; // number of dimensions, 1 to 4
    int64_t shape[4];
    size_t first;   // first float in the parameter array
    size_t count;   // floats
    int64_t fan_in; // inputs of one output: bounds the initial values; 0: all are `start`
    double stretch; // the bound is so many times 1 / sqrt(fan_in)
    float start;
    bool normal;  // the initial values are drawn from the normal distribution; their deviation is `stretch`
    bool frozen;  // training leaves it as it is, and it is not sent
    bool follows; // running statistics (norm_batch.h): batches move it, gradients do not
} ParameterTensor;

typedef struct Spec {
    Shape input;
    int classes;
    // What the data are, for whoever made the spec to say: false after spec_parse.
    bool float_input;  // samples are float32 and enter as they are; otherwise uint8 pixels
    bool squared_loss; // labels are float32 targets of the one output; otherwise classes
    Augment augment;   // what training makes of images
    uint32_t trigger;  // rows and columns of the white square that marks an image; 0: no batch has marked ones
    float smoothing;   // of training labels: this share is spread over all classes evenly (Szegedy et al., CVPR 2016)
    int whole_batch;   // samples of the largest batch that a batch norm learns from; SPEC_WHOLE_BATCH after spec_parse
    int layer_count, tensor_count;
    bool freezes;           // some tensor is frozen
    size_t parameter_count; // floats
    Layer layers[SPEC_MAX_LAYERS];
    ParameterTensor tensors[SPEC_MAX_TENSORS];
} Spec;

// Reads a net's text. USAGE with a sentence that names the layer when a word is unknown, a number is missing or out of
// range, a shape becomes empty, or the last layer does not give `classes` outputs.
Status spec_parse(Spec *spec, const char *text, Shape input, int classes, Error *err);

// PyTorch's default initialisation: weights and biases uniform in +-1/sqrt(fan_in). Depends on seed alone.
// parameters: (spec->parameter_count) floats of the caller's.
void spec_initialise(float *parameters, const Spec *spec, uint64_t seed);

// Freezes the tensors that a list of names and patterns (fnmatch(3)) means, between commas or blanks. USAGE with what
// fits no tensor, or when nothing is left to learn.
Status spec_freeze(Spec *spec, const char *patterns, Error *err);

// Whether some layer's work on a sample depends on the others of the batch, which is then computed in one chunk of
// at most spec->whole_batch samples, and that of at most SPEC_WHOLE_BATCH.
bool spec_needs_whole_batches(const Spec *spec);

// A running variance: what makes it negative, as a server's rule may, leaves zero.
static inline bool tensor_is_variance(const ParameterTensor *tensor) {
    return tensor->follows && tensor->start > 0;
}
void spec_floor_variances(float *parameters, const Spec *spec);

// Whose tensor it is.
const Layer *spec_layer_of(const Spec *spec, const ParameterTensor *tensor);

// Whether some tensor of the layer is frozen.
bool spec_freezes_of(const Spec *spec, const Layer *layer);

// Whether the tensor that begins with that parameter is frozen.
bool spec_freezes_at(const Spec *spec, size_t first);

// Multiply-adds count as two: floating-point operations of one training sample, forward and backward (the first
// layer's input gradient is never needed).
double spec_training_flop(const Spec *spec);

// The tensor in which parameter number `parameter` lies: for messages.
const char *spec_tensor_name(const Spec *spec, size_t parameter);

// What helps where that parameter moves too far: the end of such messages.
const char *spec_tensor_remedy(const Spec *spec, size_t parameter);

// The layers that a text may have: what the error messages and the help say of them.
typedef struct LayerForm {
    const char *word;
    const char *form; // how it is written
    const char *help; // one line
} LayerForm;

// The one with that number, from 0 on; NULL behind the last.
const LayerForm *layer_form(size_t number);

// Nets by name. Each is only a text for spec_parse.
typedef struct ZooEntry {
    const char *name;
    const char *text;        // layers, as spec.h describes; the last layer's outputs are written "classes"
    const char *description; // one line, with its source
} ZooEntry;

extern const ZooEntry zoo_entries[];
extern const size_t zoo_entry_count;

// The layer list behind a --model value: a zoo entry's text, or the value itself when it is no zoo name. In either, a
// last word "classes" becomes the number of classes. Writes at most `bytes` characters, always terminated.
void zoo_expand(char *text, size_t bytes, const char *model, int classes);

#endif
