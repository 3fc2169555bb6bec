// ONNX's ops that are layers here.
#include "onnx_attention.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GREATEST_NUMBER = 1 << 20 };

const char onnx_not_samples[] = "not what a layer gives from samples";
const char onnx_not_constant[] = "no constant of floating-point numbers";

Status onnx_give_layer(OnnxImport *import, const Onnx__NodeProto *node, const OnnxValue *like, Error *err) {
    OnnxValue value = *like;
    if (value.kind == VALUE_PADDED) value.kind = VALUE_SAMPLES;
    value.border = (Sides){0, 0};
    value.layer = import->layers.count - 1;
    value.shape = import->layers.of[value.layer].out;
    value.uses = 0; // nobody's yet
    return onnx_give(import, node, value, err);
}

Status onnx_pass_on(OnnxImport *import, const Onnx__NodeProto *node, Error *err) {
    Status status;
    const OnnxValue *value = onnx_input(import, node, 0, &status, err);
    TRY(status);
    if (!value) return fail(err, STATUS_DATA, NODE_FORMAT "has no input", NODE_ARGS(import, node));
    OnnxValue copy = *value;
    copy.reals = NULL;
    copy.wholes = NULL;
    if (value->reals || value->wholes) {
        const size_t item = value->reals ? sizeof *value->reals : sizeof *value->wholes;
        void *numbers = malloc((value->count + 1) * item);
        if (!numbers) return fail(err, STATUS_OS, "%s: no memory for %zu numbers", import->path, value->count);
        memcpy(numbers, value->reals ? (void *)value->reals : (void *)value->wholes, value->count * item);
        if (value->reals)
            copy.reals = numbers;
        else
            copy.wholes = numbers;
    }
    return onnx_give(import, node, copy, err);
}

Status onnx_take_samples(OnnxValue **value, OnnxImport *import, const Onnx__NodeProto *node, Error *err) {
    return onnx_take(value, import, node, 0, VALUE_SAMPLES, onnx_not_samples, err);
}

static Status take_image(OnnxValue **value, OnnxImport *import, const Onnx__NodeProto *node, Error *err) {
    TRY(onnx_take_samples(value, import, node, err));
    if (strcmp((*value)->view, "nchw") == 0) return STATUS_OK;
    return fail(err, STATUS_DATA, NODE_FORMAT "takes images, but its input is %s", NODE_ARGS(import, node),
                onnx_is_vector(*value) ? "a vector of values" : "a sequence, or an image that lies otherwise");
}

// A constant of floats of that many numbers.
Status onnx_take_reals(OnnxValue **value, OnnxImport *import, const Onnx__NodeProto *node, size_t which, size_t count,
                       Error *err) {
    TRY(onnx_take(value, import, node, which, VALUE_CONSTANT, onnx_not_constant, err));
    if ((*value)->reals && (*value)->count == count) return STATUS_OK;
    return fail(err, STATUS_DATA, NODE_FORMAT "its input %zu is %s, or not %zu of them", NODE_ARGS(import, node),
                which + 1, onnx_not_constant, count);
}

// Windows -------------------------------------------------------------------------------------------------------------

// An attribute of `count` whole numbers; those that are not given stay as they are.
static Status read_wholes(int *values, size_t count, int low, const char *name, const OnnxImport *import,
                          const Onnx__NodeProto *node, Error *err) {
    const Onnx__AttributeProto *attribute = onnx_attribute(node, name);
    if (!attribute) return STATUS_OK;
    if (attribute->n_ints != count)
        return fail(err, STATUS_DATA, NODE_FORMAT "%s has %zu numbers; windows of rows and columns alone are read",
                    NODE_ARGS(import, node), name, attribute->n_ints);
    for (size_t i = 0; i < count; i++) {
        if (attribute->ints[i] < low || attribute->ints[i] > GREATEST_NUMBER)
            return fail(err, STATUS_DATA, NODE_FORMAT "%s has %" PRId64, NODE_ARGS(import, node), name,
                        attribute->ints[i]);
        values[i] = (int)attribute->ints[i];
    }
    return STATUS_OK;
}

// "3" or "3x5"
static const char *sides_text(char text[32], Sides sides) {
    if (sides.rows == sides.columns)
        snprintf(text, 32, "%d", sides.rows);
    else
        snprintf(text, 32, "%dx%d", sides.rows, sides.columns);
    return text;
}

static void add_sides(char *text, size_t room, const char *name, Sides sides, int preset) {
    char said[32];
    const size_t used = strlen(text);
    if (sides.rows == preset && sides.columns == preset) return;
    snprintf(text + used, room - used, " %s %s", name, sides_text(said, sides));
}

// An image, perhaps with a border of zeros, which is the window's padding then.
static Status take_bordered(OnnxValue **value, OnnxImport *import, const Onnx__NodeProto *node, Error *err) {
    Status status;
    *value = onnx_input(import, node, 0, &status, err);
    TRY(status);
    return *value && (*value)->kind == VALUE_PADDED ? STATUS_OK : take_image(value, import, node, err);
}

// Pads of all dimensions, first those before: only rows and columns have some, as many on both sides, of zeros.
static Status handle_pad(OnnxImport *import, const Onnx__NodeProto *node, Error *err) {
    OnnxValue *in, *pads = NULL, *number;
    const Onnx__AttributeProto *attribute = onnx_attribute(node, "pads"), *mode = onnx_attribute(node, "mode");
    TRY(take_image(&in, import, node, err));
    if (!attribute) TRY(onnx_take(&pads, import, node, 1, VALUE_CONSTANT, "no constant", err));
    float fill = onnx_attribute_real(node, "value", 0);
    if (node->n_input > 2 && *node->input[2]) {
        TRY(onnx_take_reals(&number, import, node, 2, 1, err));
        fill = number->reals[0];
    }
    const int64_t *of = attribute ? attribute->ints : pads->wholes;
    const bool plain = !mode || mode->s.len == 0 || (mode->s.len == 8 && memcmp(mode->s.data, "constant", 8) == 0);
    if (!of || (attribute ? attribute->n_ints : pads->count) != 8 || of[0] || of[1] || of[4] || of[5] ||
        of[2] != of[6] || of[3] != of[7] || of[2] < 0 || of[2] > GREATEST_NUMBER || of[3] < 0 ||
        of[3] > GREATEST_NUMBER || !plain || fill != 0 || node->n_input > 3)
        return fail(err, STATUS_DATA, NODE_FORMAT "only borders of zeros of images are read, the same on both sides",
                    NODE_ARGS(import, node));
    OnnxValue value = *in;
    value.border = (Sides){(int)of[2], (int)of[3]};
    if (of[2] > 0 || of[3] > 0) value.kind = VALUE_PADDED;
    return onnx_give(import, node, value, err);
}

// Stride, padding and dilation as words; *out: the image that the windows leave.
static Status read_window(char *text, size_t room, Shape *out, Sides size, Sides border, const OnnxImport *import,
                          const Onnx__NodeProto *node, Error *err) {
    const bool is_conv = strcmp(node->op_type, "Conv") == 0;
    int stride[2] = {1, 1}, pad[4] = {0}, dilation[2] = {1, 1};
    const Onnx__AttributeProto *automatic = onnx_attribute(node, "auto_pad");
    if (automatic && automatic->s.len > 0 && (automatic->s.len != 6 || memcmp(automatic->s.data, "NOTSET", 6) != 0))
        return fail(err, STATUS_DATA, NODE_FORMAT "auto_pad is %.*s; export it with pads that are numbers",
                    NODE_ARGS(import, node), (int)(automatic->s.len < 32 ? automatic->s.len : 32),
                    (const char *)automatic->s.data);
    TRY(read_wholes(stride, 2, 1, "strides", import, node, err));
    TRY(read_wholes(pad, 4, 0, "pads", import, node, err));
    TRY(read_wholes(dilation, 2, 1, "dilations", import, node, err));
    if (pad[0] != pad[2] || pad[1] != pad[3])
        return fail(err, STATUS_DATA, NODE_FORMAT "its padding is not the same on both sides", NODE_ARGS(import, node));
    pad[0] += border.rows;
    pad[1] += border.columns;
    if (onnx_attribute_whole(node, "ceil_mode", 0) != 0)
        return fail(err, STATUS_DATA, NODE_FORMAT "ceil_mode is 1; windows here end within the image",
                    NODE_ARGS(import, node));
    if (!is_conv && (dilation[0] != 1 || dilation[1] != 1))
        return fail(err, STATUS_DATA, NODE_FORMAT "a pooling with dilation", NODE_ARGS(import, node));
    // Without a word the stride of a pooling here is the window's size; there, as that of a convolution, it is 1.
    const int usual = is_conv ? 1 : size.rows == size.columns ? size.rows : -1;
    add_sides(text, room, "stride", (Sides){stride[0], stride[1]}, usual);
    add_sides(text, room, "pad", (Sides){pad[0], pad[1]}, 0);
    add_sides(text, room, "dilation", (Sides){dilation[0], dilation[1]}, 1);
    const int64_t rows = (int64_t)(size.rows - 1) * dilation[0] + 1,
                  columns = (int64_t)(size.columns - 1) * dilation[1] + 1;
    if (rows > out->rows + 2 * (int64_t)pad[0] || columns > out->columns + 2 * (int64_t)pad[1])
        return fail(err, STATUS_DATA, NODE_FORMAT "its window is larger than the image of %dx%d",
                    NODE_ARGS(import, node), out->rows, out->columns);
    out->rows = windows_along(out->rows, (int)rows, stride[0], pad[0]);
    out->columns = windows_along(out->columns, (int)columns, stride[1], pad[1]);
    return STATUS_OK;
}

static Status handle_conv(OnnxImport *import, const Onnx__NodeProto *node, Error *err) {
    OnnxValue *in, *weight, *bias = NULL;
    char words[128] = "", size[32];
    TRY(take_bordered(&in, import, node, err));
    TRY(onnx_take(&weight, import, node, 1, VALUE_CONSTANT, onnx_not_constant, err));
    const int64_t groups = onnx_attribute_whole(node, "group", 1), *extent = weight->extent;
    if (!weight->reals || weight->rank != 4 || weight->count == 0 || groups < 1 || groups > GREATEST_NUMBER ||
        extent[1] * groups != in->shape.channels || extent[0] % groups != 0)
        return fail(err, STATUS_DATA, NODE_FORMAT "its weight of rank %d does not fit an image of %d channels",
                    NODE_ARGS(import, node), weight->rank, in->shape.channels);
    const Sides sides = {(int)extent[2], (int)extent[3]};
    Shape out = {(int)extent[0], in->shape.rows, in->shape.columns};
    TRY(read_window(words, sizeof words, &out, sides, in->border, import, node, err));
    if (groups > 1) snprintf(words + strlen(words), sizeof words - strlen(words), " groups %d", (int)groups);
    if (node->n_input > 2 && *node->input[2]) TRY(onnx_take_reals(&bias, import, node, 2, (size_t)extent[0], err));
    TRY(onnx_layers_add(&import->layers, in->layer, out, err, "conv %d %s%s", out.channels, sides_text(size, sides),
                        words));
    TRY(onnx_layers_weigh(&import->layers, (size_t)extent[0], weight->count, err));
    OnnxLayer *layer = &import->layers.of[import->layers.count - 1];
    memcpy(layer->weight, weight->reals, weight->count * sizeof *weight->reals);
    if (bias) memcpy(layer->bias, bias->reals, bias->count * sizeof *bias->reals);
    layer->has_bias = bias;
    return onnx_give_layer(import, node, in, err);
}

static Status handle_pool(OnnxImport *import, const Onnx__NodeProto *node, Error *err) {
    OnnxValue *in;
    char words[128] = "", size[32];
    int side[2] = {0, 0};
    const bool averages = strcmp(node->op_type, "AveragePool") == 0;
    TRY(averages ? take_bordered(&in, import, node, err) : take_image(&in, import, node, err));
    TRY(read_wholes(side, 2, 1, "kernel_shape", import, node, err));
    if (side[0] == 0 || node->n_output > 1)
        return fail(err, STATUS_DATA, NODE_FORMAT "it has no kernel_shape, or gives places besides values",
                    NODE_ARGS(import, node));
    const Sides sides = {side[0], side[1]};
    Shape out = in->shape;
    TRY(read_window(words, sizeof words, &out, sides, in->border, import, node, err));
    const Onnx__AttributeProto *pads = onnx_attribute(node, "pads");
    bool own = false;
    for (size_t i = 0; pads && i < pads->n_ints; i++)
        own = own || pads->ints[i] != 0;
    if (averages && own && onnx_attribute_whole(node, "count_include_pad", 0) == 0)
        return fail(err, STATUS_DATA,
                    NODE_FORMAT "its averages leave the padding out (count_include_pad is 0), here they "
                                "count it",
                    NODE_ARGS(import, node));
    if (onnx_attribute_whole(node, "storage_order", 0) != 0)
        return fail(err, STATUS_DATA, NODE_FORMAT "storage_order is not 0", NODE_ARGS(import, node));
    TRY(onnx_layers_add(&import->layers, in->layer, out, err, "%s %s%s", averages ? "avgpool" : "pool",
                        sides_text(size, sides), words));
    return onnx_give_layer(import, node, in, err);
}

Status onnx_global_pool(OnnxImport *import, const Onnx__NodeProto *node, Error *err) {
    OnnxValue *in;
    TRY(take_image(&in, import, node, err));
    TRY(onnx_layers_add(&import->layers, in->layer, (Shape){in->shape.channels, 1, 1}, err, "globalpool"));
    return onnx_give_layer(import, node, in, err);
}

// Products ------------------------------------------------------------------------------------------------------------

// Of vectors of all values, or of the last axis at each place of the others. weight: (in, out), or (out, in) if it lies
// as in PyTorch.
static Status add_linear(OnnxImport *import, const Onnx__NodeProto *node, const OnnxValue *in, const OnnxValue *weight,
                         bool lies_right, Error *err) {
    const char last = in->view[strlen(in->view) - 1];
    const bool is_each = last == 'w' && (strcmp(node->op_type, "MatMul") == 0 || strcmp(in->view, "mw") == 0);
    const size_t ins = is_each ? (size_t)in->shape.columns : shape_size(in->shape);
    const int out = lies_right ? 0 : 1;
    if ((!is_each && last != 'f') || !weight->reals || weight->rank != 2 || weight->count == 0 ||
        (size_t)weight->extent[1 - out] != ins || weight->extent[out] > GREATEST_NUMBER)
        return fail(err, STATUS_DATA, NODE_FORMAT "its weight of rank %d does not fit a vector of %zu values",
                    NODE_ARGS(import, node), weight->rank, ins);
    const size_t outs = (size_t)weight->extent[out];
    Shape shape = {(int)outs, 1, 1};
    if (is_each) shape = (Shape){in->shape.channels, in->shape.rows, (int)outs};
    TRY(onnx_layers_add(&import->layers, in->layer, shape, err, "linear %zu%s", outs, is_each ? " each" : ""));
    TRY(onnx_layers_weigh(&import->layers, outs, ins * outs, err));
    import->layers.of[import->layers.count - 1].is_each = is_each;
    float *to = import->layers.of[import->layers.count - 1].weight;
    for (size_t o = 0; o < outs; o++)
        for (size_t i = 0; i < ins; i++)
            to[o * ins + i] = weight->reals[lies_right ? o * ins + i : i * outs + o];
    return STATUS_OK;
}

static Status handle_gemm(OnnxImport *import, const Onnx__NodeProto *node, Error *err) {
    Status status;
    OnnxValue *in = onnx_input(import, node, 0, &status, err), *weight, *bias;
    TRY(status);
    const bool is_seen = onnx_has_axes(in), lies_right = onnx_attribute_whole(node, "transB", 0) != 0;
    if (!is_seen) TRY(onnx_take_samples(&in, import, node, err));
    TRY(onnx_take(&weight, import, node, 1, VALUE_CONSTANT, onnx_not_constant, err));
    if (onnx_attribute_real(node, "alpha", 1) != 1 || onnx_attribute_real(node, "beta", 1) != 1 ||
        onnx_attribute_whole(node, "transA", 0) != 0)
        return fail(err, STATUS_DATA, NODE_FORMAT "alpha and beta must be 1 and transA 0", NODE_ARGS(import, node));
    if (is_seen)
        TRY(onnx_attention_layer(import, node, in, weight, lies_right, err));
    else
        TRY(add_linear(import, node, in, weight, lies_right, err));
    OnnxLayer *layer = &import->layers.of[import->layers.count - 1];
    if (node->n_input > 2 && *node->input[2]) {
        size_t count = layer->outs;
        float *to = is_seen ? onnx_attention_bias(layer, &count) : layer->bias;
        TRY(onnx_take_reals(&bias, import, node, 2, count, err));
        if (bias->rank < 1 || bias->rank > 2 || bias->extent[bias->rank - 1] != (int64_t)count)
            return fail(err, STATUS_DATA, NODE_FORMAT "its input 3 is no row of %zu numbers", NODE_ARGS(import, node),
                        count);
        memcpy(to, bias->reals, count * sizeof *to);
        layer->has_bias = true;
    }
    return is_seen ? STATUS_OK : onnx_give_layer(import, node, in, err);
}

static Status handle_product(OnnxImport *import, const Onnx__NodeProto *node, Error *err) {
    Status status;
    OnnxValue *in = onnx_input(import, node, 0, &status, err), *weight;
    TRY(status);
    weight = onnx_input(import, node, 1, &status, err);
    TRY(status);
    if (onnx_has_axes(in) && weight && weight->kind == VALUE_CONSTANT)
        return onnx_attention_layer(import, node, in, weight, false, err);
    const bool is_of_heads = in && weight && weight->kind != VALUE_CONSTANT;
    if (is_of_heads && (onnx_has_axes(in) || onnx_has_axes(weight) || in->kind == weight->kind))
        return onnx_heads_product(import, node, in, weight, err);
    TRY(onnx_take_samples(&in, import, node, err));
    TRY(onnx_take(&weight, import, node, 1, VALUE_CONSTANT, onnx_not_constant, err));
    TRY(add_linear(import, node, in, weight, false, err));
    return onnx_give_layer(import, node, in, err);
}

// The table -----------------------------------------------------------------------------------------------------------

const OnnxOp onnx_layer_ops[] = {
    {"Conv", handle_conv, "auto_pad dilations group kernel_shape pads strides"},
    {"Pad", handle_pad, "mode pads value"},
    {"MaxPool", handle_pool, "auto_pad ceil_mode dilations kernel_shape pads storage_order strides"},
    {"AveragePool", handle_pool, "auto_pad ceil_mode count_include_pad dilations kernel_shape pads strides"},
    {"GlobalAveragePool", onnx_global_pool, ""},
    {"Gemm", handle_gemm, "alpha beta transA transB"},
    {"MatMul", handle_product, ""},
    {"LSTM", onnx_lstm, "activations direction hidden_size input_forget layout"},
    {"InstanceNormalization", onnx_groups, "epsilon"},
    {"GroupNormalization", onnx_groups, "epsilon num_groups stash_type"},
    {"LayerNormalization", onnx_layer_norm, "axis epsilon stash_type"},
    {"BatchNormalization", onnx_batch_norm, "epsilon momentum training_mode"},
    {"Sub", onnx_norm_step, ""},
    {"Pow", onnx_norm_step, ""},
    {"Sqrt", onnx_norm_step, ""},
    {"Relu", onnx_function, ""},
    {"LeakyRelu", onnx_function, "alpha"},
    {"Tanh", onnx_function, ""},
    {"Sigmoid", onnx_function, ""},
    {"Gelu", onnx_function, "approximate"},
    {"Clip", onnx_clip, "min max"},
    {"Dropout", onnx_dropout, "ratio seed"},
    {"Softmax", onnx_softmax, "axis"},
    {"LogSoftmax", onnx_softmax, "axis"},
    {"Add", onnx_two, ""},
    {"Mul", onnx_two, ""},
    {"Div", onnx_two, ""},
    {"Erf", onnx_erf, ""},
    {NULL, NULL, NULL},
};
