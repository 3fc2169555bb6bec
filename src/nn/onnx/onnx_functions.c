// ONNX's functions of one value and of two.
#include "onnx_attention.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Functions of one value ----------------------------------------------------------------------------------------------

static Status add_function(OnnxImport *import, const Onnx__NodeProto *node, const OnnxValue *in, const char *text,
                           Error *err) {
    TRY(onnx_layers_add(&import->layers, in->layer, in->shape, err, "%s", text));
    import->layers.of[import->layers.count - 1].is_each = true;
    OnnxValue like = *in;
    like.kind = VALUE_SAMPLES;
    return onnx_give_layer(import, node, &like, err);
}

// The shortest number that is read as the same float.
static void write_number(char text[ONNX_LAYER_BYTES], const char *word, float number) {
    char digits[32];
    int count = 1;
    do
        snprintf(digits, sizeof digits, "%.*g", count, (double)number);
    while (strtof(digits, NULL) != number && ++count <= 9);
    snprintf(text, ONNX_LAYER_BYTES, "%s %s", word, digits);
}

Status onnx_function(OnnxImport *import, const Onnx__NodeProto *node, Error *err) {
    static const char *const words[][2] = {
        {"Relu", "relu"}, {"Tanh", "tanh"}, {"Sigmoid", "sigmoid"}, {"Gelu", "gelu"}, {"LeakyRelu", "leakyrelu"}};
    OnnxValue *in;
    char text[ONNX_LAYER_BYTES] = "";
    TRY(onnx_take_samples(&in, import, node, err));
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcmp(words[i][0], node->op_type) == 0) snprintf(text, sizeof text, "%s", words[i][1]);
    const Onnx__AttributeProto *form = onnx_attribute(node, "approximate");
    if (form && (form->s.len != 4 || memcmp(form->s.data, "none", 4) != 0))
        return fail(err, STATUS_DATA, NODE_FORMAT "its approximation by tanh is not what gelu is here",
                    NODE_ARGS(import, node));
    if (strcmp(text, "leakyrelu") == 0) write_number(text, "leakyrelu", onnx_attribute_real(node, "alpha", 0.01f));
    return add_function(import, node, in, text, err);
}

// One number: an input or, in old files, an attribute.
static Status read_number(float *number, OnnxImport *import, const Onnx__NodeProto *node, size_t which,
                          const char *name, Error *err) {
    OnnxValue *value;
    *number = onnx_attribute_real(node, name, *number);
    if (which >= node->n_input || !*node->input[which]) return STATUS_OK;
    TRY(onnx_take_reals(&value, import, node, which, 1, err));
    *number = value->reals[0];
    return STATUS_OK;
}

Status onnx_clip(OnnxImport *import, const Onnx__NodeProto *node, Error *err) {
    OnnxValue *in;
    float low = -INFINITY, high = INFINITY;
    TRY(onnx_take_samples(&in, import, node, err));
    TRY(read_number(&low, import, node, 1, "min", err));
    TRY(read_number(&high, import, node, 2, "max", err));
    if (low == 0 && (high == 6 || high > 3e38f))
        return add_function(import, node, in, high == 6 ? "relu6" : "relu", err);
    return fail(err, STATUS_DATA, NODE_FORMAT "clips to %g ... %g; only 0 ... 6 is a layer here",
                NODE_ARGS(import, node), (double)low, (double)high);
}

// Its rate is the net's, whether the file is one for training or not.
Status onnx_dropout(OnnxImport *import, const Onnx__NodeProto *node, Error *err) {
    OnnxValue *in;
    float rate = 0.5f;
    char text[ONNX_LAYER_BYTES];
    TRY(onnx_take_samples(&in, import, node, err));
    TRY(read_number(&rate, import, node, 1, "ratio", err));
    if (!(rate >= 0 && rate < 1))
        return fail(err, STATUS_DATA, NODE_FORMAT "its ratio is %g", NODE_ARGS(import, node), (double)rate);
    if (rate == 0) return onnx_pass_on(import, node, err);
    write_number(text, "dropout", rate);
    return add_function(import, node, in, text, err);
}

// Softmax and cross-entropy follow a net by themselves.
Status onnx_softmax(OnnxImport *import, const Onnx__NodeProto *node, Error *err) {
    const char *result = import->graph->output[0]->name;
    Status status;
    OnnxValue *in = onnx_input(import, node, 0, &status, err);
    TRY(status);
    if (onnx_has_axes(in)) return onnx_scores_softmax(import, node, in, err);
    TRY(onnx_take_samples(&in, import, node, err));
    const int64_t axis = onnx_attribute_whole(node, "axis", -1);
    if (result && strcmp(result, node->output[0]) == 0 && in->shape.rows == 1 && in->shape.columns == 1 &&
        onnx_is_vector(in) && (axis == 1 || axis == -1))
        return onnx_pass_on(import, node, err);
    return fail(err, STATUS_DATA, NODE_FORMAT "is a layer here only at the end, over classes", NODE_ARGS(import, node));
}

// Two values ----------------------------------------------------------------------------------------------------------

static bool is_near(const OnnxValue *constant, double number) {
    return constant->reals && constant->count == 1 && fabs((double)constant->reals[0] - number) < 1e-3;
}

static Status give_as(OnnxImport *import, const Onnx__NodeProto *node, OnnxValue value, ValueKind kind, Error *err) {
    value.kind = kind;
    return onnx_give(import, node, value, err);
}

// Whether the last dimension has the outputs alone, and how many dimensions there are.
static bool ends_with_outputs(int *rank, const OnnxValue *in) {
    const OnnxAxes *axes = &in->axes;
    *rank = in->kind == VALUE_TURNED ? axes->rank : (int)strlen(in->view);
    if (in->kind != VALUE_TURNED) return *rank > 0 && in->view[*rank - 1] == 'w';
    return onnx_axes_begin(axes, *rank - 1) == axes->count - 1 && axes->of[axes->count - 1].what == 'w';
}

// The bias behind the last product of an attention.
static Status add_to_attention(OnnxImport *import, const Onnx__NodeProto *node, const OnnxValue *in, float *bias,
                               size_t count, const OnnxValue *constant, Error *err) {
    int rank;
    const bool fits = ends_with_outputs(&rank, in) && constant->reals && constant->count == count &&
                      constant->rank >= 1 && constant->rank <= rank &&
                      constant->extent[constant->rank - 1] == (int64_t)count;
    if (!fits || in->uses != 1 || in->layer != import->layers.count - 1)
        return fail(err, STATUS_DATA, NODE_FORMAT "its constant is no bias of the attention before it",
                    NODE_ARGS(import, node));
    for (size_t i = 0; i < count; i++)
        bias[i] += constant->reals[i];
    import->layers.of[in->layer].has_bias = true;
    return onnx_give(import, node, *in, err);
}

// Whether a constant with as many numbers as a sample has values gives each of them its own, the same for all samples.
static bool is_of_each_value(const OnnxValue *in, const OnnxValue *constant) {
    int64_t extent[ONNX_MAX_RANK];
    const int rank = onnx_extents(extent, in);
    for (int d = 1; d <= constant->rank; d++) {
        const int64_t own = constant->extent[constant->rank - d];
        if (own != 1 && (in->view[rank - d] == 'n' || own != extent[rank - d])) return false;
    }
    return onnx_is_in_order(in);
}

// A constant of each output of the layer that gives the samples, or one for all.
static bool fits_outputs(const OnnxValue *in, const OnnxValue *constant, const OnnxLayer *layer) {
    if (!constant->reals || constant->rank > (int)strlen(in->view)) return false;
    if (constant->count == 1) return true;
    if (constant->count != layer->outs) return false;
    const bool is_image = strcmp(in->view, "nchw") == 0;
    const char last = in->view[strlen(in->view) - 1];
    if (!layer->is_each && layer->outs != (size_t)in->shape.channels) // layernorm: of each value
        return is_of_each_value(in, constant);
    const int place = constant->rank - (is_image && !layer->is_each ? 3 : 1);
    return (layer->is_each ? last == 'w' : is_image || last == 'f') && place >= 0 &&
           constant->extent[place] == (int64_t)layer->outs;
}

// A factor or a summand becomes part of the weights before it.
static Status change_layer(OnnxImport *import, const Onnx__NodeProto *node, const OnnxValue *in,
                           const OnnxValue *constant, bool is_factor, Error *err) {
    OnnxLayer *layer = in->layer >= 0 ? &import->layers.of[in->layer] : NULL;
    if (!layer || !layer->weight || layer->is_rigid || in->uses != 1 || !fits_outputs(in, constant, layer))
        return fail(err, STATUS_DATA,
                    NODE_FORMAT "its constant cannot become part of the weights of the layer before it",
                    NODE_ARGS(import, node));
    float *numbers = malloc(layer->outs * sizeof *numbers);
    if (!numbers) return fail(err, STATUS_OS, "%s: no memory for %zu numbers", import->path, layer->outs);
    for (size_t i = 0; i < layer->outs; i++)
        numbers[i] = constant->reals[constant->count == 1 ? 0 : i];
    onnx_layer_scale(layer, is_factor ? numbers : NULL, is_factor ? NULL : numbers);
    free(numbers);
    return give_as(import, node, *in, VALUE_SAMPLES, err);
}

static Status add_two(OnnxImport *import, const Onnx__NodeProto *node, const OnnxValue *a, const OnnxValue *b,
                      Error *err) {
    const OnnxValue *in = a->layer >= b->layer ? a : b, *other = in == a ? b : a;
    if (memcmp(&a->shape, &b->shape, sizeof a->shape) != 0 || strcmp(a->view, b->view) != 0 ||
        other->layer == SPEC_INPUT)
        return fail(err, STATUS_DATA, NODE_FORMAT "adds samples of different shapes, or the net's input",
                    NODE_ARGS(import, node));
    TRY(onnx_layers_add(&import->layers, in->layer, in->shape, err, "add"));
    import->layers.of[import->layers.count - 1].other = other->layer;
    import->layers.of[other->layer].named = true;
    return onnx_give_layer(import, node, in, err);
}

// x and what comes of it on its way to gelu.
static Status make_gelu(OnnxImport *import, const Onnx__NodeProto *node, const OnnxValue *a, const OnnxValue *b,
                        Error *err) {
    const bool is_sum = strcmp(node->op_type, "Add") == 0, is_quotient = strcmp(node->op_type, "Div") == 0;
    if (b->kind == VALUE_CONSTANT && a->kind == VALUE_SAMPLES && is_near(b, is_quotient ? M_SQRT2 : M_SQRT1_2) &&
        !is_sum)
        return give_as(import, node, *a, VALUE_SHRUNK, err);
    if (b->kind == VALUE_CONSTANT && a->kind == VALUE_ERF && is_sum && is_near(b, 1))
        return give_as(import, node, *a, VALUE_SHARE, err);
    if (b->kind == VALUE_SAMPLES && a->kind == VALUE_SHARE && !is_sum && !is_quotient && a->layer == b->layer &&
        strcmp(a->view, b->view) == 0)
        return give_as(import, node, *a, VALUE_TWICE, err);
    if (b->kind == VALUE_CONSTANT && a->kind == VALUE_TWICE && is_near(b, is_quotient ? 2 : 0.5) && !is_sum)
        return add_function(import, node, a, "gelu", err);
    return fail(err, STATUS_DATA, NODE_FORMAT "what it makes of its two inputs is no layer here",
                NODE_ARGS(import, node));
}

Status onnx_two(OnnxImport *import, const Onnx__NodeProto *node, Error *err) {
    Status status;
    const OnnxValue *a = onnx_input(import, node, 0, &status, err), *b;
    TRY(status);
    b = onnx_input(import, node, 1, &status, err);
    TRY(status);
    if (!a || !b) return fail(err, STATUS_DATA, NODE_FORMAT "it has not two inputs", NODE_ARGS(import, node));
    if (a->kind >= VALUE_MEAN) return onnx_norm_step(import, node, err);
    if (a->kind == VALUE_CONSTANT && b->kind == VALUE_CONSTANT && a->wholes && b->wholes)
        return onnx_wholes(import, node, err);
    const bool is_sum = strcmp(node->op_type, "Add") == 0, is_quotient = strcmp(node->op_type, "Div") == 0;
    if (is_quotient && a->kind == VALUE_CONSTANT && b->kind == VALUE_CONSTANT) return onnx_number(import, node, err);
    if (onnx_has_axes(a) != onnx_has_axes(b) && (onnx_has_axes(a) || !is_quotient)) {
        const OnnxValue *value = onnx_has_axes(a) ? a : b, *constant = value == a ? b : a;
        if (value->kind != VALUE_TURNED) return onnx_scores_change(import, node, value, constant, err);
    }
    const bool turned = a->kind == VALUE_CONSTANT || (b->kind != VALUE_CONSTANT && b->kind != VALUE_SAMPLES);
    const OnnxValue *first = turned && !is_quotient ? b : a, *second = turned && !is_quotient ? a : b;
    if (is_sum && a->kind == VALUE_SAMPLES && b->kind == VALUE_SAMPLES) return add_two(import, node, a, b, err);
    const OnnxLayer *layer = first->layer >= 0 ? &import->layers.of[first->layer] : NULL;
    const bool has_weights = layer && layer->weight && !layer->is_rigid;
    size_t count = 0;
    const bool gives = first->kind == VALUE_SAMPLES || first->kind == VALUE_TURNED;
    float *bias = gives && layer ? onnx_attention_bias(&import->layers.of[first->layer], &count) : NULL;
    const bool changes = has_weights && first->uses == 1;
    const bool may_be_bias = bias ? second->count == count : changes && fits_outputs(first, second, layer);
    if (is_sum && onnx_are_positions(first, second) && (!may_be_bias || layer->has_bias))
        return onnx_positions(import, node, first, second, err);
    if (bias && is_sum && second->kind == VALUE_CONSTANT)
        return add_to_attention(import, node, first, bias, count, second, err);
    if (!is_quotient && first->kind == VALUE_SAMPLES && second->kind == VALUE_CONSTANT && changes)
        return change_layer(import, node, first, second, !is_sum, err);
    return make_gelu(import, node, first, second, err);
}

Status onnx_erf(OnnxImport *import, const Onnx__NodeProto *node, Error *err) {
    OnnxValue *in;
    TRY(onnx_take(&in, import, node, 0, VALUE_SHRUNK, "not x / sqrt 2, as for gelu", err));
    return give_as(import, node, *in, VALUE_ERF, err);
}
