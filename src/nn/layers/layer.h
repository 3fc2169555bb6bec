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
// A layer can have several words: they differ in what the parser reads, not in what is computed.
#ifndef SOUNDER_NN_LAYERS_LAYER_H
#define SOUNDER_NN_LAYERS_LAYER_H

#include "nn/kernels.h"
#include "nn/layer_text.h"

// A sample's tensor has at most this many values, so that every product of sizes fits an int and every arena a machine.
enum { LAYER_MOST_VALUES = 1 << 28 };

// Bounds that keep every product of sizes in an int.
enum { MAX_CHANNELS = 1 << 20, MAX_KERNEL = 255 };

enum { LAYER_MOST_TENSORS = SPEC_MAX_TENSORS / SPEC_MAX_LAYERS, LAYER_MOST_SYNONYMS = 4, LAYER_MOST_WORDS = 9 };

// One word of the grammar.
typedef struct LayerWord {
    LayerForm form;
    const char *also[LAYER_MOST_SYNONYMS]; // names of the layer in other programs, for "did you mean"
    // Reads the words that follow: sets the layer's numbers and its output's shape, which is the input's at first.
    // NULL: no words follow, and the shape stays.
    Status (*read)(Layer *layer, LayerText *of, Error *err);
    int activation; // Layer.activation
} LayerWord;

// One parameter tensor: its name within the module ("weight" of conv1.weight), its shape and its initial values, all as
// in ParameterTensor.
typedef struct LayerTensor {
    const char *name;
    int rank;
    int64_t shape[4];
    int64_t fan_in;
    double stretch; // 0 means 1
    float start;
    bool normal, follows;
} LayerTensor;

// The memory that a layer needs in the arena beside its values and gradients, for `samples` samples of one part:
// floats, or bytes for keep.
typedef struct LayerRoom {
    size_t packed, packed_gradient; // its weight in the layout of the ops, and the weight's gradient in that layout
    size_t statistics;              // written on the forward pass, read on the backward pass
    size_t rows;                    // its input, one row per sample
    size_t keep;                    // one byte per feature of a sample: whether dropout keeps it
    size_t scratch;                 // meaningless between calls
    size_t input_scratch;           // more scratch, needed only if an earlier layer learns
} LayerRoom;

// The memory that each chunk of samples moves through the cache beside the layer's values: floats of parameters, and
// floats per sample.
typedef struct LayerLoad {
    size_t weights, floats;
} LayerLoad;

// Facts about a layer that the planner of the arena and the passes ask for.
typedef enum LayerTraits {
    IN_PLACE = 1 << 0,         // it can write its value over its input, and its input's gradient over its own
    READS_OUTPUT = 1 << 1,     // its backward pass reads its own value
    IS_SUM = 1 << 15,          // it can overwrite its input if that is the value of a layer with SUM_OVERWRITES
    SUM_OVERWRITES = 1 << 2,   // its backward pass does not read its value, so that an addition can overwrite it
    OVERWRITES_INPUT = 1 << 3, // if it is plain, it can write its input's gradient over its input
    PASSES_GRADIENT = 1 << 4,  // its input's gradient equals its output's
    PASSES_A_PART = 1 << 5,    // its input's gradient is the first part of its output's
    ADDS_GRADIENT = 1 << 6,    // it can add its input's gradient to a gradient that is already there
    IN_PARTS = 1 << 7,         // it can work on a chunk part by part
    HEADS = 1 << 8,            // a net's head begins with it: it takes its samples as rows, and its backward pass
    // completes the gradient of its parameters, or their step of SGD, by itself
    OF_SEQUENCES = 1 << 9,    // it has no ops for few samples
    OVER_BATCH = 1 << 10,     // it needs the whole batch in one chunk; running statistics follow the batches
    READS_NUMBERS = 1 << 11,  // it takes pixels as the data set has them, not normalised
    RECTIFIES = 1 << 12,      // it can apply the relu that follows (Layer.rectifies)
    RECTIFIED_LAST = 1 << 13, // its backward pass can include that of the relu before it (Layer.rectified) if it is
    // the relu's first reader, which the backward pass reaches last
    RECTIFIED_ALONE = 1 << 14, // its backward pass can do so if it is the relu's only reader
    NORMALISES = 1 << 16,      // what it learns can stay with a client (FedBN)
} LayerTraits;

typedef struct LayerCall LayerCall; // pass.h

// The row of a layer: all that the parser, the planner and the passes know of it. Functions get the layer's numbers
// (Layer) or one call of a pass (LayerCall); none of them keeps state between calls.
typedef struct LayerType {
    const char *name;                  // for tools: the name of its costs
    LayerWord words[LAYER_MOST_WORDS]; // zeros after the last; none if another layer's reader makes it
    const char *module;                // "conv" of conv1.weight; the layers of a module are numbered together
    unsigned traits;                   // LayerTraits

    // Writes the parameter tensors, in the order of the parameter array, and returns their number, at least 1. NULL: it
    // has no parameters.
    int (*tensors)(LayerTensor tensors[LAYER_MOST_TENSORS], const Layer *layer);

    double (*products)(const Layer *layer); // multiply-adds of one sample on the forward pass; NULL: 0

    LayerLoad (*load)(const Layer *layer);                                      // NULL: zeros
    LayerRoom (*room)(const Layer *layer, const Kernels *kernels, int samples); // NULL: zeros

    // At the start of a batch: packs the parameters. When its gradient is complete: unpacks that. NULL: it packs
    // nothing.
    void (*pack)(const LayerCall *call);
    void (*unpack)(const LayerCall *call);

    void (*forward)(const LayerCall *call);
    void (*backward)(const LayerCall *call); // adds the gradient of its parameters to at->gradient
} LayerType;

#define DECLARE_LAYER(kind, row) extern const LayerType row;
LAYER_TYPES(DECLARE_LAYER)

extern const LayerType *const layer_types[]; // by LayerKind

static inline const LayerType *layer_type(const Layer *layer) {
    return layer_types[layer->kind];
}

static inline bool layer_has(const Layer *layer, unsigned traits) {
    return (layer_type(layer)->traits & traits) != 0;
}

// Whether some layer of the net has one of the traits.
bool spec_has(const Spec *spec, unsigned traits);

// Word number `number` of all types' words, in the order of the types, and its layer kind; NULL after the last.
const LayerWord *layer_word(LayerKind *kind, size_t number);

// Whether a tensor has too many values when `border` rows and columns are added on each side.
bool layer_is_too_large(Shape shape, Sides border);

// USAGE unless the input is a sequence, 1 x T x F. It reads no words, and so is the reader of a layer that has none.
Status layer_check_sequence(Layer *layer, LayerText *of, Error *err);

// Reads the layer of the text, for the input layer->in: everything but the places of its parameters. USAGE with a
// sentence about the text.
Status layer_read(Layer *layer, LayerText *of, Error *err);

// Number of floats of a tensor.
static inline size_t layer_tensor_floats(const LayerTensor *tensor) {
    size_t floats = 1;
    for (int i = 0; i < tensor->rank; i++)
        floats *= (size_t)tensor->shape[i];
    return floats;
}

#endif
