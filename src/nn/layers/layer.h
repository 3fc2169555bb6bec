// A layer is one row: how it is written, what parameters it has, what it needs and what it computes.
//
// Each row is a LayerType in the file of its layer (conv.c, pool.c, ...), and LAYER_TYPES in spec.h lists them. The
// parser, the help, the plan of the arena and both passes loop over rows and ask their fields; none of them knows a
// layer by name. A new layer is a line of LAYER_TYPES and a file here; its ops are built per instruction set
// (kernels.h), and its GPU twin is a row of cuda_table.c.
//
//   const LayerType *type = layer_type(layer);
//   if (type->traits & IN_PLACE) ...
//
// A layer may be written with several words: those differ in what is read, not in what is computed.
#ifndef SOUNDER_NN_LAYERS_LAYER_H
#define SOUNDER_NN_LAYERS_LAYER_H

#include "nn/layer_text.h"
#include "nn/pass.h"

// A sample's tensor may have so many values at most: every product of sizes fits an int, and every arena a machine.
enum { LAYER_MOST_VALUES = 1 << 28 };

// Bounds that keep every product of sizes in an int.
enum { MAX_CHANNELS = 1 << 20, MAX_KERNEL = 255 };

enum { LAYER_MOST_TENSORS = SPEC_MAX_TENSORS / SPEC_MAX_LAYERS, LAYER_MOST_SYNONYMS = 4 };

// One word that a layer is written with.
typedef struct LayerWord {
    LayerForm form;
    const char *also[LAYER_MOST_SYNONYMS]; // what other programs call it, for "did you mean"
    // The words behind it: sets the layer's numbers and its output's shape, which begins as the input's. NULL: no words
    // follow, and the shape stays.
    Status (*read)(Layer *layer, LayerText *of, Error *err);
    Activation activation;
} LayerWord;

// One parameter tensor: its name behind the module's ("weight" of conv1.weight), its shape and its initial values, all
// as in ParameterTensor.
typedef struct LayerTensor {
    const char *name;
    int rank;
    int64_t shape[4];
    int64_t fan_in;
    double stretch; // 0: 1
    float start;
    bool normal, follows;
} LayerTensor;

// A layer's room in the arena besides its values and gradients, for `samples` of one part: floats; of keep, bytes.
typedef struct LayerRoom {
    size_t packed, packed_gradient; // its weight as the ops want it, and the weight's gradient in that layout
    size_t statistics;              // written on the forward pass for the backward pass
    size_t rows;                    // its input, sample by sample
    size_t keep;                    // one byte for each feature of a sample: whether it is kept
    size_t scratch;                 // forgotten between calls
    size_t input_scratch;           // the same, needed only if layers before it learn
} LayerRoom;

// Each chunk of samples brings these into the cache beside the values: parameters, and floats of one sample.
typedef struct LayerLoad {
    size_t weights, floats;
} LayerLoad;

// One layer's part of a pass over a chunk, or over a part of it.
typedef struct LayerCall {
    const Net *net;
    const Kernels *kernels; // that compute this batch
    const Layer *layer;
    const LayerBuffers *at;
    const float *weight, *bias; // of the layer, as Layer.weight and Layer.bias say
    float *scratch;             // LayerRoom.scratch floats
    const Noise *noise;         // NULL: nothing is dropped
    bool trains;
    const Pass *pass; // NULL on the forward pass
    Chunk chunk;
    int count, samples; // of the chunk
} LayerCall;

// Everything but the noise and what the pass is for.
static inline LayerCall layer_call(const Net *net, int l, const LayerBuffers *at, const float *parameters,
                                   Chunk chunk) {
    const Layer *layer = &net->spec.layers[l];
    return (LayerCall){.net = net,
                       .kernels = net->at_work,
                       .layer = layer,
                       .at = at,
                       .weight = parameters + layer->weight,
                       .bias = parameters + layer->bias,
                       .scratch = net->buffers->scratch,
                       .chunk = chunk,
                       .count = chunk.count,
                       .samples = chunk.samples};
}

// The planner of the arena and the passes ask a layer for these traits.
typedef enum LayerTraits {
    IN_PLACE = 1 << 0,         // it may write its value over its input's, and the gradients likewise
    READS_OUTPUT = 1 << 1,     // its backward pass reads its own value
    IS_SUM = 1 << 15,          // it may overwrite its input, if that is of a layer with SUM_OVERWRITES
    SUM_OVERWRITES = 1 << 2,   // an addition may overwrite its value, which its backward pass does not read
    OVERWRITES_INPUT = 1 << 3, // if it is plain, it may write its input's gradient over its input
    PASSES_GRADIENT = 1 << 4,  // its input's gradient is its output's
    PASSES_A_PART = 1 << 5,    // its input's gradient is the first part of its output's
    ADDS_GRADIENT = 1 << 6,    // it can add its input's gradient to what others have written there
    IN_PARTS = 1 << 7,         // it may work on some samples of a chunk after the others
    HEADS = 1 << 8,            // a net's head begins with it: it takes its samples one a row, and its backward pass
                               // completes the gradient of its parameters, or their step, by itself
    OF_SEQUENCES = 1 << 9,     // it has no ops for few samples
    OVER_BATCH = 1 << 10,      // it needs the whole batch in one chunk; running statistics follow the batches
    READS_NUMBERS = 1 << 11,   // it takes pixels as the data set has them, not normalised
    RECTIFIES = 1 << 12,       // it may apply the relu behind it (Layer.rectifies)
    RECTIFIED_LAST = 1 << 13,  // its gradient may go back as if through the relu before it, if it is that relu's first
                               // reader, the last one of the backward pass
    RECTIFIED_ALONE = 1 << 14, // the same, if it is that relu's only reader
} LayerTraits;

typedef struct LayerType {
    const char *name;       // for tools, which name an op's costs by it
    const LayerWord *words; // (word_count); none: another layer's reader makes it of its own
    int word_count;
    const char *module; // "conv" of conv1.weight; layers of one module are counted together
    unsigned traits;    // LayerTraits

    // Writes the parameter tensors and returns how many they are. The order is that of the parameter array. NULL: it
    // has no parameters.
    int (*tensors)(LayerTensor tensors[LAYER_MOST_TENSORS], const Layer *layer);
    int bias; // the number of the tensor that Layer.bias is the first float of; behind the last: there is none

    double (*products)(const Layer *layer); // multiply-adds of one sample on the forward pass; NULL: 0

    LayerLoad (*load)(const Layer *layer);                                      // NULL: zeros
    LayerRoom (*room)(const Layer *layer, const Kernels *kernels, int samples); // NULL: zeros

    // A batch begins, or its gradient is complete: between the parameters and what is packed of them. NULL: nothing is.
    void (*pack)(const LayerCall *call);
    void (*unpack)(const LayerCall *call);

    void (*forward)(const LayerCall *call);
    void (*backward)(const LayerCall *call); // adds to at->gradients the gradient of its parameters
} LayerType;

// The words of a row.
#define LAYER_WORDS(list) .words = list, .word_count = sizeof list / sizeof *list

#define DECLARE_LAYER(kind, row) extern const LayerType row;
LAYER_TYPES(DECLARE_LAYER)
#undef DECLARE_LAYER

extern const LayerType *const layer_types[]; // by LayerKind

static inline const LayerType *layer_type(const Layer *layer) {
    return layer_types[layer->kind];
}

static inline bool layer_has(const Layer *layer, unsigned traits) {
    return (layer_type(layer)->traits & traits) != 0;
}

// The word with that number of all types' words, in their order, and the kind of layer that it makes; NULL at the end.
const LayerWord *layer_word(LayerKind *kind, size_t number);

// Whether a tensor with `border` rows and columns more on each side has too many values.
bool layer_is_too_large(Shape shape, Sides border);

// USAGE if the layer's input or output is so.
Status layer_check_size(const Layer *layer, Sides border, const LayerText *of, Error *err);

// USAGE unless the input is a sequence, 1 x T x F.
Status layer_check_sequence(const Layer *layer, const LayerText *of, Error *err);

// The layer that the text describes, for the input layer->in: everything but the places of its parameters. USAGE with a
// sentence about the text.
Status layer_read(Layer *layer, LayerText *of, Error *err);

// Floats of a tensor.
static inline size_t layer_tensor_floats(const LayerTensor *tensor) {
    size_t floats = 1;
    for (int i = 0; i < tensor->rank; i++)
        floats *= (size_t)tensor->shape[i];
    return floats;
}

#endif
