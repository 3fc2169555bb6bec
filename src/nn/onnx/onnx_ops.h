// What becomes of each node of an ONNX graph: a layer, a change of the layer before, or a value that a later node
// wants.
#ifndef SOUNDER_NN_ONNX_ONNX_OPS_H
#define SOUNDER_NN_ONNX_ONNX_OPS_H

#include "nn/onnx/onnx_graph.h"

typedef Status OnnxHandler(OnnxImport *import, const Onnx__NodeProto *node, Error *err);

typedef struct OnnxOp {
    const char *name;
    OnnxHandler *handle;
    const char *attributes; // those that are read or say nothing here, separated by blanks; others are refused
} OnnxOp;

// Layers (onnx_ops.c), shapes (onnx_shapes.c): two halves of one table, each ends with a row without name.
extern const OnnxOp onnx_layer_ops[], onnx_shape_ops[];

// Gives the node's first input under another name.
OnnxHandler onnx_pass_on;

// Gives the output of the layer that was added last, seen as `like` is.
Status onnx_give_layer(OnnxImport *import, const Onnx__NodeProto *node, const OnnxValue *like, Error *err);

// Averages over whole images, as GlobalAveragePool does.
OnnxHandler onnx_global_pool;

// Of onnx_norms.c: groups and instances, whole samples, whole batches.
OnnxHandler onnx_groups, onnx_layer_norm, onnx_batch_norm;

// Of onnx_functions.c. onnx_two: sum, product and quotient.
OnnxHandler onnx_function, onnx_clip, onnx_dropout, onnx_softmax, onnx_two, onnx_erf;

// The node's first input, which a layer gives, or its input number `which`, a constant of `count` floats.
Status onnx_take_samples(OnnxValue **value, OnnxImport *import, const Onnx__NodeProto *node, Error *err);
Status onnx_take_reals(OnnxValue **value, OnnxImport *import, const Onnx__NodeProto *node, size_t which, size_t count,
                       Error *err);

// What is said of inputs that are something else.
extern const char onnx_not_samples[], onnx_not_constant[];

#endif
