// ONNX's normalisations.
#include "onnx_ops.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "nn/norm_batch.h"

static Status check_epsilon(const OnnxImport *import, const Onnx__NodeProto *node, Error *err) {
    const float epsilon = onnx_attribute_real(node, "epsilon", NORM_EPSILON);
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
    TRY(check_epsilon(import, node, err));
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

Status onnx_layer_norm(OnnxImport *import, const Onnx__NodeProto *node, Error *err) {
    OnnxValue *in, *gain, *shift = NULL;
    TRY(onnx_take_samples(&in, import, node, err));
    const int64_t given = onnx_attribute_whole(node, "axis", -1), rank = (int64_t)strlen(in->view);
    const int64_t axis = given < 0 ? given + rank : given;
    const bool is_each = axis == rank - 1 && in->view[axis] == 'w';
    if (!is_each && (axis < 1 || axis >= rank || !has_all_from(in, axis)))
        return fail(err, STATUS_DATA,
                    NODE_FORMAT "axis is %" PRId64 "; here all values of a sample or of a row are normalised",
                    NODE_ARGS(import, node), given);
    const size_t size = is_each ? (size_t)in->shape.columns : shape_size(in->shape);
    TRY(check_epsilon(import, node, err));
    TRY(onnx_take_reals(&gain, import, node, 1, size, err));
    if (node->n_input > 2 && *node->input[2]) TRY(onnx_take_reals(&shift, import, node, 2, size, err));
    TRY(onnx_layers_add(&import->layers, in->layer, in->shape, err, "layernorm%s", is_each ? " each" : ""));
    TRY(onnx_layers_weigh(&import->layers, size, size, err));
    OnnxLayer *layer = &import->layers.of[import->layers.count - 1];
    layer->is_each = is_each;
    memcpy(layer->weight, gain->reals, size * sizeof *gain->reals);
    if (shift) memcpy(layer->bias, shift->reals, size * sizeof *shift->reals);
    return onnx_give_layer(import, node, in, err);
}

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
