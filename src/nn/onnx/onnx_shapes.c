// ONNX's ops that compute shapes, and constants.
#include "onnx_attention.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Whole numbers as the node's result, of rank 0 or 1.
static Status give_wholes(OnnxImport *import, const Onnx__NodeProto *node, const int64_t *wholes, size_t count,
                          int rank, Error *err) {
    OnnxValue value = {.kind = VALUE_CONSTANT, .rank = rank, .count = count, .extent = {(int64_t)count}};
    value.wholes = malloc((count + 1) * sizeof *wholes);
    if (!value.wholes) return fail(err, STATUS_OS, "%s: no memory for %zu numbers", import->path, count);
    if (count > 0) memcpy(value.wholes, wholes, count * sizeof *wholes);
    return onnx_give(import, node, value, err);
}

Status onnx_take_wholes(OnnxValue **value, OnnxImport *import, const Onnx__NodeProto *node, size_t which, Error *err) {
    TRY(onnx_take(value, import, node, which, VALUE_CONSTANT, "no constant of whole numbers", err));
    if ((*value)->wholes && (*value)->rank <= 1 && (*value)->count <= ONNX_MAX_RANK) return STATUS_OK;
    return fail(err, STATUS_DATA, NODE_FORMAT "its input %zu is no shape of at most %d whole numbers",
                NODE_ARGS(import, node), which + 1, ONNX_MAX_RANK);
}

Status onnx_axes(int64_t axes[ONNX_MAX_RANK], size_t *count, OnnxImport *import, const Onnx__NodeProto *node, int rank,
                 Error *err) {
    const Onnx__AttributeProto *attribute = onnx_attribute(node, "axes");
    const int64_t *from = attribute ? attribute->ints : NULL;
    OnnxValue *value;
    *count = attribute ? attribute->n_ints : 0;
    if (!attribute && node->n_input > 1 && *node->input[1]) {
        TRY(onnx_take_wholes(&value, import, node, 1, err));
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
        import->number_count += value.count;
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
    if (!onnx_is_seen(value) && !onnx_has_axes(value))
        return fail(err, STATUS_DATA, NODE_FORMAT "its input 1 is %s", NODE_ARGS(import, node), onnx_not_samples);
    const int64_t rank = onnx_has_axes(value) ? onnx_axes_extents(extent, &value->axes) : onnx_extents(extent, value);
    int64_t from = onnx_attribute_whole(node, "start", 0), to = onnx_attribute_whole(node, "end", rank);
    from = from < -rank ? 0 : from < 0 ? from + rank : from > rank ? rank : from;
    to = to < -rank ? 0 : to < 0 ? to + rank : to > rank ? rank : to;
    return give_wholes(import, node, extent + from, to > from ? (size_t)(to - from) : 0, 1, err);
}

static bool is_wholes(const OnnxValue *value) {
    return value && value->kind == VALUE_CONSTANT && value->wholes;
}

static Status handle_gather(OnnxImport *import, const Onnx__NodeProto *node, Error *err) {
    Status status;
    OnnxValue *from = onnx_input(import, node, 0, &status, err), *places;
    int64_t taken[ONNX_MAX_RANK];
    TRY(status);
    if (!is_wholes(from)) return onnx_pick(import, node, err);
    TRY(onnx_take_wholes(&from, import, node, 0, err));
    TRY(onnx_take_wholes(&places, import, node, 1, err));
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
    Status status;
    OnnxValue *from = onnx_input(import, node, 0, &status, err), *bound;
    int64_t at[2];
    TRY(status);
    if (!is_wholes(from)) return onnx_cut(import, node, err);
    TRY(onnx_take_wholes(&from, import, node, 0, err));
    const int64_t count = (int64_t)from->count;
    for (size_t i = 0; i < 2; i++) {
        TRY(onnx_take_wholes(&bound, import, node, i + 1, err));
        const int64_t place = bound->count == 1 ? bound->wholes[0] : 0;
        at[i] = place < -count ? 0 : place < 0 ? place + count : place > count ? count : place;
    }
    bool steps = false;
    if (node->n_input > 4) {
        TRY(onnx_take_wholes(&bound, import, node, 4, err));
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
        TRY(onnx_take_wholes(&part, import, node, i, err));
        if (count + part->count > ONNX_MAX_RANK)
            return fail(err, STATUS_DATA, NODE_FORMAT "a shape of more than %d numbers", NODE_ARGS(import, node),
                        ONNX_MAX_RANK);
        memcpy(all + count, part->wholes, part->count * sizeof *all);
        count += part->count;
    }
    return give_wholes(import, node, all, count, 1, err);
}

// False: the result is no number, or no extent. How many samples there are stays open: only what leaves that as it is,
// or takes it so many times, can be computed.
static bool compute_open(int64_t *result, char op, int64_t open, int64_t b) {
    int64_t times = open - ONNX_BATCH + 1;
    const bool fits = op == '*' ? b > 0 && b <= ONNX_MOST_TIMES / times : op == '/' ? b > 0 && times % b == 0 : b == 0;
    if (fits && op == '*') times *= b;
    if (fits && op == '/') times /= b;
    *result = ONNX_TIMES(times);
    return fits;
}

static bool compute(int64_t *result, char op, int64_t a, int64_t b) {
    const bool turns = op == '*' || op == '+';
    if (b <= ONNX_TIMES(ONNX_MOST_TIMES))
        return turns && a > ONNX_TIMES(ONNX_MOST_TIMES) && compute_open(result, op, b, a);
    if (a <= ONNX_TIMES(ONNX_MOST_TIMES)) return compute_open(result, op, a, b);
    switch (op) {
    case '+':
        return !__builtin_add_overflow(a, b, result);
    case '-':
        return !__builtin_sub_overflow(a, b, result);
    case '*':
        return !__builtin_mul_overflow(a, b, result);
    case '%':
        *result = b > 0 ? a % b : 0;
        return b > 0 && a >= 0;
    default:
        *result = b > 0 ? a / b : 0;
        return b > 0;
    }
}

Status onnx_wholes(OnnxImport *import, const Onnx__NodeProto *node, Error *err) {
    OnnxValue *a, *b;
    int64_t results[ONNX_MAX_RANK];
    const char *name = node->op_type;
    const char op = *name == 'A' ? '+' : *name == 'S' ? '-' : *name != 'M' ? '/' : name[1] == 'u' ? '*' : '%';
    TRY(onnx_take_wholes(&a, import, node, 0, err));
    TRY(onnx_take_wholes(&b, import, node, 1, err));
    const size_t count = a->count == 1 ? b->count : a->count;
    bool fits = b->count == count || b->count == 1;
    for (size_t i = 0; i < count && fits; i++)
        fits = compute(&results[i], op, a->wholes[a->count == 1 ? 0 : i], b->wholes[b->count == 1 ? 0 : i]);
    if (!fits)
        return fail(err, STATUS_DATA, NODE_FORMAT "computes with the number of samples, or numbers that do not fit",
                    NODE_ARGS(import, node));
    return give_wholes(import, node, results, count, a->rank > b->rank ? a->rank : b->rank, err);
}

// Channels of images, one input after the other; or shapes.
static Status handle_concat(OnnxImport *import, const Onnx__NodeProto *node, Error *err) {
    Status status;
    const OnnxValue *first = onnx_input(import, node, 0, &status, err);
    TRY(status);
    if (first && first->kind == VALUE_CONSTANT && first->reals) return onnx_join_reals(import, node, err);
    if (first && first->kind == VALUE_CONSTANT) return join_wholes(import, node, err);
    if (first && first->kind == VALUE_STATES) return onnx_join_states(import, node, err);
    OnnxValue *in, *other;
    TRY(onnx_take_samples(&in, import, node, err));
    const int64_t axis = onnx_attribute_whole(node, "axis", 0), rank = (int64_t)strlen(in->view);
    const bool flat = onnx_is_vector(in);
    if ((!flat && strcmp(in->view, "nchw") != 0) || (axis < 0 ? axis + rank : axis) != 1 || node->n_input < 2)
        return fail(err, STATUS_DATA, NODE_FORMAT "joins along axis %" PRId64 "; here channels are joined",
                    NODE_ARGS(import, node), axis);
    OnnxValue so_far = *in;
    for (size_t i = 1; i < node->n_input; i++) {
        TRY(onnx_take(&other, import, node, i, VALUE_SAMPLES, onnx_not_samples, err));
        Shape out = so_far.shape;
        const bool fits = other->shape.rows == out.rows && other->shape.columns == out.columns &&
                          strcmp(other->view, in->view) == 0 && other->layer >= 0 &&
                          other->shape.channels <= INT_MAX - out.channels;
        // A vector that is a view of an image has no channels of its own.
        if (!fits || (flat && out.rows * out.columns != 1))
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

// The mean of an image's rows and columns is an average over it.
static Status handle_mean(OnnxImport *import, const Onnx__NodeProto *node, Error *err) {
    Status status;
    int64_t axes[ONNX_MAX_RANK];
    size_t count;
    const OnnxValue *in = onnx_input(import, node, 0, &status, err);
    TRY(status);
    if (!in || in->kind != VALUE_SAMPLES || strcmp(in->view, "nchw") != 0) return onnx_norm_mean(import, node, err);
    TRY(onnx_axes(axes, &count, import, node, 4, err));
    if (count != 2 || axes[0] + axes[1] != 5 || axes[0] * axes[1] != 6) return onnx_norm_mean(import, node, err);
    TRY(onnx_global_pool(import, node, err));
    if (onnx_attribute_whole(node, "keepdims", 1) == 0)
        snprintf(import->values[import->value_count - 1].view, ONNX_MAX_RANK, "nf");
    return STATUS_OK;
}

const OnnxOp onnx_shape_ops[] = {
    {"Constant", handle_constant, "value value_float value_int value_ints"},
    {"Shape", handle_shape, "end start"},
    {"Range", onnx_range, ""},
    {"Mod", onnx_wholes, "fmod"},
    {"Gather", handle_gather, "axis"},
    {"Slice", handle_slice, ""},
    {"Concat", handle_concat, "axis"},
    {"Split", onnx_split, "axis num_outputs split"},
    {"Trilu", onnx_mask, "upper"},
    {"ConstantOfShape", onnx_zeros, "value"},
    {"Expand", onnx_zeros, ""},
    {"ReduceMean", handle_mean, "axes keepdims noop_with_empty_axes"},
    {NULL, NULL, NULL},
};
