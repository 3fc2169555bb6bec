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

// Layers (onnx_ops.c), shapes (onnx_shapes.c), views (onnx_views.c): parts of one table, each ends with a row without
// name.
extern const OnnxOp onnx_layer_ops[], onnx_shape_ops[], onnx_view_ops[];

// Gives the node's first input under another name.
OnnxHandler onnx_pass_on;

// Gives the output of the layer that was added last, seen as `like` is.
Status onnx_give_layer(OnnxImport *import, const Onnx__NodeProto *node, const OnnxValue *like, Error *err);

// Averages over whole images, as GlobalAveragePool does.
OnnxHandler onnx_global_pool;

// Of onnx_norms.c: groups and instances, whole samples, whole batches; and what normalisations are made of: the mean of
// the last dimensions, and the others.
OnnxHandler onnx_groups, onnx_layer_norm, onnx_batch_norm, onnx_norm_mean, onnx_norm_step;

// Of onnx_functions.c. onnx_two: sum, product and quotient.
OnnxHandler onnx_function, onnx_clip, onnx_dropout, onnx_softmax, onnx_two, onnx_erf;

// Of onnx_sequences.c. onnx_zeros: ConstantOfShape and Expand. onnx_pick: Gather of rows of a table, of one place of
// samples, or of one lstm's state; onnx_cut: Slice of samples, zeros or constants; onnx_join_states: Concat.
OnnxHandler onnx_lstm, onnx_zeros, onnx_pick, onnx_cut, onnx_join_states;

// Whether a constant has a number for each value of each step of a sequence, and the layer that adds them.
bool onnx_are_positions(const OnnxValue *in, const OnnxValue *constant);
Status onnx_positions(OnnxImport *import, const Onnx__NodeProto *node, const OnnxValue *in, const OnnxValue *constant,
                      Error *err);

// Of onnx_constants.c: Concat of constants, Gather of rows of one, Range, roots, quotients and casts of single numbers;
// and from..to - 1 of a dimension of one.
OnnxHandler onnx_join_reals, onnx_take_rows, onnx_range, onnx_number;
Status onnx_cut_reals(OnnxImport *import, const Onnx__NodeProto *node, const OnnxValue *in, int axis, int64_t from,
                      int64_t to, Error *err);

// The state of one of the lstms, as what that layer gives at last, seen as `view`.
Status onnx_give_state(OnnxImport *import, const Onnx__NodeProto *node, const OnnxValue *states, size_t which,
                       const char *view, Error *err);

// The node's first input, which a layer gives, or its input number `which`, a constant of `count` floats.
Status onnx_take_samples(OnnxValue **value, OnnxImport *import, const Onnx__NodeProto *node, Error *err);
Status onnx_take_reals(OnnxValue **value, OnnxImport *import, const Onnx__NodeProto *node, size_t which, size_t count,
                       Error *err);

// The node's input number `which`: a constant of at most a shape's extents, all whole numbers.
Status onnx_take_wholes(OnnxValue **value, OnnxImport *import, const Onnx__NodeProto *node, size_t which, Error *err);

// Sum, difference, product, quotient or rest of whole numbers, as shapes are computed with.
OnnxHandler onnx_wholes;

// Axes of `rank` dimensions: an attribute, or in newer files an input.
Status onnx_axes(int64_t axes[ONNX_MAX_RANK], size_t *count, OnnxImport *import, const Onnx__NodeProto *node, int rank,
                 Error *err);

// The extents of a value that a layer gives, or of the net's input; returns how many.
int onnx_extents(int64_t extent[ONNX_MAX_RANK], const OnnxValue *value);

// Whether it has extents; whether it is seen as a vector of all values of each sample; whether sample comes after
// sample, with their values in the order of channels, rows and columns.
bool onnx_is_seen(const OnnxValue *value);
bool onnx_is_vector(const OnnxValue *value);
bool onnx_is_in_order(const OnnxValue *value);

// The value, seen as `view`. Where only the samples' dimension and another are left, that has all values; one place
// before rows and columns is that of the one channel.
Status onnx_give_view(OnnxImport *import, const Onnx__NodeProto *node, OnnxValue value, const char *view, Error *err);

// What is said of inputs that are something else.
extern const char onnx_not_samples[], onnx_not_constant[];

#endif
