// Values whose dimensions are runs of axes: what a reshape, a transpose and a cut make of them.
#include "nn/onnx/onnx_attention.h"

#include <stdlib.h>
#include <string.h>

bool onnx_has_axes(const OnnxValue *value) {
    return value && value->kind >= VALUE_HEADS && value->kind <= VALUE_TURNED;
}

bool onnx_axes_of(OnnxAxes *axes, const OnnxImport *import, const OnnxValue *value) {
    if (onnx_has_axes(value)) {
        *axes = value->axes;
        return true;
    }
    const OnnxLayer *layer =
        value->kind == VALUE_SAMPLES && value->layer >= 0 ? &import->layers.of[value->layer] : NULL;
    if (!layer || !layer->is_each || strncmp(layer->text, "linear ", 7) != 0 || layer->out.channels != 1) return false;
    OnnxAxes made = {.count = 0};
    for (const char *dimension = value->view; *dimension; dimension++) {
        if (!strchr("nhw1", *dimension)) return false;
        if (*dimension != '1')
            made.of[made.count++] = (OnnxAxis){.what = *dimension,
                                               .extent = *dimension == 'h'   ? value->shape.rows
                                                         : *dimension == 'w' ? value->shape.columns
                                                                             : 1,
                                               .stride = 1};
        made.end[made.rank++] = made.count;
    }
    *axes = made;
    return made.count == 3;
}

OnnxValue onnx_as_heads(const OnnxImport *import, const OnnxValue *value) {
    OnnxValue heads = *value;
    if (onnx_has_axes(value) || !onnx_axes_of(&heads.axes, import, value)) return heads;
    heads.kind = VALUE_HEADS;
    heads.attention = (OnnxAttention){.layer = {value->layer}, .scale = 1};
    return heads;
}

int onnx_axes_begin(const OnnxAxes *axes, int dimension) {
    return dimension > 0 ? axes->end[dimension - 1] : 0;
}

// Of the axes of a dimension: their product, and whether the samples are among them.
static int64_t product_of(bool *open, const OnnxAxes *axes, int dimension) {
    int64_t product = 1;
    *open = false;
    for (int a = onnx_axes_begin(axes, dimension); a < axes->end[dimension]; a++) {
        *open |= axes->of[a].what == 'n';
        product = product <= ONNX_MOST_TIMES ? product * axes->of[a].extent : product;
    }
    return product;
}

int onnx_axes_extents(int64_t extent[ONNX_MAX_RANK], const OnnxAxes *axes) {
    for (int d = 0; d < axes->rank; d++) {
        bool open;
        const int64_t product = product_of(&open, axes, d);
        extent[d] = open && product <= ONNX_MOST_TIMES ? ONNX_TIMES(product) : product;
    }
    return axes->rank;
}

// The view of axes that are one a dimension, or all samples' rows; false: there is none.
static bool as_view(char view[ONNX_MAX_RANK + 1], const OnnxAxes *axes) {
    for (int d = 0; d < axes->rank; d++) {
        const int begin = onnx_axes_begin(axes, d), count = axes->end[d] - begin;
        const bool are_rows = count == 2 && axes->of[begin].what == 'n' && axes->of[begin + 1].what == 'h';
        if (count > 1 && !are_rows) return false;
        view[d] = are_rows ? 'm' : count == 1 ? axes->of[begin].what : '1';
    }
    view[axes->rank] = '\0';
    return true;
}

Status onnx_give_axes(OnnxImport *import, const Onnx__NodeProto *node, OnnxValue value, const OnnxAxes *axes,
                      size_t which, Error *err) {
    char view[ONNX_MAX_RANK + 1];
    value.axes = *axes;
    if (value.kind != VALUE_TURNED || !as_view(view, axes)) return onnx_give_output(import, node, which, value, err);
    value.kind = VALUE_SAMPLES;
    return onnx_give_view(import, node, value, view, err);
}

// Reshape -------------------------------------------------------------------------------------------------------------

typedef struct Wanted {
    int64_t extent[ONNX_MAX_RANK]; // or ONNX_TIMES
    int rank;
    int64_t batch; // how many samples the file is for; 0: any number
} Wanted;

// The number besides the samples, if they are part of it or not; 0: they are, or are not.
static int64_t times_of(const Wanted *wanted, int dimension, bool open) {
    const int64_t extent = wanted->extent[dimension];
    if (extent <= ONNX_TIMES(ONNX_MOST_TIMES)) return open ? extent - ONNX_BATCH + 1 : 0;
    if (!open) return extent;
    return wanted->batch > 0 && extent % wanted->batch == 0 ? extent / wanted->batch : 0;
}

// Two axes instead of one, of which the first has `extent` places.
static OnnxAxes split(const OnnxAxes *axes, int axis, int extent) {
    OnnxAxes made = *axes;
    const OnnxAxis whole = axes->of[axis];
    memmove(made.of + axis + 1, made.of + axis, (size_t)(axes->count - axis) * sizeof *made.of);
    made.count++;
    made.of[axis].extent = extent;
    made.of[axis].stride = whole.stride * (whole.extent / extent);
    made.of[axis + 1].extent = whole.extent / extent;
    return made;
}

// Cuts the axes from number `from` on into the dimensions from number `d` on. False: they cannot be.
static bool cut_axes(OnnxAxes *axes, const Wanted *wanted, int from, int d) {
    int64_t product = 1;
    int ends[ONNX_MAX_AXES + 1], count = 0;
    bool open = false;
    OnnxAxes made;
    if (d == wanted->rank) return from == axes->count;
    for (int end = from; product <= ONNX_MOST_TIMES; end++) {
        const int64_t times = times_of(wanted, d, open);
        if (times == product) ends[count++] = end;
        if (end == axes->count) break;
        const OnnxAxis next = axes->of[end];
        const int64_t part = times % product == 0 ? times / product : 0;
        if (next.what == 'w' && axes->count < ONNX_MAX_AXES && part > 1 && part < next.extent &&
            next.extent % part == 0) {
            made = split(axes, end, (int)part);
            made.end[d] = end + 1;
            if (cut_axes(&made, wanted, end + 1, d + 1)) {
                *axes = made;
                return true;
            }
        }
        open |= next.what == 'n';
        product *= next.extent;
    }
    while (count-- > 0) { // axes of one place, as the samples may be, rather belong to a dimension than behind it
        made = *axes;
        made.end[d] = ends[count];
        if (!cut_axes(&made, wanted, ends[count], d + 1)) continue;
        *axes = made;
        return true;
    }
    return false;
}

// What -1 stands for: numbers alone, or so many times the samples. *count: how many of the two are possible.
static void complete(int64_t left[2], int *count, const OnnxAxes *axes, const Wanted *wanted, int open_dimension) {
    int64_t all = 1, others = 1;
    bool has_samples = false;
    for (int a = 0; a < axes->count; a++)
        all = all <= ONNX_MOST_TIMES ? all * axes->of[a].extent : all;
    *count = 0;
    for (int d = 0; d < wanted->rank; d++) {
        const bool is_open = wanted->extent[d] <= ONNX_TIMES(ONNX_MOST_TIMES);
        const int64_t times = is_open ? wanted->extent[d] - ONNX_BATCH + 1 : wanted->extent[d];
        if (d == open_dimension) continue;
        if (times < 1 || times > ONNX_MOST_TIMES / others) return;
        has_samples |= is_open;
        others *= times;
    }
    if (all > ONNX_MOST_TIMES) return;
    if (!has_samples && all % others == 0) left[(*count)++] = ONNX_TIMES(all / others);
    if (has_samples && all % others == 0) left[(*count)++] = all / others;
    if (!has_samples && wanted->batch > 0 && wanted->batch <= ONNX_MOST_TIMES && all * wanted->batch % others == 0)
        left[(*count)++] = all * wanted->batch / others;
}

static bool reshape(OnnxAxes *axes, Wanted wanted) {
    int open = -1, count = 1;
    int64_t left[2], before[ONNX_MAX_RANK];
    const int rank_before = onnx_axes_extents(before, axes);
    for (int d = 0; d < wanted.rank; d++) {
        if (wanted.extent[d] == 0 && d < rank_before) wanted.extent[d] = before[d];
        if (wanted.extent[d] == -1 && open >= 0) return false;
        if (wanted.extent[d] == -1) open = d;
    }
    if (open >= 0) complete(left, &count, axes, &wanted, open);
    for (int i = 0; i < count; i++) {
        OnnxAxes made = *axes;
        if (open >= 0) wanted.extent[open] = left[i];
        if (!cut_axes(&made, &wanted, 0, 0)) continue;
        made.rank = wanted.rank;
        *axes = made;
        return true;
    }
    return false;
}

Status onnx_axes_reshape(OnnxImport *import, const Onnx__NodeProto *node, OnnxValue value, const int64_t *wanted,
                         int rank, Error *err) {
    Wanted as = {.rank = rank, .batch = import->batch};
    value = onnx_as_heads(import, &value);
    if (onnx_has_axes(&value) && rank > 0 && rank <= ONNX_MAX_RANK) {
        memcpy(as.extent, wanted, (size_t)rank * sizeof *wanted);
        OnnxAxes axes = value.axes;
        if (reshape(&axes, as)) return onnx_give_axes(import, node, value, &axes, 0, err);
    }
    return fail(err, STATUS_DATA,
                NODE_FORMAT "gives samples of %dx%dx%d a shape of %d dimensions that no layer here reads",
                NODE_ARGS(import, node), value.shape.channels, value.shape.rows, value.shape.columns, as.rank);
}

// Transpose, Squeeze, Unsqueeze ---------------------------------------------------------------------------------------

// Adds the dimension of `from` behind those that are there.
static void append(OnnxAxes *axes, const OnnxAxes *from, int dimension) {
    for (int a = onnx_axes_begin(from, dimension); a < from->end[dimension]; a++)
        axes->of[axes->count++] = from->of[a];
    axes->end[axes->rank++] = axes->count;
}

Status onnx_axes_turn(OnnxImport *import, const Onnx__NodeProto *node, const OnnxValue *value, Error *err) {
    const Onnx__AttributeProto *order = onnx_attribute(node, "perm");
    const int rank = value->axes.rank;
    OnnxAxes axes = {.count = 0};
    bool is_turned[ONNX_MAX_RANK] = {false}, fits = !order || order->n_ints == (size_t)rank;
    for (int d = 0; d < rank && fits; d++) {
        const int64_t from = order ? order->ints[d] : rank - 1 - d;
        fits = from >= 0 && from < rank && !is_turned[from];
        if (!fits) break;
        is_turned[from] = true;
        append(&axes, &value->axes, (int)from);
    }
    if (fits) return onnx_give_axes(import, node, *value, &axes, 0, err);
    return fail(err, STATUS_DATA, NODE_FORMAT "perm is no order of %d dimensions", NODE_ARGS(import, node), rank);
}

Status onnx_axes_squeeze(OnnxImport *import, const Onnx__NodeProto *node, const OnnxValue *value, Error *err) {
    int64_t extent[ONNX_MAX_RANK], given[ONNX_MAX_RANK];
    size_t count;
    const int rank = onnx_axes_extents(extent, &value->axes);
    OnnxAxes axes = {.count = 0};
    TRY(onnx_axes(given, &count, import, node, rank, err));
    for (int d = 0; d < rank; d++) {
        bool goes = count == 0 && extent[d] == 1;
        for (size_t i = 0; i < count; i++)
            goes |= given[i] == d;
        if (goes && extent[d] != 1)
            return fail(err, STATUS_DATA, NODE_FORMAT "dimension %d has more than one place", NODE_ARGS(import, node),
                        d);
        if (!goes) append(&axes, &value->axes, d);
    }
    if (axes.count == value->axes.count) return onnx_give_axes(import, node, *value, &axes, 0, err);
    return fail(err, STATUS_DATA, NODE_FORMAT "takes away the one step of a sequence", NODE_ARGS(import, node));
}

Status onnx_axes_unsqueeze(OnnxImport *import, const Onnx__NodeProto *node, const OnnxValue *value, Error *err) {
    int64_t given[ONNX_MAX_RANK];
    size_t count;
    OnnxValue *input;
    const Onnx__AttributeProto *attribute = onnx_attribute(node, "axes");
    if (!attribute) TRY(onnx_take_wholes(&input, import, node, 1, err));
    const size_t added = attribute ? attribute->n_ints : input->count;
    const int rank = value->axes.rank + (added <= ONNX_MAX_RANK ? (int)added : ONNX_MAX_RANK);
    if (rank > ONNX_MAX_RANK)
        return fail(err, STATUS_DATA, NODE_FORMAT "more than %d dimensions", NODE_ARGS(import, node), ONNX_MAX_RANK);
    TRY(onnx_axes(given, &count, import, node, rank, err));
    OnnxAxes axes = {.count = 0};
    for (int d = 0, next = 0; d < rank; d++) {
        bool is_new = next == value->axes.rank;
        for (size_t i = 0; i < count; i++)
            is_new |= given[i] == d;
        if (is_new)
            axes.end[axes.rank++] = axes.count;
        else
            append(&axes, &value->axes, next++);
    }
    return onnx_give_axes(import, node, *value, &axes, 0, err);
}

// Cuts ----------------------------------------------------------------------------------------------------------------

Status onnx_axes_cut(OnnxImport *import, const Onnx__NodeProto *node, const OnnxValue *value, int dimension,
                     int64_t from, int64_t to, bool keeps, size_t which, Error *err) {
    OnnxValue part = onnx_as_heads(import, value);
    OnnxAxes axes = part.axes, cut = {.count = 0};
    const bool fits = part.kind == VALUE_HEADS && from < to;
    const int begin = fits ? onnx_axes_begin(&axes, dimension) : 0;
    if (!fits || axes.end[dimension] != begin + 1 || axes.of[begin].what != 'w')
        return fail(err, STATUS_DATA,
                    NODE_FORMAT "cuts out other than a run of the outputs of a linear layer of each step, as queries, "
                                "keys or values for an attention",
                    NODE_ARGS(import, node));
    part.attention.first[0] += (int)from * axes.of[begin].stride;
    axes.of[begin].extent = (int)(to - from);
    for (int d = 0; d < axes.rank; d++) {
        if (d != dimension || to - from > 1)
            append(&cut, &axes, d);
        else if (keeps)
            cut.end[cut.rank++] = cut.count;
    }
    return onnx_give_axes(import, node, part, &cut, which, err);
}

Status onnx_split(OnnxImport *import, const Onnx__NodeProto *node, Error *err) {
    Status status;
    OnnxAxes axes;
    OnnxValue *given = NULL;
    int64_t extent[ONNX_MAX_RANK];
    const OnnxValue *in = onnx_input(import, node, 0, &status, err);
    TRY(status);
    const bool fits = in && onnx_axes_of(&axes, import, in);
    const int rank = fits ? onnx_axes_extents(extent, &axes) : 0;
    int64_t axis = onnx_attribute_whole(node, "axis", 0);
    if (axis < 0) axis += rank;
    const Onnx__AttributeProto *attribute = onnx_attribute(node, "split");
    if (!attribute && node->n_input > 1 && *node->input[1]) TRY(onnx_take_wholes(&given, import, node, 1, err));
    const int64_t *sizes = attribute ? attribute->ints : given ? given->wholes : NULL;
    const size_t count = attribute ? attribute->n_ints : given ? given->count : node->n_output, parts = node->n_output;
    int64_t from = 0;
    if (axis < 0 || axis >= rank || count != parts || (!sizes && extent[axis] % (int64_t)parts != 0))
        return fail(err, STATUS_DATA, NODE_FORMAT "its parts are no runs of outputs of a linear layer of each step",
                    NODE_ARGS(import, node));
    for (size_t i = 0; i < parts; i++) {
        const int64_t size = sizes ? sizes[i] : extent[axis] / (int64_t)parts;
        if (size < 1 || size > extent[axis] - from)
            return fail(err, STATUS_DATA, NODE_FORMAT "its parts do not fit %d outputs", NODE_ARGS(import, node),
                        in->shape.columns);
        TRY(onnx_axes_cut(import, node, in, (int)axis, from, from + size, true, i, err));
        from += size;
    }
    return STATUS_OK;
}
