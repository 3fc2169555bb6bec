// How an ONNX graph spells an attention: linear layers of each step, whose outputs are seen as heads, two products with
// a softmax between them, and another linear layer. All of that becomes one layer when the last one is read.
//
// Until then a value's dimensions are more than the letters of a view: each is a run of axes, in order. A reshape cuts
// the run of all axes at other places, and may split an axis of outputs in two, for as many heads as it says.
#ifndef SOUNDER_NN_ONNX_ONNX_ATTENTION_H
#define SOUNDER_NN_ONNX_ONNX_ATTENTION_H

#include "nn/onnx/onnx_ops.h"

// The outputs of a linear layer of each step, seen by axes, or what an attention's layer gives. False, and *axes is
// left alone: the value is no such thing.
bool onnx_axes_of(OnnxAxes *axes, const OnnxImport *import, const OnnxValue *value);

// The value itself, or such outputs as values with axes, on their way to an attention.
OnnxValue onnx_as_heads(const OnnxImport *import, const OnnxValue *value);

// Whether the value has axes; the first axis of a dimension.
bool onnx_has_axes(const OnnxValue *value);
int onnx_axes_begin(const OnnxAxes *axes, int dimension);

// The extents of its dimensions; returns how many.
int onnx_axes_extents(int64_t extent[ONNX_MAX_RANK], const OnnxAxes *axes);

// Gives the value with these axes: as samples with a view where there is one.
Status onnx_give_axes(OnnxImport *import, const Onnx__NodeProto *node, OnnxValue value, const OnnxAxes *axes,
                      size_t which, Error *err);

// Reshape, Transpose, Squeeze and Unsqueeze of a value with axes. wanted: extents; 0: as before; -1: what is left.
// Reshape also begins with samples that have none yet.
Status onnx_axes_reshape(OnnxImport *import, const Onnx__NodeProto *node, OnnxValue value, const int64_t *wanted,
                         int rank, Error *err);
Status onnx_axes_turn(OnnxImport *import, const Onnx__NodeProto *node, const OnnxValue *value, Error *err);
Status onnx_axes_squeeze(OnnxImport *import, const Onnx__NodeProto *node, const OnnxValue *value, Error *err);
Status onnx_axes_unsqueeze(OnnxImport *import, const Onnx__NodeProto *node, const OnnxValue *value, Error *err);

// Places from..to - 1 of a dimension of outputs, as the node's output number `which`. keeps: as a dimension, even of
// one place.
Status onnx_axes_cut(OnnxImport *import, const Onnx__NodeProto *node, const OnnxValue *value, int dimension,
                     int64_t from, int64_t to, bool keeps, size_t which, Error *err);

// Scores times or divided by a number, or with a mask that hides what comes behind a step.
Status onnx_scores_change(OnnxImport *import, const Onnx__NodeProto *node, const OnnxValue *value,
                          const OnnxValue *constant, Error *err);
Status onnx_scores_softmax(OnnxImport *import, const Onnx__NodeProto *node, const OnnxValue *value, Error *err);

// Queries by keys, or shares by values; what is seen by the weight of the last linear layer, (in, out), or (out, in) if
// it lies as in PyTorch: then there is the layer.
Status onnx_heads_product(OnnxImport *import, const Onnx__NodeProto *node, const OnnxValue *a, const OnnxValue *b,
                          Error *err);
Status onnx_attention_layer(OnnxImport *import, const Onnx__NodeProto *node, const OnnxValue *seen,
                            const OnnxValue *weight, bool lies_right, Error *err);

// The last linear layer's bias, if the layer is an attention: NULL otherwise. *count: its numbers.
float *onnx_attention_bias(OnnxLayer *layer, size_t *count);

// Trilu: of what is nothing but minus infinity, what lies above the diagonal.
OnnxHandler onnx_mask;

// Split: parts of a dimension of outputs.
OnnxHandler onnx_split;

#endif
