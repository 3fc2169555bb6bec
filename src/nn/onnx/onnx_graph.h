// An ONNX file while it becomes a net: its messages, and what is known of each value that its nodes give and take.
//
//   OnnxImport import;
//   TRY(onnx_open(&import, path, sample, err));
//   ... onnx_value, onnx_attribute_*; import.layers grows ...
//   onnx_close(&import);
//
// Values live in one table by name. A constant's numbers are its own; everything goes with onnx_close.
#ifndef SOUNDER_NN_ONNX_ONNX_GRAPH_H
#define SOUNDER_NN_ONNX_ONNX_GRAPH_H

#include <search.h>
#include <stdbool.h>
#include <stdint.h>

#include "nn/onnx/onnx_layers.h"
#include "nn/window.h"
#include "onnx.pb-c.h"

enum { ONNX_MAX_RANK = 5, ONNX_MAX_NODES = 4096 };

// In a shape: the extent that is so many times the number of samples, at most ONNX_MOST_TIMES.
#define ONNX_TIMES(times) (INT64_MIN + (times)-1)
#define ONNX_MOST_TIMES   INT32_MAX
#define ONNX_BATCH        ONNX_TIMES(1)

typedef enum ValueKind {
    VALUE_UNKNOWN,  // of a type nobody here reads
    VALUE_CONSTANT, // numbers: `reals`, or `wholes`, in which ONNX_BATCH may stand
    VALUE_SAMPLES,  // what a layer gives
    VALUE_GROUPS,   // the same, seen as (samples, groups, values of a group)
    VALUE_PADDED,   // the same, with a border of zeros for the windows of the layer that takes it
    VALUE_NUMBERS,  // the net's input as whole numbers, for an embedding
    VALUE_STATES,   // the last outputs of lstms, the layers `wholes`: (layers, samples, units)
    VALUE_ZEROS,    // what an lstm begins with
    // On the way to an attention (onnx_attention.h), with axes instead of a view:
    VALUE_HEADS,  // outputs of a linear layer of each step: queries, keys or values
    VALUE_SCORES, // queries by keys
    VALUE_SHARES, // their softmax
    VALUE_SEEN,   // shares by values
    VALUE_TURNED, // what the layer gives, as long as its dimensions lie as no view says
    VALUE_NEVER,  // a matrix (extent) of minus infinity
    VALUE_MASK,   // the same above the diagonal, below it zeros
    // On the way to gelu(x) = x (1 + erf(x / sqrt 2)) / 2, where the layer gives x:
    VALUE_SHRUNK, // x / sqrt 2
    VALUE_ERF,    // erf(x / sqrt 2)
    VALUE_SHARE,  // 1 + erf(x / sqrt 2)
    VALUE_TWICE,  // x (1 + erf(x / sqrt 2))
    // On the way to a normalisation of the dimensions from number `groups` on, as files before opset 17 have it:
    VALUE_MEAN,
    VALUE_CENTRED,   // x - mean
    VALUE_SQUARES,   // (x - mean)^2
    VALUE_VARIANCE,  // their mean
    VALUE_SPREAD,    // variance + epsilon
    VALUE_DEVIATION, // its root
} ValueKind;

// 'n' the samples, 'h' the steps, 'k' those of the keys, 'w' outputs of a linear layer, which lie `stride` apart.
typedef struct OnnxAxis {
    char what;
    int extent, stride;
} OnnxAxis;

enum { ONNX_MAX_AXES = 8 };

// The axes of a value, and behind which of them each of its dimensions ends.
typedef struct OnnxAxes {
    OnnxAxis of[ONNX_MAX_AXES];
    int count, rank, end[ONNX_MAX_RANK];
} OnnxAxes;

// Of queries, keys and values, in this order: from which output of which layer on. Queries and keys together: what
// their scores have been multiplied by.
typedef struct OnnxAttention {
    int layer[3], first[3], heads, width; // of a head
    double scale;
    bool causal;
} OnnxAttention;

typedef struct OnnxValue {
    const char *name;
    ValueKind kind;
    int uses; // how many nodes take it, and once more if it is what the graph gives
    // Constants:
    int rank;
    int64_t extent[ONNX_MAX_RANK];
    size_t count;
    float *reals;
    int64_t *wholes; // of states, too
    // All others:
    int layer;   // SPEC_INPUT: the input
    Shape shape; // of one sample
    // Its dimensions, a letter each: n the samples, c channels, h rows, w columns, f all values of a sample, 1 one,
    // m the rows of all samples one after the other. An image is "nchw", a vector "nf", a sequence "nhw", what an LSTM
    // takes "hnw" and what it gives "h1nw". What is not there of c, h and w has one place.
    char view[ONNX_MAX_RANK + 1];
    int groups; // or the first dimension that is normalised
    Sides border;
    OnnxAxes axes;
    OnnxAttention attention; // heads: layer and first of number 0, and scale
} OnnxValue;

typedef struct OnnxImport {
    const char *path;
    Onnx__ModelProto *model;
    const Onnx__GraphProto *graph;
    struct hsearch_data names;
    OnnxValue *values;
    size_t value_count, value_room;
    size_t number_count; // of all constants that the file lists
    int64_t batch;       // how many samples the input has; 0: any number
    int folded;
    OnnxLayers layers;
} OnnxImport;

// The start of each sentence about a node: its name, or that of what it gives, and its op.
#define NODE_FORMAT             "%s: node \"%.100s\" (%.40s): "
#define NODE_ARGS(import, node) (import)->path, onnx_node_name(node), (node)->op_type ? (node)->op_type : ""

const char *onnx_node_name(const Onnx__NodeProto *node);

// Reads the file, its constants and its input, which must fit the sample.
Status onnx_open(OnnxImport *import, const char *path, Shape sample, Error *err);
void onnx_close(OnnxImport *import);

// The node's input number `which`; NULL where it is left out. A name that nothing before gives is an error of its own:
// *status says so.
OnnxValue *onnx_input(OnnxImport *import, const Onnx__NodeProto *node, size_t which, Status *status, Error *err);

// The same, which has to be there and of that kind; `what` is said of it otherwise.
Status onnx_take(OnnxValue **value, OnnxImport *import, const Onnx__NodeProto *node, size_t which, ValueKind kind,
                 const char *what, Error *err);

// The value for what the node gives: a copy of `value` but for name and uses. What lies in value->reals or ->wholes
// (malloc'ed) is the table's from here on, also when this fails.
Status onnx_give(OnnxImport *import, const Onnx__NodeProto *node, OnnxValue value, Error *err);

// The same for the node's output number `which`, which may be left out.
Status onnx_give_output(OnnxImport *import, const Onnx__NodeProto *node, size_t which, OnnxValue value, Error *err);

// How many nodes take the node's output number `which`, and once more if it is what the graph gives. Shapes do not
// count.
int onnx_uses(const OnnxImport *import, const Onnx__NodeProto *node, size_t which);

// A constant's numbers (malloc'ed) and extents from a message; VALUE_UNKNOWN for types that are not read.
Status onnx_constant(OnnxValue *value, const OnnxImport *import, const Onnx__TensorProto *tensor, Error *err);

// An attribute; NULL: not given.
const Onnx__AttributeProto *onnx_attribute(const Onnx__NodeProto *node, const char *name);
int64_t onnx_attribute_whole(const Onnx__NodeProto *node, const char *name, int64_t preset);
float onnx_attribute_real(const Onnx__NodeProto *node, const char *name, float preset);

#endif
