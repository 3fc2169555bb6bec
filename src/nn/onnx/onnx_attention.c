// Products of heads, and the layer that they become.
#include "nn/onnx/onnx_attention.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Scores from here on down are none after any softmax.
static const float hidden = -1e9f;

// Products of heads ---------------------------------------------------------------------------------------------------

static bool is_step(const OnnxAxes *axes, int dimension, char what) {
    const int begin = onnx_axes_begin(axes, dimension);
    return axes->end[dimension] == begin + 1 && axes->of[begin].what == what;
}

// The values of a head: one run of outputs; 0: the dimension has other axes.
static int width_of(const OnnxAxes *axes, int dimension) {
    const int begin = onnx_axes_begin(axes, dimension);
    if (axes->end[dimension] == begin) return 1;
    const OnnxAxis axis = axes->of[begin];
    return axes->end[dimension] == begin + 1 && axis.what == 'w' && axis.stride == 1 ? axis.extent : 0;
}

// How many heads of that width the dimensions but for the last two have besides the samples; 0: they have other axes,
// or `other` has not the same ones.
static int heads_of(const OnnxAxes *axes, const OnnxAxes *other, int width) {
    int samples = 0, heads = 1, parts = 0;
    if (axes->rank < 3 || axes->rank != other->rank) return 0;
    const int end = axes->end[axes->rank - 3];
    if (memcmp(axes->end, other->end, sizeof *axes->end * (size_t)(axes->rank - 2)) != 0) return 0;
    for (int a = 0; a < end; a++) {
        const OnnxAxis axis = axes->of[a];
        if (axis.what != other->of[a].what || axis.extent != other->of[a].extent || axis.stride != other->of[a].stride)
            return 0;
        samples += axis.what == 'n';
        parts += axis.what == 'w';
        if (axis.what == 'w' && axis.stride != width) return 0;
        if (axis.what == 'w') heads = axis.extent;
        if (axis.what != 'n' && axis.what != 'w') return 0;
    }
    return samples == 1 && parts <= 1 ? heads : 0;
}

// The dimensions of `axes` but for the last two, and two others of one axis each, or of none where it has no name.
static OnnxAxes with_last(const OnnxAxes *axes, OnnxAxis row, OnnxAxis column) {
    OnnxAxes made = {.rank = axes->rank, .count = axes->rank < 3 ? 0 : axes->end[axes->rank - 3]};
    memcpy(made.of, axes->of, (size_t)made.count * sizeof *made.of);
    memcpy(made.end, axes->end, sizeof made.end);
    made.of[made.count++] = row;
    made.end[made.rank - 2] = made.count;
    if (column.what) made.of[made.count++] = column;
    made.end[made.rank - 1] = made.count;
    return made;
}

static Status refuse(const OnnxImport *import, const Onnx__NodeProto *node, Error *err) {
    return fail(err, STATUS_DATA,
                NODE_FORMAT
                "is no attention here: queries, keys and values are runs of outputs of linear layers of each "
                "step of one sequence, each head's values one run, in (samples, heads, steps, values)",
                NODE_ARGS(import, node));
}

static Status multiply_queries(OnnxImport *import, const Onnx__NodeProto *node, const OnnxValue *queries,
                               const OnnxValue *keys, Error *err) {
    const OnnxAxes *q = &queries->axes, *k = &keys->axes;
    const int rank = q->rank, width = rank < 3 ? 0 : width_of(q, rank - 1);
    const int heads = width > 0 && k->rank == rank ? heads_of(q, k, width) : 0;
    if (heads == 0 || !is_step(q, rank - 2, 'h') || !is_step(k, rank - 1, 'h') || width_of(k, rank - 2) != width ||
        queries->shape.rows != keys->shape.rows)
        return refuse(import, node, err);
    OnnxValue scores = *queries;
    const OnnxAxis row = {.what = 'h', .extent = queries->shape.rows, .stride = 1},
                   column = {.what = 'k', .extent = row.extent, .stride = 1};
    const OnnxAxes axes = with_last(q, row, column);
    scores.kind = VALUE_SCORES;
    scores.attention.layer[1] = keys->layer;
    scores.attention.first[1] = keys->attention.first[0];
    scores.attention.scale *= keys->attention.scale;
    scores.attention.heads = heads;
    scores.attention.width = width;
    return onnx_give_axes(import, node, scores, &axes, 0, err);
}

static Status multiply_values(OnnxImport *import, const Onnx__NodeProto *node, const OnnxValue *shares,
                              const OnnxValue *values, Error *err) {
    const OnnxAxes *s = &shares->axes, *v = &values->axes;
    const int rank = s->rank, width = shares->attention.width;
    if (rank != v->rank || heads_of(s, v, width) == 0 || !is_step(s, rank - 2, 'h') || !is_step(s, rank - 1, 'k') ||
        !is_step(v, rank - 2, 'h') || width_of(v, rank - 1) != width || values->attention.scale != 1 ||
        shares->shape.rows != values->shape.rows)
        return refuse(import, node, err);
    OnnxValue seen = *shares;
    const OnnxAxis row = {.what = 'h', .extent = shares->shape.rows, .stride = 1},
                   column = {.what = width > 1 ? 'w' : '\0', .extent = width, .stride = 1};
    const OnnxAxes axes = with_last(s, row, column);
    seen.kind = VALUE_SEEN;
    seen.attention.layer[2] = values->layer;
    seen.attention.first[2] = values->attention.first[0];
    return onnx_give_axes(import, node, seen, &axes, 0, err);
}

Status onnx_heads_product(OnnxImport *import, const Onnx__NodeProto *node, const OnnxValue *a, const OnnxValue *b,
                          Error *err) {
    const OnnxValue left = onnx_as_heads(import, a), right = onnx_as_heads(import, b);
    if (left.kind == VALUE_HEADS && right.kind == VALUE_HEADS)
        return multiply_queries(import, node, &left, &right, err);
    if (left.kind == VALUE_SHARES && right.kind == VALUE_HEADS)
        return multiply_values(import, node, &left, &right, err);
    return refuse(import, node, err);
}

// Scores --------------------------------------------------------------------------------------------------------------

// Whether it hides from each step what comes behind it, and nothing else; or nothing at all: *hides says which.
static bool read_mask(bool *hides, const OnnxValue *mask, int64_t steps) {
    bool fits = mask->rank >= 2 && mask->extent[mask->rank - 1] == steps && mask->extent[mask->rank - 2] == steps;
    *hides = true;
    if (mask->kind == VALUE_MASK || !fits) return fits;
    fits = mask->reals && mask->count == (size_t)(steps * steps);
    if (fits) *hides = steps > 1 && mask->reals[1] < 0;
    for (int64_t i = 0; i < steps && fits; i++)
        for (int64_t j = 0; j < steps; j++) {
            const float summand = mask->reals[i * steps + j];
            fits = fits && (j > i && *hides ? summand <= hidden : summand == 0);
        }
    return fits;
}

Status onnx_scores_change(OnnxImport *import, const Onnx__NodeProto *node, const OnnxValue *value,
                          const OnnxValue *constant, Error *err) {
    const bool is_sum = strcmp(node->op_type, "Add") == 0, is_product = strcmp(node->op_type, "Mul") == 0;
    const int rank = value->axes.rank;
    OnnxValue changed = *value;
    if (constant->rank > rank) return refuse(import, node, err); // the result would have as many dimensions
    if (is_sum && value->kind == VALUE_SCORES) {
        bool hides;
        if (rank > 1 && is_step(&value->axes, rank - 2, 'h') && is_step(&value->axes, rank - 1, 'k') &&
            read_mask(&hides, constant, value->shape.rows)) {
            changed.attention.causal |= hides;
            return onnx_give_axes(import, node, changed, &value->axes, 0, err);
        }
        return fail(err, STATUS_DATA, NODE_FORMAT "its mask is none that hides from each step what comes behind it",
                    NODE_ARGS(import, node));
    }
    const bool is_number = constant->kind == VALUE_CONSTANT && constant->reals && constant->count == 1;
    const bool is_masked = value->kind == VALUE_SCORES && value->attention.causal; // the mask would be multiplied, too
    if ((value->kind != VALUE_HEADS && value->kind != VALUE_SCORES) || !is_number || is_sum || is_masked)
        return refuse(import, node, err);
    const double factor = (double)*constant->reals;
    changed.attention.scale = is_product ? changed.attention.scale * factor : changed.attention.scale / factor;
    return onnx_give_axes(import, node, changed, &value->axes, 0, err);
}

Status onnx_scores_softmax(OnnxImport *import, const Onnx__NodeProto *node, const OnnxValue *value, Error *err) {
    const int64_t axis = onnx_attribute_whole(node, "axis", 0); // without it files before opset 13 mean another one
    OnnxValue shares = *value;
    if (value->kind != VALUE_SCORES || (axis != -1 && axis != value->axes.rank - 1) ||
        !is_step(&value->axes, value->axes.rank - 1, 'k') || strcmp(node->op_type, "Softmax") != 0)
        return refuse(import, node, err);
    shares.kind = VALUE_SHARES;
    return onnx_give_axes(import, node, shares, &value->axes, 0, err);
}

Status onnx_mask(OnnxImport *import, const Onnx__NodeProto *node, Error *err) {
    OnnxValue *never, *above = NULL;
    TRY(onnx_take(&never, import, node, 0, VALUE_NEVER, "no matrix of minus infinity", err));
    if (node->n_input > 1 && *node->input[1]) TRY(onnx_take_wholes(&above, import, node, 1, err));
    if (onnx_attribute_whole(node, "upper", 1) != 1 || !above || above->count != 1 || *above->wholes != 1)
        return fail(err, STATUS_DATA, NODE_FORMAT "is no mask of what lies above the diagonal",
                    NODE_ARGS(import, node));
    OnnxValue mask = *never;
    mask.kind = VALUE_MASK;
    return onnx_give(import, node, mask, err);
}

// The layer -----------------------------------------------------------------------------------------------------------

// The layers that queries, keys and values are of: how many; 0: they are not the last ones, or not of one sequence.
static int projections_of(const OnnxLayers *layers, const OnnxAttention *attention) {
    const int all = attention->heads * attention->width;
    int count = 0, source = SPEC_INPUT;
    for (int part = 0; part < 3; part++) {
        const OnnxLayer *layer = &layers->of[attention->layer[part]];
        bool is_new = true;
        for (int before = 0; before < part; before++)
            is_new &= attention->layer[before] != attention->layer[part];
        count += is_new;
        if (part == 0) source = layer->source;
        if (!layer->is_each || !layer->weight || layer->source != source ||
            (size_t)(attention->first[part] + all) > layer->outs || layer->weights / layer->outs != (size_t)all)
            return 0;
    }
    for (int part = 0; part < 3; part++)
        if (attention->layer[part] < layers->count - count) return 0;
    return count;
}

// Queries', keys' and values' weights and biases as one matrix and one vector: (3 E,E), (3 E).
static void copy_projections(float *weight, float *bias, const OnnxLayers *layers, const OnnxAttention *attention) {
    const size_t all = (size_t)(attention->heads * attention->width);
    for (size_t part = 0; part < 3; part++) {
        const OnnxLayer *from = &layers->of[attention->layer[part]];
        const size_t first = (size_t)attention->first[part];
        memcpy(weight + part * all * all, from->weight + first * all, all * all * sizeof *weight);
        memcpy(bias + part * all, from->bias + first, all * sizeof *bias);
    }
}

// The layer instead of the last `count`, whose values nobody may take any more.
static Status replace_layers(OnnxImport *import, int count, const OnnxAttention *attention, Error *err) {
    OnnxLayers *layers = &import->layers;
    const int all = attention->heads * attention->width, steps = layers->of[attention->layer[0]].out.rows,
              source = layers->of[attention->layer[0]].source;
    const size_t e = (size_t)all;
    float *kept = malloc((3 * e * e + 3 * e) * sizeof *kept);
    if (!kept) return fail(err, STATUS_OS, "%s: no memory for an attention of %d values", import->path, all);
    copy_projections(kept, kept + 3 * e * e, layers, attention);
    onnx_layers_drop(layers, count);
    for (size_t i = 0; i < import->value_count; i++) {
        OnnxValue *value = &import->values[i];
        const bool is_of_layer = value->kind != VALUE_CONSTANT && value->kind != VALUE_ZEROS;
        if (is_of_layer && value->layer >= layers->count) value->kind = VALUE_UNKNOWN;
    }
    Status status = onnx_layers_add(layers, source, (Shape){1, steps, all}, err, "attention %d%s", attention->heads,
                                    attention->causal ? " causal" : "");
    if (status == STATUS_OK) status = onnx_layers_weigh(layers, 3 * e + e * e + e, 3 * e * e, err);
    if (status == STATUS_OK) {
        OnnxLayer *layer = &layers->of[layers->count - 1];
        layer->is_rigid = true;
        memcpy(layer->weight, kept, 3 * e * e * sizeof *kept);
        memcpy(layer->bias, kept + 3 * e * e, 3 * e * sizeof *kept);
    }
    free(kept);
    return status;
}

// What is seen has all values of a step in order in its last dimension.
static bool are_joined(const OnnxValue *seen) {
    const OnnxAxes *axes = &seen->axes;
    int64_t next = seen->attention.heads * seen->attention.width;
    for (int a = onnx_axes_begin(axes, axes->rank - 1); a < axes->end[axes->rank - 1]; a++) {
        const OnnxAxis axis = axes->of[a];
        if (axis.what != 'w' || (int64_t)axis.extent * axis.stride != next) return false;
        next = axis.stride;
    }
    return next == 1;
}

Status onnx_attention_layer(OnnxImport *import, const Onnx__NodeProto *node, const OnnxValue *seen,
                            const OnnxValue *weight, bool lies_right, Error *err) {
    const OnnxAttention attention = seen->attention;
    const int all = attention.heads * attention.width, rank = seen->axes.rank;
    const size_t e = (size_t)all;
    const bool is_product = seen->kind == VALUE_SEEN && rank > 1 && are_joined(seen);
    const int count = is_product ? projections_of(&import->layers, &attention) : 0;
    if (count == 0 || !weight->reals || weight->rank != 2 || weight->extent[0] != all || weight->extent[1] != all)
        return refuse(import, node, err);
    if (!(fabs(attention.scale * sqrt((double)attention.width) - 1) <= 1e-4))
        return fail(err, STATUS_DATA,
                    NODE_FORMAT "its scores are multiplied by %g; here it is 1 / sqrt(%d), %d values being a head's",
                    NODE_ARGS(import, node), attention.scale, attention.width, attention.width);
    OnnxAxes axes = seen->axes;
    axes.count = onnx_axes_begin(&axes, rank - 1);
    axes.of[axes.count++] = (OnnxAxis){.what = 'w', .extent = all, .stride = 1};
    axes.end[rank - 1] = axes.count;
    TRY(replace_layers(import, count, &attention, err));
    float *out = import->layers.of[import->layers.count - 1].bias + 3 * e;
    for (size_t o = 0; o < e; o++)
        for (size_t i = 0; i < e; i++)
            out[o * e + i] = weight->reals[lies_right ? o * e + i : i * e + o];
    const OnnxValue given = {.kind = VALUE_TURNED,
                             .layer = import->layers.count - 1,
                             .shape = import->layers.of[import->layers.count - 1].out};
    return onnx_give_axes(import, node, given, &axes, 0, err);
}

float *onnx_attention_bias(OnnxLayer *layer, size_t *count) {
    if (strncmp(layer->text, "attention ", 10) != 0) return NULL;
    *count = (size_t)layer->out.columns;
    return layer->bias + layer->outs - *count;
}
