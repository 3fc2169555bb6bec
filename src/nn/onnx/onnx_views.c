// ONNX's ops that change no value of a sample but how its dimensions lie.
#include "onnx_attention.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Dimensions ----------------------------------------------------------------------------------------------------------

static int64_t extent_of(const OnnxValue *value, char dimension) {
    switch (dimension) {
    case 'n':
        return ONNX_BATCH;
    case 'm':
        return ONNX_TIMES(value->shape.rows);
    case 'c':
        return value->shape.channels;
    case 'h':
        return value->shape.rows;
    case 'w':
        return value->shape.columns;
    case 'f':
        return (int64_t)shape_size(value->shape);
    default:
        return 1;
    }
}

int onnx_extents(int64_t extent[ONNX_MAX_RANK], const OnnxValue *value) {
    if (value->kind == VALUE_GROUPS) {
        extent[0] = ONNX_BATCH;
        extent[1] = value->groups;
        extent[2] = (int64_t)shape_size(value->shape) / value->groups;
        return 3;
    }
    int rank = 0;
    for (const char *dimension = value->view; *dimension; dimension++)
        extent[rank++] = extent_of(value, *dimension);
    return rank;
}

bool onnx_is_seen(const OnnxValue *value) {
    return value && (value->kind == VALUE_SAMPLES || value->kind == VALUE_GROUPS || value->kind == VALUE_NUMBERS);
}

bool onnx_is_vector(const OnnxValue *value) {
    return strcmp(value->view, "nf") == 0;
}

bool onnx_is_in_order(const OnnxValue *value) {
    static const char order[] = "nchwf";
    const char *last = order;
    for (const char *dimension = value->view; *dimension; dimension++) {
        if (*dimension == '1') continue;
        const char *place = strchr(order, *dimension);
        if (!place || place < last) return false;
        last = place;
    }
    return true;
}

Status onnx_give_view(OnnxImport *import, const Onnx__NodeProto *node, OnnxValue value, const char *view, Error *err) {
    snprintf(value.view, sizeof value.view, "%s", view);
    for (char *dimension = value.view; *dimension && strlen(view) == 2 && !strchr(view, 'm'); dimension++)
        if (*dimension != 'n') *dimension = 'f';
    if (value.shape.channels == 1 && strcmp(view, "n1hw") == 0) value.view[1] = 'c';
    return onnx_give(import, node, value, err);
}

// Whether a dimension is among those of the axes.
static bool is_among(int dimension, const int64_t *axes, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (axes[i] == dimension) return true;
    return false;
}

// The same values, seen otherwise -------------------------------------------------------------------------------------

// A constant of other extents, of which one may be -1: what is left.
static Status view_constant(OnnxImport *import, const Onnx__NodeProto *node, int rank, int64_t *extent, Error *err) {
    TRY(onnx_pass_on(import, node, err));
    OnnxValue *value = &import->values[import->value_count - 1];
    size_t others = 1, count = 1;
    for (int d = 0; d < rank; d++)
        if (extent[d] > 0 && (uint64_t)extent[d] <= value->count && others <= value->count) others *= (size_t)extent[d];
    for (int d = 0; d < rank; d++) {
        if (extent[d] == -1) extent[d] = (int64_t)(value->count / others);
        count = extent[d] >= 0 && (uint64_t)extent[d] <= value->count ? count * (size_t)extent[d] : SIZE_MAX;
    }
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

// The value's dimensions in a shape; NULL: of a shape that no layer here reads.
static const char *view_of(const OnnxValue *value, const int64_t *wanted, int rank) {
    const Shape shape = value->shape;
    const bool is_image = wanted[rank - 2] == shape.rows && wanted[rank - 1] == shape.columns;
    if (rank == 2) return "nf";
    if (rank == 4) return is_image && wanted[1] == shape.channels ? "nchw" : NULL;
    return rank == 3 && is_image && shape.channels == 1 && (shape.rows > 1 || value->kind == VALUE_NUMBERS) ? "nhw"
                                                                                                            : NULL;
}

// Whether the shape has the rows of all samples one after the other: (samples times steps, values).
static bool are_rows(const OnnxImport *import, const OnnxValue *value, const int64_t *wanted, int rank) {
    const Shape shape = value->shape;
    return value->kind == VALUE_SAMPLES && rank == 2 && shape.channels == 1 && shape.rows > 1 &&
           wanted[1] == shape.columns &&
           (wanted[0] == -1 || wanted[0] == ONNX_TIMES(shape.rows) ||
            (wanted[0] % shape.rows == 0 && wanted[0] / shape.rows == import->batch)) &&
           strchr(value->view, 'w') && onnx_is_in_order(value);
}

// The view without its dimensions of one place, or with more of them, where that is all that the shape changes. False:
// it is not.
static bool squeezed(char view[ONNX_MAX_RANK + 1], const OnnxImport *import, const OnnxValue *value,
                     const int64_t *wanted, int rank) {
    const char *from = value->view;
    bool open = false;
    if (value->kind != VALUE_SAMPLES || rank > ONNX_MAX_RANK) return false;
    for (int d = 0; d < rank; d++) {
        while (*from == '1')
            from++;
        const int64_t extent = *from ? extent_of(value, *from) : 0;
        const bool same = wanted[d] == extent || (*from == 'n' && wanted[d] == import->batch);
        if (*from && (same || (wanted[d] == -1 && !open))) {
            open |= wanted[d] == -1;
            view[d] = *from++;
        } else if (wanted[d] == 1) {
            view[d] = '1';
        } else {
            return false;
        }
    }
    view[rank] = '\0';
    return from[strspn(from, "1")] == '\0';
}

static Status view_samples(OnnxImport *import, const Onnx__NodeProto *node, OnnxValue value, int64_t *wanted, int rank,
                           Error *err) {
    int64_t before[ONNX_MAX_RANK];
    const int rank_before = onnx_extents(before, &value);
    const Shape shape = value.shape;
    for (int d = 0; d < rank && d < rank_before; d++)
        if (wanted[d] == 0) wanted[d] = before[d];
    if (strcmp(value.view, "mw") == 0) snprintf(value.view, sizeof value.view, "nhw");
    if (are_rows(import, &value, wanted, rank)) return onnx_give_view(import, node, value, "mw", err);
    const int64_t all = rank > 1 ? wanted[0] : 1;
    const bool of_samples = rank > 1 && (all == ONNX_BATCH || all == -1 || all == import->batch);
    if (of_samples && (value.kind == VALUE_GROUPS || onnx_is_in_order(&value)) &&
        complete_shape(wanted, rank, before, rank_before, (int64_t)shape_size(shape))) {
        const char *view = view_of(&value, wanted, rank);
        if (value.kind == VALUE_GROUPS) value.kind = VALUE_SAMPLES;
        if (view) return onnx_give_view(import, node, value, view, err);
        if (value.kind == VALUE_SAMPLES && rank == 3 && shape.channels % wanted[1] == 0) {
            value.kind = VALUE_GROUPS;
            value.groups = (int)wanted[1];
            return onnx_give(import, node, value, err);
        }
    }
    char view[ONNX_MAX_RANK + 1];
    if (squeezed(view, import, &value, wanted, rank)) return onnx_give_view(import, node, value, view, err);
    return onnx_axes_reshape(import, node, value, wanted, rank, err);
}

// The state of one lstm as a vector: of (1, samples, units).
static Status view_state(OnnxImport *import, const Onnx__NodeProto *node, const OnnxValue *states,
                         const int64_t *wanted, int rank, Error *err) {
    const Shape steps = import->layers.of[*states->wholes].out;
    const int64_t units = steps.rows == 1 && steps.columns == 1 ? steps.channels : steps.columns;
    const bool of_samples = rank == 2 && (*wanted == ONNX_BATCH || *wanted == -1 || *wanted == import->batch);
    if (of_samples && (wanted[1] == units || (wanted[1] == -1 && *wanted != -1)))
        return onnx_give_state(import, node, states, 0, "nf", err);
    return fail(err, STATUS_DATA, NODE_FORMAT "gives an lstm's state another shape than (samples, units)",
                NODE_ARGS(import, node));
}

static Status handle_reshape(OnnxImport *import, const Onnx__NodeProto *node, Error *err) {
    Status status;
    OnnxValue *wanted;
    int64_t extent[ONNX_MAX_RANK];
    const OnnxValue *value = onnx_input(import, node, 0, &status, err);
    TRY(status);
    TRY(onnx_take_wholes(&wanted, import, node, 1, err));
    memcpy(extent, wanted->wholes, wanted->count * sizeof *extent);
    for (size_t i = 0; i < wanted->count && onnx_attribute_whole(node, "allowzero", 0) != 0; i++)
        if (extent[i] == 0)
            return fail(err, STATUS_DATA, NODE_FORMAT "a shape without values", NODE_ARGS(import, node));
    if (value && value->kind == VALUE_CONSTANT) return view_constant(import, node, (int)wanted->count, extent, err);
    if (value && value->kind == VALUE_STATES && value->count == 1)
        return view_state(import, node, value, extent, (int)wanted->count, err);
    if (onnx_has_axes(value)) return onnx_axes_reshape(import, node, *value, extent, (int)wanted->count, err);
    if (onnx_is_seen(value)) return view_samples(import, node, *value, extent, (int)wanted->count, err);
    return fail(err, STATUS_DATA, NODE_FORMAT "its input 1 is %s", NODE_ARGS(import, node), onnx_not_samples);
}

static Status handle_flatten(OnnxImport *import, const Onnx__NodeProto *node, Error *err) {
    Status status;
    const OnnxValue *in = onnx_input(import, node, 0, &status, err);
    TRY(status);
    if (!onnx_is_seen(in) || in->kind == VALUE_GROUPS || strchr(in->view, 'm'))
        return fail(err, STATUS_DATA, NODE_FORMAT "its input 1 is %s", NODE_ARGS(import, node), onnx_not_samples);
    const int64_t axis = onnx_attribute_whole(node, "axis", 1);
    if (axis != 1 && axis != 1 - (int64_t)strlen(in->view))
        return fail(err, STATUS_DATA, NODE_FORMAT "axis is %" PRId64 "; samples stay apart", NODE_ARGS(import, node),
                    axis);
    return view_samples(import, node, *in, (int64_t[ONNX_MAX_RANK]){ONNX_BATCH, -1}, 2, err);
}

// Without the axes, or without all that are 1.
static Status squeeze(OnnxImport *import, const Onnx__NodeProto *node, const OnnxValue *in, Error *err) {
    int64_t extent[ONNX_MAX_RANK], axes[ONNX_MAX_RANK], left[ONNX_MAX_RANK];
    char view[ONNX_MAX_RANK + 1] = "";
    size_t count;
    const bool is_constant = in->kind == VALUE_CONSTANT;
    if (is_constant) memcpy(extent, in->extent, sizeof extent);
    const int rank = is_constant ? in->rank : onnx_extents(extent, in);
    int kept = 0;
    TRY(onnx_axes(axes, &count, import, node, rank, err));
    for (int d = 0; d < rank; d++) {
        const bool goes = count == 0 ? extent[d] == 1 : is_among(d, axes, count);
        if (goes && extent[d] != 1)
            return fail(err, STATUS_DATA, NODE_FORMAT "dimension %d has more than one place", NODE_ARGS(import, node),
                        d);
        if (goes) continue;
        view[kept] = is_constant ? '1' : in->view[d];
        left[kept++] = extent[d];
    }
    if (is_constant) return view_constant(import, node, kept, left, err);
    return onnx_give_view(import, node, *in, view, err);
}

static Status handle_squeeze(OnnxImport *import, const Onnx__NodeProto *node, Error *err) {
    Status status;
    int64_t axes[ONNX_MAX_RANK];
    size_t count;
    const OnnxValue *in = onnx_input(import, node, 0, &status, err);
    TRY(status);
    const bool takes_all = !onnx_attribute(node, "axes") && (node->n_input < 2 || !*node->input[1]);
    if (in && in->kind != VALUE_CONSTANT && import->batch == 1 && takes_all)
        return fail(err, STATUS_DATA, NODE_FORMAT "without axes it takes away the dimension of the one sample, too",
                    NODE_ARGS(import, node));
    if (in && (in->kind == VALUE_CONSTANT || (onnx_is_seen(in) && in->kind != VALUE_GROUPS)))
        return squeeze(import, node, in, err);
    if (onnx_has_axes(in)) return onnx_axes_squeeze(import, node, in, err);
    if (!in || in->kind != VALUE_STATES || in->count != 1)
        return fail(err, STATUS_DATA, NODE_FORMAT "its input 1 is %s", NODE_ARGS(import, node), onnx_not_samples);
    TRY(onnx_axes(axes, &count, import, node, 3, err));
    if (count <= 1 && (count == 0 || axes[0] == 0)) return onnx_give_state(import, node, in, 0, "nf", err);
    return fail(err, STATUS_DATA, NODE_FORMAT "of an lstm's state only the first dimension has one place",
                NODE_ARGS(import, node));
}

static Status handle_unsqueeze(OnnxImport *import, const Onnx__NodeProto *node, Error *err) {
    Status status;
    OnnxValue *given = NULL;
    int64_t axes[ONNX_MAX_RANK], extent[ONNX_MAX_RANK], from[ONNX_MAX_RANK];
    char view[ONNX_MAX_RANK + 1] = "";
    size_t count;
    const OnnxValue *in = onnx_input(import, node, 0, &status, err);
    TRY(status);
    const bool is_constant = in && in->kind == VALUE_CONSTANT;
    if (onnx_has_axes(in)) return onnx_axes_unsqueeze(import, node, in, err);
    if (!is_constant && (!onnx_is_seen(in) || in->kind == VALUE_GROUPS))
        return fail(err, STATUS_DATA, NODE_FORMAT "its input 1 is %s", NODE_ARGS(import, node), onnx_not_samples);
    if (is_constant) memcpy(from, in->extent, sizeof from);
    const int before = is_constant ? in->rank : onnx_extents(from, in);
    const Onnx__AttributeProto *attribute = onnx_attribute(node, "axes");
    if (!attribute) TRY(onnx_take_wholes(&given, import, node, 1, err));
    const size_t added = attribute ? attribute->n_ints : given->count;
    if (added + (size_t)before > ONNX_MAX_RANK)
        return fail(err, STATUS_DATA, NODE_FORMAT "more than %d dimensions", NODE_ARGS(import, node), ONNX_MAX_RANK);
    const int rank = before + (int)added;
    TRY(onnx_axes(axes, &count, import, node, rank, err));
    for (int d = 0, next = 0; d < rank; d++) {
        const bool is_new = is_among(d, axes, count) || next == before;
        view[d] = is_new || is_constant ? '1' : in->view[next];
        extent[d] = is_new ? 1 : from[next++];
    }
    if (is_constant) return view_constant(import, node, rank, extent, err);
    return onnx_give_view(import, node, *in, view, err);
}

static Status turn_matrix(OnnxImport *import, const Onnx__NodeProto *node, const OnnxValue *in, Error *err) {
    const size_t rows = (size_t)in->extent[0], columns = (size_t)in->extent[1];
    OnnxValue turned = {
        .kind = VALUE_CONSTANT, .rank = 2, .count = in->count, .extent = {in->extent[1], in->extent[0]}};
    turned.reals = malloc((in->count + 1) * sizeof *turned.reals);
    if (!turned.reals) return fail(err, STATUS_OS, "%s: no memory for %zu numbers", import->path, in->count);
    for (size_t i = 0; i < in->count; i++)
        turned.reals[i % columns * rows + i / columns] = in->reals[i];
    return onnx_give(import, node, turned, err);
}

// The dimensions in the order that the node says. False: that is none.
static bool turn_view(char view[ONNX_MAX_RANK + 1], const Onnx__NodeProto *node, const char *before) {
    const Onnx__AttributeProto *order = onnx_attribute(node, "perm");
    const size_t rank = strlen(before);
    bool is_turned[ONNX_MAX_RANK] = {false};
    if (order && order->n_ints != rank) return false;
    for (size_t d = 0; d < rank; d++) {
        const int64_t from = order ? order->ints[d] : (int64_t)(rank - 1 - d);
        if (from < 0 || from >= (int64_t)rank || is_turned[from]) return false;
        is_turned[from] = true;
        view[d] = before[from];
    }
    view[rank] = '\0';
    return true;
}

static Status handle_transpose(OnnxImport *import, const Onnx__NodeProto *node, Error *err) {
    Status status;
    char view[ONNX_MAX_RANK + 1] = "";
    const OnnxValue *in = onnx_input(import, node, 0, &status, err);
    TRY(status);
    const bool is_matrix = in && in->kind == VALUE_CONSTANT && in->reals && in->rank == 2;
    const bool is_state = in && in->kind == VALUE_STATES && in->count == 1;
    if (onnx_has_axes(in)) return onnx_axes_turn(import, node, in, err);
    if (!is_matrix && !is_state && (!onnx_is_seen(in) || in->kind == VALUE_GROUPS))
        return fail(err, STATUS_DATA, NODE_FORMAT "only samples and constants that are matrices are turned",
                    NODE_ARGS(import, node));
    const char *before = is_matrix ? "rc" : is_state ? "1nf" : in->view;
    if (!turn_view(view, node, before) || (is_matrix && strcmp(view, "cr") != 0))
        return fail(err, STATUS_DATA, NODE_FORMAT "perm is no order of %zu dimensions that turns them",
                    NODE_ARGS(import, node), strlen(before));
    if (is_state) return onnx_give_state(import, node, in, 0, view, err);
    return is_matrix ? turn_matrix(import, node, in, err) : onnx_give_view(import, node, *in, view, err);
}

// Samples stay floats, but for the net's input where an embedding reads it: to whole numbers would cut them off.
static Status handle_cast(OnnxImport *import, const Onnx__NodeProto *node, Error *err) {
    enum { ONNX_FLOAT = 1, ONNX_INT32 = 6, ONNX_INT64 = 7, ONNX_DOUBLE = 11 };
    Status status;
    const OnnxValue *in = onnx_input(import, node, 0, &status, err);
    TRY(status);
    const int64_t to = onnx_attribute_whole(node, "to", 0);
    const bool is_real = to == ONNX_FLOAT || to == ONNX_DOUBLE, is_whole = to == ONNX_INT32 || to == ONNX_INT64;
    if (is_whole && in && in->layer == SPEC_INPUT && (in->kind == VALUE_SAMPLES || in->kind == VALUE_NUMBERS)) {
        OnnxValue numbers = *in;
        numbers.kind = VALUE_NUMBERS;
        return onnx_give(import, node, numbers, err);
    }
    const bool is_number = in && in->kind == VALUE_CONSTANT && in->count == 1;
    if (is_number && ((is_whole && in->reals) || (is_real && in->wholes && *in->wholes > ONNX_TIMES(ONNX_MOST_TIMES))))
        return onnx_number(import, node, err);
    if (in && in->kind == VALUE_CONSTANT && in->reals && !is_real)
        return fail(err, STATUS_DATA, NODE_FORMAT "makes whole numbers of a constant's", NODE_ARGS(import, node));
    if (in && in->kind != VALUE_CONSTANT && (!is_real || in->kind == VALUE_NUMBERS))
        return fail(err, STATUS_DATA,
                    NODE_FORMAT "makes of samples a type (%" PRId64 ") that is no float, or floats of whole numbers",
                    NODE_ARGS(import, node), to);
    return onnx_pass_on(import, node, err);
}

const OnnxOp onnx_view_ops[] = {
    {"Identity", onnx_pass_on, ""},           {"Cast", handle_cast, "to saturate"},
    {"Reshape", handle_reshape, "allowzero"}, {"Flatten", handle_flatten, "axis"},
    {"Squeeze", handle_squeeze, "axes"},      {"Unsqueeze", handle_unsqueeze, "axes"},
    {"Transpose", handle_transpose, "perm"},  {NULL, NULL, NULL},
};
