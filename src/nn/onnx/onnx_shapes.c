// ONNX's ops that change no value of a sample: shapes, what computes them, and constants.
#include "onnx_ops.h"

#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

// The extents of a value that a layer gives; returns how many.
static int extents_of(int64_t extent[ONNX_MAX_RANK], const OnnxValue *value) {
    extent[0] = ONNX_BATCH;
    if (value->kind == VALUE_GROUPS) {
        extent[1] = value->groups;
        extent[2] = (int64_t)shape_size(value->shape) / value->groups;
        return 3;
    }
    extent[1] = value->flat ? (int64_t)shape_size(value->shape) : value->shape.channels;
    extent[2] = value->shape.rows;
    extent[3] = value->shape.columns;
    return value->flat ? 2 : 4;
}

// Whole numbers as the node's result, of rank 0 or 1.
static Status give_wholes(OnnxImport *import, const Onnx__NodeProto *node, const int64_t *wholes, size_t count,
                          int rank, Error *err) {
    OnnxValue value = {.kind = VALUE_CONSTANT, .rank = rank, .count = count, .extent = {(int64_t)count}};
    value.wholes = malloc((count + 1) * sizeof *wholes);
    if (!value.wholes) return fail(err, STATUS_OS, "%s: no memory for %zu numbers", import->path, count);
    if (count > 0) memcpy(value.wholes, wholes, count * sizeof *wholes);
    return onnx_give(import, node, value, err);
}

// The node's input number `which`: a constant of at most a shape's extents, all whole numbers.
static Status take_wholes(OnnxValue **value, OnnxImport *import, const Onnx__NodeProto *node, size_t which,
                          Error *err) {
    TRY(onnx_take(value, import, node, which, VALUE_CONSTANT, "no constant of whole numbers", err));
    if ((*value)->wholes && (*value)->rank <= 1 && (*value)->count <= ONNX_MAX_RANK) return STATUS_OK;
    return fail(err, STATUS_DATA, NODE_FORMAT "its input %zu is no shape of at most %d whole numbers",
                NODE_ARGS(import, node), which + 1, ONNX_MAX_RANK);
}

// Axes: an attribute, or in newer files an input.
static Status read_axes(int64_t axes[ONNX_MAX_RANK], size_t *count, OnnxImport *import, const Onnx__NodeProto *node,
                        int rank, Error *err) {
    const Onnx__AttributeProto *attribute = onnx_attribute(node, "axes");
    const int64_t *from = attribute ? attribute->ints : NULL;
    OnnxValue *value;
    *count = attribute ? attribute->n_ints : 0;
    if (!attribute && node->n_input > 1 && *node->input[1]) {
        TRY(take_wholes(&value, import, node, 1, err));
        from = value->wholes;
        *count = value->count;
    }
    for (size_t i = 0; i < *count; i++) {
        if (*count > ONNX_MAX_RANK || from[i] < -rank || from[i] >= rank)
            return fail(err, STATUS_DATA, NODE_FORMAT "its axes do not fit %d dimensions", NODE_ARGS(import, node),
                        rank);
        axes[i] = from[i] < 0 ? from[i] + rank : from[i];
    }
    return STATUS_OK;
}

static Status handle_constant(OnnxImport *import, const Onnx__NodeProto *node, Error *err) {
    const Onnx__AttributeProto *tensor = onnx_attribute(node, "value"), *whole = onnx_attribute(node, "value_int"),
                               *wholes = onnx_attribute(node, "value_ints"),
                               *real = onnx_attribute(node, "value_float");
    OnnxValue value = {.kind = VALUE_CONSTANT, .count = 1};
    if (tensor && tensor->t) {
        TRY(onnx_constant(&value, import, tensor->t, err));
        return onnx_give(import, node, value, err);
    }
    if (whole) return give_wholes(import, node, &whole->i, 1, 0, err);
    if (wholes) return give_wholes(import, node, wholes->ints, wholes->n_ints, 1, err);
    if (!real)
        return fail(err, STATUS_DATA, NODE_FORMAT "has no number of a kind that is read", NODE_ARGS(import, node));
    value.reals = malloc(sizeof *value.reals);
    if (!value.reals) return fail(err, STATUS_OS, "%s: no memory for a number", import->path);
    *value.reals = real->f;
    return onnx_give(import, node, value, err);
}

// Shapes that are computed --------------------------------------------------------------------------------------------

static Status handle_shape(OnnxImport *import, const Onnx__NodeProto *node, Error *err) {
    Status status;
    int64_t extent[ONNX_MAX_RANK];
    const OnnxValue *value = onnx_input(import, node, 0, &status, err);
    TRY(status);
    if (!value || (value->kind != VALUE_SAMPLES && value->kind != VALUE_GROUPS))
        return fail(err, STATUS_DATA, NODE_FORMAT "its input 1 is %s", NODE_ARGS(import, node), onnx_not_samples);
    return give_wholes(import, node, extent, (size_t)extents_of(extent, value), 1, err);
}

static Status handle_gather(OnnxImport *import, const Onnx__NodeProto *node, Error *err) {
    OnnxValue *from, *places;
    int64_t taken[ONNX_MAX_RANK];
    TRY(take_wholes(&from, import, node, 0, err));
    TRY(take_wholes(&places, import, node, 1, err));
    for (size_t i = 0; i < places->count; i++) {
        const int64_t count = (int64_t)from->count, place = places->wholes[i];
        if (place < -count || place >= count)
            return fail(err, STATUS_DATA, NODE_FORMAT "place %" PRId64 " of %zu numbers", NODE_ARGS(import, node),
                        place, from->count);
        taken[i] = from->wholes[place < 0 ? place + count : place];
    }
    return give_wholes(import, node, taken, places->count, places->rank, err);
}

static Status handle_slice(OnnxImport *import, const Onnx__NodeProto *node, Error *err) {
    OnnxValue *from, *bound;
    int64_t at[2];
    TRY(take_wholes(&from, import, node, 0, err));
    const int64_t count = (int64_t)from->count;
    for (size_t i = 0; i < 2; i++) {
        TRY(take_wholes(&bound, import, node, i + 1, err));
        const int64_t place = bound->count == 1 ? bound->wholes[0] : 0;
        at[i] = place < -count ? 0 : place < 0 ? place + count : place > count ? count : place;
    }
    bool steps = false;
    if (node->n_input > 4) {
        TRY(take_wholes(&bound, import, node, 4, err));
        steps = bound->count != 1 || bound->wholes[0] != 1;
    }
    if (steps) return fail(err, STATUS_DATA, NODE_FORMAT "steps are not 1", NODE_ARGS(import, node));
    return give_wholes(import, node, from->wholes + at[0], at[1] > at[0] ? (size_t)(at[1] - at[0]) : 0, 1, err);
}

static Status join_wholes(OnnxImport *import, const Onnx__NodeProto *node, Error *err) {
    int64_t all[ONNX_MAX_RANK];
    size_t count = 0;
    for (size_t i = 0; i < node->n_input; i++) {
        OnnxValue *part;
        TRY(take_wholes(&part, import, node, i, err));
        if (count + part->count > ONNX_MAX_RANK)
            return fail(err, STATUS_DATA, NODE_FORMAT "a shape of more than %d numbers", NODE_ARGS(import, node),
                        ONNX_MAX_RANK);
        memcpy(all + count, part->wholes, part->count * sizeof *all);
        count += part->count;
    }
    return give_wholes(import, node, all, count, 1, err);
}

// Channels of images, one input after the other; or shapes.
static Status handle_concat(OnnxImport *import, const Onnx__NodeProto *node, Error *err) {
    Status status;
    const OnnxValue *first = onnx_input(import, node, 0, &status, err);
    TRY(status);
    if (first && first->kind == VALUE_CONSTANT) return join_wholes(import, node, err);
    OnnxValue *in, *other;
    TRY(onnx_take_samples(&in, import, node, err));
    const int64_t axis = onnx_attribute_whole(node, "axis", 0), rank = in->flat ? 2 : 4;
    if ((axis < 0 ? axis + rank : axis) != 1 || node->n_input < 2)
        return fail(err, STATUS_DATA, NODE_FORMAT "joins along axis %" PRId64 "; here channels are joined",
                    NODE_ARGS(import, node), axis);
    OnnxValue so_far = *in;
    for (size_t i = 1; i < node->n_input; i++) {
        TRY(onnx_take(&other, import, node, i, VALUE_SAMPLES, onnx_not_samples, err));
        Shape out = so_far.shape;
        const bool fits = other->shape.rows == out.rows && other->shape.columns == out.columns &&
                          other->flat == in->flat && other->layer >= 0 &&
                          other->shape.channels <= INT_MAX - out.channels;
        // A vector that is a view of an image has no channels of its own.
        if (!fits || (in->flat && out.rows * out.columns != 1))
            return fail(err, STATUS_DATA, NODE_FORMAT "its inputs do not fit each other, or are the net's own input",
                        NODE_ARGS(import, node));
        out.channels += other->shape.channels;
        TRY(onnx_layers_add(&import->layers, so_far.layer, out, err, "concat"));
        so_far.layer = import->layers.count - 1;
        so_far.shape = out;
        so_far.uses = 0;
        import->layers.of[so_far.layer].other = other->layer;
        import->layers.of[other->layer].named = true;
    }
    return onnx_give(import, node, so_far, err);
}

// The same values, seen otherwise -------------------------------------------------------------------------------------

// A constant of other extents.
static Status view_constant(OnnxImport *import, const Onnx__NodeProto *node, int rank, const int64_t *extent,
                            Error *err) {
    TRY(onnx_pass_on(import, node, err));
    OnnxValue *value = &import->values[import->value_count - 1];
    size_t count = 1;
    for (int d = 0; d < rank; d++)
        count = extent[d] >= 0 && (uint64_t)extent[d] <= value->count ? count * (size_t)extent[d] : SIZE_MAX;
    if (rank > ONNX_MAX_RANK || count != value->count)
        return fail(err, STATUS_DATA, NODE_FORMAT "%zu numbers in a shape that has not as many",
                    NODE_ARGS(import, node), value->count);
    value->rank = rank;
    memcpy(value->extent, extent, (size_t)rank * sizeof *extent);
    return STATUS_OK;
}

// Fills in what 0 (as before) and -1 (what is left) stand for. False: they do not make as many values as there are.
static bool complete_shape(int64_t *wanted, int rank, const int64_t *before, int rank_before, int64_t values) {
    int64_t product = 1;
    int open = -1;
    for (int d = 1; d < rank; d++) {
        if (wanted[d] == 0 && d < rank_before) wanted[d] = before[d];
        if (wanted[d] == -1 && open >= 0) return false;
        if (wanted[d] == -1)
            open = d;
        else if (wanted[d] < 1 || wanted[d] > values / product)
            return false;
        else
            product *= wanted[d];
    }
    if (open >= 0 && values % product == 0) {
        wanted[open] = values / product;
        product = values;
    }
    return product == values;
}

static Status view_samples(OnnxImport *import, const Onnx__NodeProto *node, OnnxValue value, int64_t *wanted, int rank,
                           Error *err) {
    int64_t before[ONNX_MAX_RANK];
    const int rank_before = extents_of(before, &value);
    const Shape shape = value.shape;
    const int64_t all = rank > 0 ? wanted[0] : 1;
    const bool of_samples = all == ONNX_BATCH || all == 0 || all == -1 || all == import->batch;
    if (of_samples && complete_shape(wanted, rank, before, rank_before, (int64_t)shape_size(shape))) {
        value.flat = rank == 2;
        value.kind = rank == 3 ? VALUE_GROUPS : VALUE_SAMPLES;
        value.groups = rank == 3 ? (int)wanted[1] : 0;
        const bool same =
            rank == 4 && wanted[1] == shape.channels && wanted[2] == shape.rows && wanted[3] == shape.columns;
        if (rank == 2 || same || (rank == 3 && shape.channels % wanted[1] == 0))
            return onnx_give(import, node, value, err);
    }
    return fail(err, STATUS_DATA,
                NODE_FORMAT "gives samples of %dx%dx%d a shape of %d dimensions that no layer here reads",
                NODE_ARGS(import, node), shape.channels, shape.rows, shape.columns, rank);
}

static Status handle_reshape(OnnxImport *import, const Onnx__NodeProto *node, Error *err) {
    Status status;
    OnnxValue *wanted;
    int64_t extent[ONNX_MAX_RANK];
    const OnnxValue *value = onnx_input(import, node, 0, &status, err);
    TRY(status);
    TRY(take_wholes(&wanted, import, node, 1, err));
    memcpy(extent, wanted->wholes, wanted->count * sizeof *extent);
    for (size_t i = 0; i < wanted->count && onnx_attribute_whole(node, "allowzero", 0) != 0; i++)
        if (extent[i] == 0)
            return fail(err, STATUS_DATA, NODE_FORMAT "a shape without values", NODE_ARGS(import, node));
    if (value && value->kind == VALUE_CONSTANT) return view_constant(import, node, (int)wanted->count, extent, err);
    if (value && (value->kind == VALUE_SAMPLES || value->kind == VALUE_GROUPS))
        return view_samples(import, node, *value, extent, (int)wanted->count, err);
    return fail(err, STATUS_DATA, NODE_FORMAT "its input 1 is %s", NODE_ARGS(import, node), onnx_not_samples);
}

static Status handle_flatten(OnnxImport *import, const Onnx__NodeProto *node, Error *err) {
    OnnxValue *in;
    TRY(onnx_take_samples(&in, import, node, err));
    const int64_t axis = onnx_attribute_whole(node, "axis", 1);
    if (axis != 1 && axis != (in->flat ? -1 : -3))
        return fail(err, STATUS_DATA, NODE_FORMAT "axis is %" PRId64 "; samples stay apart", NODE_ARGS(import, node),
                    axis);
    return view_samples(import, node, *in, (int64_t[ONNX_MAX_RANK]){ONNX_BATCH, -1}, 2, err);
}

// Without the axes, or without all that are 1.
static Status squeeze(OnnxImport *import, const Onnx__NodeProto *node, const OnnxValue *in, Error *err) {
    int64_t extent[ONNX_MAX_RANK], axes[ONNX_MAX_RANK], left[ONNX_MAX_RANK];
    size_t count;
    int rank = in->rank, kept = 0;
    if (in->kind == VALUE_CONSTANT)
        memcpy(extent, in->extent, sizeof extent);
    else
        rank = extents_of(extent, in);
    TRY(read_axes(axes, &count, import, node, rank, err));
    for (int d = 0; d < rank; d++) {
        bool goes = count == 0 && extent[d] == 1;
        for (size_t i = 0; i < count; i++)
            goes = goes || axes[i] == d;
        if (!goes) left[kept++] = extent[d];
    }
    if (in->kind == VALUE_CONSTANT) return view_constant(import, node, kept, left, err);
    return view_samples(import, node, *in, left, kept, err);
}

static Status handle_squeeze(OnnxImport *import, const Onnx__NodeProto *node, Error *err) {
    Status status;
    const OnnxValue *in = onnx_input(import, node, 0, &status, err);
    TRY(status);
    if (in && (in->kind == VALUE_CONSTANT || in->kind == VALUE_SAMPLES)) return squeeze(import, node, in, err);
    return fail(err, STATUS_DATA, NODE_FORMAT "its input 1 is %s", NODE_ARGS(import, node), onnx_not_samples);
}

static Status handle_unsqueeze(OnnxImport *import, const Onnx__NodeProto *node, Error *err) {
    OnnxValue *in;
    int64_t axes[ONNX_MAX_RANK], extent[2 * ONNX_MAX_RANK];
    size_t count;
    TRY(onnx_take(&in, import, node, 0, VALUE_CONSTANT, "no constant", err));
    const Onnx__AttributeProto *attribute = onnx_attribute(node, "axes");
    OnnxValue *given = NULL;
    if (!attribute) TRY(take_wholes(&given, import, node, 1, err));
    const size_t added = attribute ? attribute->n_ints : given->count;
    if (added + (size_t)in->rank > ONNX_MAX_RANK)
        return fail(err, STATUS_DATA, NODE_FORMAT "more than %d dimensions", NODE_ARGS(import, node), ONNX_MAX_RANK);
    const int rank = in->rank + (int)added;
    TRY(read_axes(axes, &count, import, node, rank, err));
    for (int d = 0, from = 0; d < rank; d++) {
        bool is_new = false;
        for (size_t i = 0; i < count; i++)
            is_new = is_new || axes[i] == d;
        extent[d] = is_new || from == in->rank ? 1 : in->extent[from++];
    }
    return view_constant(import, node, rank, extent, err);
}

static Status handle_transpose(OnnxImport *import, const Onnx__NodeProto *node, Error *err) {
    OnnxValue *in;
    const Onnx__AttributeProto *order = onnx_attribute(node, "perm");
    TRY(onnx_take(&in, import, node, 0, VALUE_CONSTANT, "no constant; samples keep the order of their dimensions here",
                  err));
    if (!in->reals || in->rank != 2 || (order && (order->n_ints != 2 || order->ints[0] != 1 || order->ints[1] != 0)))
        return fail(err, STATUS_DATA, NODE_FORMAT "only matrices are turned", NODE_ARGS(import, node));
    const size_t rows = (size_t)in->extent[0], columns = (size_t)in->extent[1];
    OnnxValue turned = {
        .kind = VALUE_CONSTANT, .rank = 2, .count = in->count, .extent = {in->extent[1], in->extent[0]}};
    turned.reals = malloc((in->count + 1) * sizeof *turned.reals);
    if (!turned.reals) return fail(err, STATUS_OS, "%s: no memory for %zu numbers", import->path, in->count);
    for (size_t i = 0; i < in->count; i++)
        turned.reals[i % columns * rows + i / columns] = in->reals[i];
    return onnx_give(import, node, turned, err);
}

// Samples stay floats: to whole numbers would cut them off.
static Status handle_cast(OnnxImport *import, const Onnx__NodeProto *node, Error *err) {
    enum { ONNX_FLOAT = 1, ONNX_DOUBLE = 11 };
    Status status;
    const OnnxValue *in = onnx_input(import, node, 0, &status, err);
    TRY(status);
    const int64_t to = onnx_attribute_whole(node, "to", 0);
    if (in && in->kind != VALUE_CONSTANT && to != ONNX_FLOAT && to != ONNX_DOUBLE)
        return fail(err, STATUS_DATA, NODE_FORMAT "makes of samples a type (%" PRId64 ") that is no float",
                    NODE_ARGS(import, node), to);
    return onnx_pass_on(import, node, err);
}

// The mean of an image's rows and columns is an average over it.
static Status handle_mean(OnnxImport *import, const Onnx__NodeProto *node, Error *err) {
    OnnxValue *in;
    int64_t axes[ONNX_MAX_RANK];
    size_t count;
    TRY(onnx_take_samples(&in, import, node, err));
    TRY(read_axes(axes, &count, import, node, in->flat ? 2 : 4, err));
    if (in->flat || count != 2 || axes[0] + axes[1] != 5 || axes[0] * axes[1] != 6)
        return fail(err, STATUS_DATA, NODE_FORMAT "only means over an image's rows and columns are layers here",
                    NODE_ARGS(import, node));
    TRY(onnx_global_pool(import, node, err));
    import->values[import->value_count - 1].flat = onnx_attribute_whole(node, "keepdims", 1) == 0;
    return STATUS_OK;
}

const OnnxOp onnx_shape_ops[] = {
    {"Constant", handle_constant, "value value_float value_int value_ints"},
    {"Identity", onnx_pass_on, ""},
    {"Cast", handle_cast, "to saturate"},
    {"Shape", handle_shape, ""},
    {"Gather", handle_gather, "axis"},
    {"Slice", handle_slice, ""},
    {"Concat", handle_concat, "axis"},
    {"Reshape", handle_reshape, "allowzero"},
    {"Flatten", handle_flatten, "axis"},
    {"Squeeze", handle_squeeze, "axes"},
    {"Unsqueeze", handle_unsqueeze, "axes"},
    {"Transpose", handle_transpose, "perm"},
    {"ReduceMean", handle_mean, "axes keepdims noop_with_empty_axes"},
    {NULL, NULL, NULL},
};
