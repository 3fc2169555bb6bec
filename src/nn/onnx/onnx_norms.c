// ONNX's normalisations.
#include "onnx_ops.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "nn/norm_batch.h"

static Status check_epsilon(const OnnxImport *import, float epsilon, const Onnx__NodeProto *node, Error *err) {
    if (fabsf(epsilon - NORM_EPSILON) < 1e-3f * NORM_EPSILON) return STATUS_OK;
    return fail(err, STATUS_DATA, NODE_FORMAT "epsilon is %g; normalisation here adds %g", NODE_ARGS(import, node),
                (double)epsilon, (double)NORM_EPSILON);
}

// A factor and a shift of each channel, from as many of each group or of each channel.
Status onnx_groups(OnnxImport *import, const Onnx__NodeProto *node, Error *err) {
    OnnxValue *gain, *shift;
    Status status;
    const OnnxValue *in = onnx_input(import, node, 0, &status, err);
    TRY(status);
    const bool is_own = strcmp(node->op_type, "GroupNormalization") == 0;
    if (!in || ((in->kind != VALUE_GROUPS || is_own) && (in->kind != VALUE_SAMPLES || strcmp(in->view, "nchw") != 0)))
        return fail(err, STATUS_DATA, NODE_FORMAT "its input 1 is %s", NODE_ARGS(import, node), onnx_not_samples);
    TRY(check_epsilon(import, onnx_attribute_real(node, "epsilon", NORM_EPSILON), node, err));
    TRY(onnx_take(&gain, import, node, 1, VALUE_CONSTANT, onnx_not_constant, err));
    TRY(onnx_take_reals(&shift, import, node, 2, gain->count, err));
    const int channels = in->shape.channels;
    const int64_t groups = is_own                     ? onnx_attribute_whole(node, "num_groups", 0)
                           : in->kind == VALUE_GROUPS ? in->groups
                                                      : channels;
    const bool each = gain->count == (size_t)channels; // channel has its own
    if (groups < 1 || groups > channels || channels % groups != 0 || !gain->reals ||
        (!each && gain->count != (size_t)groups))
        return fail(err, STATUS_DATA, NODE_FORMAT "%zu factors for %" PRId64 " groups of %d channels",
                    NODE_ARGS(import, node), gain->count, groups, channels);
    TRY(onnx_layers_add(&import->layers, in->layer, in->shape, err, "groupnorm %d", (int)groups));
    TRY(onnx_layers_weigh(&import->layers, (size_t)channels, (size_t)channels, err));
    OnnxLayer *layer = &import->layers.of[import->layers.count - 1];
    for (int c = 0; c < channels; c++) {
        layer->weight[c] = gain->reals[each ? c : c / (channels / (int)groups)];
        layer->bias[c] = shift->reals[each ? c : c / (channels / (int)groups)];
    }
    return onnx_give_layer(import, node, in, err);
}

// Whether all values of each sample lie from this dimension on, in their order.
static bool has_all_from(const OnnxValue *value, int64_t axis) {
    bool has_samples = false;
    for (int64_t d = 0; d < axis; d++) {
        if (value->view[d] != 'n' && value->view[d] != '1') return false;
        has_samples = has_samples || value->view[d] == 'n';
    }
    return has_samples && onnx_is_in_order(value);
}

// A normalisation of the dimensions from number `given` on; of LayerNormalization with the factors and shifts that are
// its inputs, otherwise with 1 and 0.
static Status add_layer_norm(OnnxImport *import, const Onnx__NodeProto *node, const OnnxValue *in, int64_t given,
                             Error *err) {
    enum { MOST_WITHOUT_FACTORS = 1 << 20 };
    OnnxValue *gain = NULL, *shift = NULL;
    const int64_t rank = (int64_t)strlen(in->view), axis = given < 0 ? given + rank : given;
    const bool is_each = axis == rank - 1 && in->view[axis] == 'w', has_gain = strcmp(node->op_type, "Div") != 0;
    const size_t size = is_each ? (size_t)in->shape.columns : shape_size(in->shape);
    if ((!is_each && (axis < 1 || axis >= rank || !has_all_from(in, axis))) ||
        (!has_gain && size > MOST_WITHOUT_FACTORS))
        return fail(err, STATUS_DATA,
                    NODE_FORMAT "axis is %" PRId64 "; here all values of a sample or of a row are normalised",
                    NODE_ARGS(import, node), given);
    if (has_gain) TRY(onnx_take_reals(&gain, import, node, 1, size, err));
    if (has_gain && node->n_input > 2 && *node->input[2]) TRY(onnx_take_reals(&shift, import, node, 2, size, err));
    TRY(onnx_layers_add(&import->layers, in->layer, in->shape, err, "layernorm%s", is_each ? " each" : ""));
    TRY(onnx_layers_weigh(&import->layers, size, size, err));
    OnnxLayer *layer = &import->layers.of[import->layers.count - 1];
    layer->is_each = is_each;
    for (size_t i = 0; i < size; i++)
        layer->weight[i] = 1;
    onnx_layer_scale(layer, gain ? gain->reals : NULL, shift ? shift->reals : NULL);
    return STATUS_OK;
}

Status onnx_layer_norm(OnnxImport *import, const Onnx__NodeProto *node, Error *err) {
    OnnxValue *in;
    TRY(onnx_take_samples(&in, import, node, err));
    TRY(check_epsilon(import, onnx_attribute_real(node, "epsilon", NORM_EPSILON), node, err));
    TRY(add_layer_norm(import, node, in, onnx_attribute_whole(node, "axis", -1), err));
    return onnx_give_layer(import, node, in, err);
}

// In parts ------------------------------------------------------------------------------------------------------------

Status onnx_norm_mean(OnnxImport *import, const Onnx__NodeProto *node, Error *err) {
    OnnxValue value, *in;
    Status status;
    int64_t axes[ONNX_MAX_RANK];
    size_t count;
    in = onnx_input(import, node, 0, &status, err);
    TRY(status);
    const bool is_second = in && in->kind == VALUE_SQUARES;
    if (!is_second) TRY(onnx_take_samples(&in, import, node, err));
    const int rank = (int)strlen(in->view);
    TRY(onnx_axes(axes, &count, import, node, rank, err));
    bool fits = count > 0 && count < (size_t)rank && onnx_attribute_whole(node, "keepdims", 1) == 1;
    int64_t sum = 0, first = rank - (int64_t)count;
    for (size_t i = 0; i < count; i++) {
        fits = fits && axes[i] >= first;
        sum += 1 << axes[i];
    }
    fits = fits && sum == (1 << rank) - (1 << first) && (!is_second || first == in->groups);
    if (!fits)
        return fail(err, STATUS_DATA,
                    NODE_FORMAT "only means over an image's rows and columns are layers here, and those of the last "
                                "dimensions parts of a normalisation",
                    NODE_ARGS(import, node));
    value = *in;
    value.kind = is_second ? VALUE_VARIANCE : VALUE_MEAN;
    value.groups = (int)first;
    return onnx_give(import, node, value, err);
}

// The steps from a mean to a normalisation: what an op makes of two values, or of one and a number.
static const struct NormStep {
    const char *op;
    ValueKind takes, with, gives;
} norm_steps[] = {
    {"Sub", VALUE_SAMPLES, VALUE_MEAN, VALUE_CENTRED},
    {"Pow", VALUE_CENTRED, VALUE_CONSTANT, VALUE_SQUARES}, // the second
    {"Mul", VALUE_CENTRED, VALUE_CENTRED, VALUE_SQUARES},
    {"Add", VALUE_VARIANCE, VALUE_CONSTANT, VALUE_SPREAD}, // epsilon
    {"Sqrt", VALUE_SPREAD, VALUE_UNKNOWN, VALUE_DEVIATION},
    {"Div", VALUE_CENTRED, VALUE_DEVIATION, VALUE_SAMPLES},
};

static bool are_same(const OnnxValue *a, const OnnxValue *b) {
    return a->layer == b->layer && strcmp(a->view, b->view) == 0 &&
           (a->kind == VALUE_SAMPLES || a->groups == b->groups);
}

Status onnx_norm_step(OnnxImport *import, const Onnx__NodeProto *node, Error *err) {
    Status status;
    const OnnxValue *a = onnx_input(import, node, 0, &status, err), *b;
    TRY(status);
    b = onnx_input(import, node, 1, &status, err);
    TRY(status);
    if (a && a->kind == VALUE_CONSTANT && strcmp(node->op_type, "Sqrt") == 0) return onnx_number(import, node, err);
    if (a && b && a->kind == VALUE_CONSTANT && a->wholes && strcmp(node->op_type, "Sub") == 0)
        return onnx_wholes(import, node, err);
    const ValueKind kind = a ? a->kind : VALUE_UNKNOWN, other = b ? b->kind : VALUE_UNKNOWN;
    const struct NormStep *step = NULL;
    for (size_t i = 0; i < sizeof norm_steps / sizeof *norm_steps; i++)
        if (strcmp(norm_steps[i].op, node->op_type) == 0 && norm_steps[i].takes == kind && norm_steps[i].with == other)
            step = &norm_steps[i];
    const bool has_number = step && other == VALUE_CONSTANT, is_number = has_number && b->reals && b->count == 1;
    if (!step || (has_number && !is_number) || (b && !has_number && !are_same(a, b)) ||
        (is_number && step->gives == VALUE_SQUARES && *b->reals != 2))
        return fail(err, STATUS_DATA, NODE_FORMAT "what it makes of its inputs is no layer here",
                    NODE_ARGS(import, node));
    if (step->gives == VALUE_SPREAD) TRY(check_epsilon(import, *b->reals, node, err));
    OnnxValue value = *a;
    value.kind = step->gives;
    if (step->gives == VALUE_CENTRED) value.groups = b->groups;
    if (step->gives != VALUE_SAMPLES) return onnx_give(import, node, value, err);
    TRY(add_layer_norm(import, node, a, a->groups, err));
    return onnx_give_layer(import, node, &value, err);
}

// Whole batches -------------------------------------------------------------------------------------------------------

// What ONNX's momentum is of running statistics that each batch moves a tenth of the way.
static const float momentum_here = 1 - NORM_MOMENTUM;

// A layer whose running statistics begin where those of the file are.
static Status add_batch_norm(OnnxImport *import, const Onnx__NodeProto *node, const OnnxValue *in,
                             OnnxValue *const number[4], Error *err) {
    const size_t channels = (size_t)in->shape.channels;
    TRY(onnx_layers_add(&import->layers, in->layer, in->shape, err, "batchnorm"));
    TRY(onnx_layers_weigh(&import->layers, channels, channels, err));
    OnnxLayer *layer = &import->layers.of[import->layers.count - 1];
    layer->running = malloc(2 * channels * sizeof *layer->running);
    if (!layer->running) return fail(err, STATUS_OS, "%s: no memory for %zu numbers", import->path, 2 * channels);
    float *const to[] = {layer->weight, layer->bias, layer->running, layer->running + channels};
    for (size_t i = 0; i < 4; i++)
        memcpy(to[i], number[i]->reals, channels * sizeof *to[i]);
    layer->has_bias = true;
    return onnx_give_layer(import, node, in, err);
}

// (x - mean) / sqrt(variance + epsilon) * gain + shift, in the weights of the layer before.
static Status fold_batch_norm(OnnxImport *import, const Onnx__NodeProto *node, const OnnxValue *in,
                              OnnxValue *const number[4], float epsilon, Error *err) {
    OnnxLayer *layer = in->layer >= 0 ? &import->layers.of[in->layer] : NULL;
    if (!layer || !layer->weight || layer->is_each || layer->outs != (size_t)layer->out.channels || in->uses != 1)
        return fail(
            err, STATUS_DATA,
            NODE_FORMAT "its epsilon is %g and its momentum %g, a batchnorm's here %g and %g; and no convolution "
                        "or product is before it whose weights could take it in",
            NODE_ARGS(import, node), (double)epsilon, (double)onnx_attribute_real(node, "momentum", momentum_here),
            (double)NORM_EPSILON, (double)momentum_here);
    float *factor = malloc(2 * layer->outs * sizeof *factor), *shift = factor + layer->outs;
    if (!factor) return fail(err, STATUS_OS, "%s: no memory for %zu numbers", import->path, 2 * layer->outs);
    for (size_t c = 0; c < layer->outs; c++) {
        const float variance = number[3]->reals[c];
        factor[c] = number[0]->reals[c] / sqrtf((variance < 0 ? 0 : variance) + epsilon);
        shift[c] = number[1]->reals[c] - number[2]->reals[c] * factor[c];
    }
    onnx_layer_scale(layer, factor, shift);
    free(factor);
    import->folded++;
    return onnx_pass_on(import, node, err);
}

// A layer, if it would train here as there; otherwise its statistics are constants.
Status onnx_batch_norm(OnnxImport *import, const Onnx__NodeProto *node, Error *err) {
    OnnxValue *in, *number[4];
    TRY(onnx_take_samples(&in, import, node, err));
    if (strcmp(in->view, "nchw") != 0 && (!onnx_is_vector(in) || in->shape.rows * in->shape.columns > 1))
        return fail(err, STATUS_DATA,
                    NODE_FORMAT "it normalises each value of an image; a batchnorm here has one factor for each of "
                                "its %d channels, and stands before what flattens it",
                    NODE_ARGS(import, node), in->shape.channels);
    for (size_t i = 0; i < 4; i++)
        TRY(onnx_take_reals(&number[i], import, node, i + 1, (size_t)in->shape.channels, err));
    const float epsilon = onnx_attribute_real(node, "epsilon", NORM_EPSILON);
    const float momentum = onnx_attribute_real(node, "momentum", momentum_here);
    if (fabsf(epsilon - NORM_EPSILON) < 1e-3f * NORM_EPSILON && fabsf(momentum - momentum_here) < 1e-3f)
        return add_batch_norm(import, node, in, number, err);
    return fold_batch_norm(import, node, in, number, epsilon, err);
}
