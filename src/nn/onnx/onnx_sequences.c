// ONNX's ops that make, read and end sequences.
#include "onnx_attention.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GREATEST_UNITS = 1 << 20 };

// The first layer -----------------------------------------------------------------------------------------------------

// The rows of a table that the net's input names: of samples of whole numbers sequences, a row for each.
static Status add_embedding(OnnxImport *import, const Onnx__NodeProto *node, const OnnxValue *table, Error *err) {
    OnnxValue *in;
    TRY(onnx_take(&in, import, node, 1, VALUE_NUMBERS, "not the net's input, which alone an embedding reads", err));
    const int64_t axis = onnx_attribute_whole(node, "axis", 0);
    char view[ONNX_MAX_RANK + 1];
    int lines = 0;
    const size_t rank = strlen(in->view), size = shape_size(in->shape);
    for (size_t d = 0; d <= rank && rank < ONNX_MAX_RANK; d++) {
        const char dimension = in->view[d];
        const bool has_all = dimension == 'f' || (dimension == 'w' && (size_t)in->shape.columns == size) ||
                             (dimension == 'h' && (size_t)in->shape.rows == size && size > 1) ||
                             (dimension == 'c' && (size_t)in->shape.channels == size && size > 1);
        view[d] = dimension == 'n' || dimension == '\0' ? dimension : has_all ? 'h' : '1';
        lines += has_all;
    }
    if (!table->reals || table->rank != 2 || table->count == 0 || axis != 0 || rank == ONNX_MAX_RANK || lines != 1 ||
        (in->shape.channels != 1 && in->shape.rows * in->shape.columns != 1))
        return fail(err, STATUS_DATA,
                    NODE_FORMAT "is no embedding, which takes rows of a matrix by (samples, numbers) of one channel",
                    NODE_ARGS(import, node));
    const int width = (int)table->extent[1];
    TRY(onnx_layers_add(&import->layers, in->layer, (Shape){1, (int)size, width}, err, "embedding %" PRId64 " %d",
                        table->extent[0], width));
    TRY(onnx_layers_weigh(&import->layers, 0, table->count, err));
    OnnxLayer *layer = &import->layers.of[import->layers.count - 1];
    layer->is_rigid = true;
    memcpy(layer->weight, table->reals, table->count * sizeof *table->reals);
    OnnxValue value = {.kind = VALUE_SAMPLES, .layer = import->layers.count - 1, .shape = layer->out};
    view[rank] = 'w';
    view[rank + 1] = '\0';
    return onnx_give_view(import, node, value, view, err);
}

// Positions -----------------------------------------------------------------------------------------------------------

bool onnx_are_positions(const OnnxValue *in, const OnnxValue *constant) {
    const size_t rank = strlen(in->view);
    if (in->kind != VALUE_SAMPLES || in->shape.channels != 1 || rank < 3 || strcmp(in->view + rank - 2, "hw") != 0 ||
        constant->kind != VALUE_CONSTANT || !constant->reals || constant->rank < 2 || constant->rank > (int)rank)
        return false;
    return constant->count == shape_size(in->shape) && constant->extent[constant->rank - 2] == in->shape.rows &&
           constant->extent[constant->rank - 1] == in->shape.columns;
}

Status onnx_positions(OnnxImport *import, const Onnx__NodeProto *node, const OnnxValue *in, const OnnxValue *constant,
                      Error *err) {
    TRY(onnx_layers_add(&import->layers, in->layer, in->shape, err, "positions"));
    TRY(onnx_layers_weigh(&import->layers, 0, constant->count, err));
    OnnxLayer *layer = &import->layers.of[import->layers.count - 1];
    layer->is_rigid = true;
    memcpy(layer->weight, constant->reals, constant->count * sizeof *constant->reals);
    return onnx_give_layer(import, node, in, err);
}

// Long short-term memory ----------------------------------------------------------------------------------------------

static bool is_text(const ProtobufCBinaryData *bytes, const char *text) {
    return bytes->len == strlen(text) && memcmp(bytes->data, text, bytes->len) == 0;
}

static Status check_attributes(const OnnxImport *import, const Onnx__NodeProto *node, Error *err) {
    static const char *const usual[] = {"Sigmoid", "Tanh", "Tanh"};
    const Onnx__AttributeProto *direction = onnx_attribute(node, "direction"),
                               *functions = onnx_attribute(node, "activations");
    if (direction && !is_text(&direction->s, "forward"))
        return fail(err, STATUS_DATA, NODE_FORMAT "its direction is %.*s; an lstm here reads forward",
                    NODE_ARGS(import, node), (int)(direction->s.len < 32 ? direction->s.len : 32),
                    (const char *)direction->s.data);
    for (size_t i = 0; functions && i < 3; i++)
        if (functions->n_strings != 3 || !is_text(&functions->strings[i], usual[i]))
            return fail(err, STATUS_DATA, NODE_FORMAT "its activations are not Sigmoid, Tanh and Tanh",
                        NODE_ARGS(import, node));
    if (onnx_attribute_whole(node, "layout", 0) != 0 || onnx_attribute_whole(node, "input_forget", 0) != 0)
        return fail(err, STATUS_DATA, NODE_FORMAT "layout and input_forget must be 0", NODE_ARGS(import, node));
    return STATUS_OK;
}

// Inputs 5 to 8: lengths of sequences, first states, peepholes. Only zeros as states are what an lstm here has.
static Status check_states(OnnxImport *import, const Onnx__NodeProto *node, Error *err) {
    for (size_t which = 4; which < node->n_input; which++) {
        Status status;
        const OnnxValue *value = onnx_input(import, node, which, &status, err);
        TRY(status);
        bool fits = !value || value->kind == VALUE_ZEROS || (value->kind == VALUE_CONSTANT && value->reals);
        for (size_t i = 0; fits && value && value->reals && i < value->count; i++)
            fits = value->reals[i] == 0;
        if (!fits || (value && which != 5 && which != 6))
            return fail(err, STATUS_DATA,
                        NODE_FORMAT "its input %zu is more than zeros to begin with; an lstm here begins with zeros, "
                                    "reads whole sequences and has no peepholes",
                        NODE_ARGS(import, node), which + 1);
    }
    if (onnx_uses(import, node, 2) > 0)
        return fail(err, STATUS_DATA, NODE_FORMAT "its last cells (output 3) are taken; an lstm here gives its outputs",
                    NODE_ARGS(import, node));
    return STATUS_OK;
}

static Status weigh_lstm(OnnxImport *import, const Onnx__NodeProto *node, size_t ins, size_t units, Error *err) {
    OnnxValue *input, *state, *bias = NULL;
    TRY(onnx_take_reals(&input, import, node, 1, 4 * units * ins, err));
    TRY(onnx_take_reals(&state, import, node, 2, 4 * units * units, err));
    if (input->rank != 3 || state->rank != 3 || input->extent[1] != (int64_t)(4 * units) ||
        state->extent[1] != (int64_t)(4 * units))
        return fail(err, STATUS_DATA, NODE_FORMAT "its weights are not (1, %zu, %zu) and (1, %zu, %zu)",
                    NODE_ARGS(import, node), 4 * units, ins, 4 * units, units);
    if (node->n_input > 3 && *node->input[3]) TRY(onnx_take_reals(&bias, import, node, 3, 8 * units, err));
    TRY(onnx_layers_weigh(&import->layers, 8 * units, 4 * units * (ins + units), err));
    OnnxLayer *layer = &import->layers.of[import->layers.count - 1];
    layer->is_rigid = true;
    onnx_gates_from(onnx_gates_from(layer->weight, input->reals, units * ins), state->reals, units * units);
    if (bias) onnx_gates_from(onnx_gates_from(layer->bias, bias->reals, units), bias->reals + 4 * units, units);
    return STATUS_OK;
}

Status onnx_lstm(OnnxImport *import, const Onnx__NodeProto *node, Error *err) {
    OnnxValue *in;
    TRY(onnx_take_samples(&in, import, node, err));
    const int64_t units = onnx_attribute_whole(node, "hidden_size", 0);
    const Shape shape = in->shape;
    const int layer = import->layers.count;
    if (strcmp(in->view, "hnw") != 0 || shape.channels != 1 || units < 1 || units > GREATEST_UNITS)
        return fail(err, STATUS_DATA,
                    NODE_FORMAT "takes (steps, samples, values) and hidden_size, not samples of %dx%dx%d that lie "
                                "otherwise, or %" PRId64 " units",
                    NODE_ARGS(import, node), shape.channels, shape.rows, shape.columns, units);
    TRY(check_attributes(import, node, err));
    TRY(check_states(import, node, err));
    TRY(onnx_layers_add(&import->layers, in->layer, (Shape){1, shape.rows, (int)units}, err, "lstm %d", (int)units));
    TRY(weigh_lstm(import, node, (size_t)shape.columns, (size_t)units, err));
    OnnxValue steps = {.kind = VALUE_SAMPLES, .layer = layer, .shape = import->layers.of[layer].out, .view = "h1nw"};
    OnnxValue states = {.kind = VALUE_STATES, .layer = layer, .count = 1, .wholes = malloc(sizeof *states.wholes)};
    if (!states.wholes) return fail(err, STATUS_OS, "%s: no memory for a state", import->path);
    *states.wholes = layer;
    TRY(onnx_give_output(import, node, 1, states, err));
    return onnx_give_output(import, node, 0, steps, err);
}

// How many nodes take what the layer gives, by the name under which most do.
static int uses_of(const OnnxImport *import, int layer) {
    int most = 0;
    for (size_t i = 0; i < import->value_count; i++) {
        const OnnxValue *value = &import->values[i];
        if (value->kind == VALUE_SAMPLES && value->layer == layer && value->uses > most) most = value->uses;
    }
    return most;
}

static bool is_lstm(const OnnxLayer *layer) {
    return strncmp(layer->text, "lstm ", 5) == 0;
}

static bool gives_last(const OnnxLayer *layer) {
    return is_lstm(layer) && strstr(layer->text, " last");
}

// From all steps to the last alone.
static void give_last(OnnxLayer *layer) {
    char *each = strstr(layer->text, " each");
    if (each) *each = '\0';
    if (is_lstm(layer)) snprintf(layer->text, sizeof layer->text, "lstm %d last", layer->out.columns);
    layer->out = (Shape){layer->out.columns, 1, 1};
    layer->is_each = false;
}

// The same of the layers up to this one that work on each step by itself, and of the lstm before them. False: there is
// none, or something else takes their steps.
static bool give_last_of(OnnxImport *import, int layer) {
    OnnxLayer *of = import->layers.of;
    int first = layer;
    while (first >= 0 && of[first].is_each && uses_of(import, first) <= 1)
        first = of[first].source;
    if (first < 0 || !is_lstm(&of[first]) || gives_last(&of[first]) || uses_of(import, first) > 1) return false;
    for (int l = layer; l != first; l = of[l].source)
        give_last(&of[l]);
    give_last(&of[first]);
    return true;
}

Status onnx_give_state(OnnxImport *import, const Onnx__NodeProto *node, const OnnxValue *states, size_t which,
                       const char *view, Error *err) {
    const int number = (int)states->wholes[which];
    OnnxLayer *layer = &import->layers.of[number];
    if (!gives_last(layer) && uses_of(import, number) > 0)
        return fail(err, STATUS_DATA, NODE_FORMAT "takes the last state of an lstm whose steps are taken, too",
                    NODE_ARGS(import, node));
    if (!gives_last(layer)) give_last(layer);
    const OnnxValue value = {.kind = VALUE_SAMPLES, .layer = number, .shape = layer->out};
    return onnx_give_view(import, node, value, view, err);
}

Status onnx_join_states(OnnxImport *import, const Onnx__NodeProto *node, Error *err) {
    OnnxValue all = {.kind = VALUE_STATES}, *part;
    int64_t layers[SPEC_MAX_LAYERS];
    for (size_t i = 0; i < node->n_input; i++) {
        TRY(onnx_take(&part, import, node, i, VALUE_STATES, "not an lstm's state", err));
        if (part->count > SPEC_MAX_LAYERS - all.count || onnx_attribute_whole(node, "axis", 0) != 0)
            return fail(err, STATUS_DATA, NODE_FORMAT "joins states along another axis than 0, or too many",
                        NODE_ARGS(import, node));
        memcpy(layers + all.count, part->wholes, part->count * sizeof *layers);
        all.count += part->count;
    }
    all.wholes = malloc(all.count * sizeof *layers);
    if (!all.wholes) return fail(err, STATUS_OS, "%s: no memory for %zu states", import->path, all.count);
    memcpy(all.wholes, layers, all.count * sizeof *layers);
    return onnx_give(import, node, all, err);
}

// A number repeated as a matrix of known extents: minus infinity, for a mask.
static bool is_never(OnnxValue *never, OnnxImport *import, const Onnx__NodeProto *node, const OnnxValue *number) {
    Status status;
    Error err;
    const OnnxValue *extents = onnx_input(import, node, 1, &status, &err);
    if (!number || number->kind != VALUE_CONSTANT || !number->reals || number->count != 1 || number->rank > 2 ||
        *number->reals != -INFINITY || !extents || extents->kind != VALUE_CONSTANT || !extents->wholes ||
        extents->rank != 1 || extents->count != 2)
        return false;
    *never = (OnnxValue){.kind = VALUE_NEVER, .rank = 2, .layer = SPEC_INPUT};
    memcpy(never->extent, extents->wholes, 2 * sizeof *never->extent);
    return true;
}

// Zeros as many as an lstm has units, for each sample: how many is not looked at, for they are no numbers of the net.
Status onnx_zeros(OnnxImport *import, const Onnx__NodeProto *node, Error *err) {
    Status status;
    const Onnx__AttributeProto *number = onnx_attribute(node, "value");
    const OnnxValue *in = onnx_input(import, node, 0, &status, err);
    TRY(status);
    bool is_zero = in && (in->kind == VALUE_ZEROS || in->kind == VALUE_CONSTANT);
    OnnxValue never;
    if (strcmp(node->op_type, "Expand") == 0 && is_never(&never, import, node, in))
        return onnx_give(import, node, never, err);
    if (strcmp(node->op_type, "Expand") == 0) {
        is_zero = is_zero && (in->kind == VALUE_ZEROS || in->reals);
        for (size_t i = 0; is_zero && i < in->count; i++)
            is_zero = in->reals[i] == 0;
    } else if (number) {
        OnnxValue value = {0};
        if (number->t) TRY(onnx_constant(&value, import, number->t, err));
        is_zero = is_zero && value.reals && value.count == 1 && *value.reals == 0;
        free(value.reals);
        free(value.wholes);
    }
    if (is_zero) return onnx_give(import, node, (OnnxValue){.kind = VALUE_ZEROS}, err);
    return fail(err, STATUS_DATA, NODE_FORMAT "only zeros are repeated, for lstms to begin with",
                NODE_ARGS(import, node));
}

// Places of a dimension -----------------------------------------------------------------------------------------------

// Place `place` of dimension `axis`: of a dimension with one place, or the last step of a sequence. keeps: as a
// dimension of one place.
static Status pick(OnnxImport *import, const Onnx__NodeProto *node, OnnxValue value, int axis, int64_t place,
                   bool keeps, Error *err) {
    int64_t extent[ONNX_MAX_RANK];
    char view[ONNX_MAX_RANK + 1] = "";
    onnx_extents(extent, &value);
    const bool is_cut = extent[axis] != 1, is_last = value.view[axis] == 'h' && place == extent[axis] - 1;
    if (is_cut && (!is_last || !give_last_of(import, value.layer)))
        return fail(err, STATUS_DATA,
                    NODE_FORMAT "takes a part of its input; here the last step of an lstm alone can be taken, perhaps "
                                "behind layers of each step, where nothing else takes the others",
                    NODE_ARGS(import, node));
    if (is_cut) value.shape = import->layers.of[value.layer].out;
    for (size_t d = 0, kept = 0; value.view[d]; d++) {
        if ((int)d == axis && !keeps) continue;
        const char dimension = (int)d == axis ? '1' : value.view[d];
        view[kept++] = is_cut && dimension == 'w' ? 'f' : dimension;
    }
    return onnx_give_view(import, node, value, view, err);
}

static Status take_viewed(OnnxValue **in, OnnxImport *import, const Onnx__NodeProto *node, Error *err) {
    Status status;
    *in = onnx_input(import, node, 0, &status, err);
    TRY(status);
    if (onnx_is_seen(*in) && (*in)->kind != VALUE_GROUPS) return STATUS_OK;
    return fail(err, STATUS_DATA, NODE_FORMAT "its input 1 is %s", NODE_ARGS(import, node), onnx_not_samples);
}

Status onnx_pick(OnnxImport *import, const Onnx__NodeProto *node, Error *err) {
    OnnxValue *in = NULL, *places;
    Status status;
    int64_t extent[ONNX_MAX_RANK];
    const OnnxValue *from = onnx_input(import, node, 0, &status, err);
    TRY(status);
    const OnnxValue *at = onnx_input(import, node, 1, &status, err);
    TRY(status);
    if (from && from->kind == VALUE_CONSTANT && at && at->kind == VALUE_CONSTANT)
        return onnx_take_rows(import, node, err);
    if (from && from->kind == VALUE_CONSTANT) return add_embedding(import, node, from, err);
    const bool is_state = from && from->kind == VALUE_STATES, has_axes = onnx_has_axes(from);
    if (!is_state && !has_axes) TRY(take_viewed(&in, import, node, err));
    TRY(onnx_take_wholes(&places, import, node, 1, err));
    const int rank = is_state ? 3 : has_axes ? onnx_axes_extents(extent, &from->axes) : onnx_extents(extent, in);
    int64_t axis = onnx_attribute_whole(node, "axis", 0);
    if (axis < 0) axis += rank;
    const bool fits = places->count == 1 && axis >= 0 && axis < (is_state ? 1 : rank) && (is_state || extent[axis] > 0);
    const int64_t places_there = !fits ? 0 : is_state ? (int64_t)from->count : extent[axis];
    int64_t place = fits ? *places->wholes : 0;
    if (place < 0) place += places_there;
    if (place < 0 || place >= places_there)
        return fail(err, STATUS_DATA, NODE_FORMAT "takes other than one of the places of a dimension",
                    NODE_ARGS(import, node));
    if (has_axes) return onnx_axes_cut(import, node, from, (int)axis, place, place + 1, places->rank == 1, 0, err);
    if (!is_state) return pick(import, node, *in, (int)axis, place, places->rank == 1, err);
    return onnx_give_state(import, node, from, (size_t)place, places->rank == 1 ? "1nf" : "nf", err);
}

// One number of the node's input number `which`; `preset` where it is left out.
static Status read_bound(int64_t *bound, OnnxImport *import, const Onnx__NodeProto *node, size_t which, int64_t preset,
                         Error *err) {
    OnnxValue *value;
    *bound = preset;
    if (which >= node->n_input || !*node->input[which]) return STATUS_OK;
    TRY(onnx_take_wholes(&value, import, node, which, err));
    if (value->count != 1)
        return fail(err, STATUS_DATA, NODE_FORMAT "cuts more than one dimension", NODE_ARGS(import, node));
    *bound = *value->wholes;
    return STATUS_OK;
}

Status onnx_cut(OnnxImport *import, const Onnx__NodeProto *node, Error *err) {
    Status status;
    int64_t bound[4], extent[ONNX_MAX_RANK]; // start, end, axis, step
    OnnxValue *in = onnx_input(import, node, 0, &status, err);
    TRY(status);
    if (in && in->kind == VALUE_ZEROS) return onnx_pass_on(import, node, err);
    const bool is_constant = in && in->kind == VALUE_CONSTANT && in->reals, has_axes = onnx_has_axes(in);
    if (!is_constant && !has_axes) TRY(take_viewed(&in, import, node, err));
    for (size_t i = 0; i < 4; i++)
        TRY(read_bound(&bound[i], import, node, i + 1, i == 3, err));
    if (is_constant) memcpy(extent, in->extent, sizeof extent);
    const int rank = is_constant ? in->rank
                     : has_axes  ? onnx_axes_extents(extent, &in->axes)
                                 : onnx_extents(extent, in);
    const int64_t axis = bound[2] < 0 ? bound[2] + rank : bound[2];
    if (axis < 0 || axis >= rank || extent[axis] < 0 || bound[3] != 1)
        return fail(err, STATUS_DATA, NODE_FORMAT "cuts between samples, or by steps that are not 1",
                    NODE_ARGS(import, node));
    for (size_t i = 0; i < 2; i++) {
        const int64_t place = bound[i] < 0 ? (bound[i] < -extent[axis] ? 0 : bound[i] + extent[axis]) : bound[i];
        bound[i] = place > extent[axis] ? extent[axis] : place;
    }
    if (is_constant) return onnx_cut_reals(import, node, in, (int)axis, bound[0], bound[1], err);
    if (bound[0] == 0 && bound[1] == extent[axis]) return onnx_pass_on(import, node, err);
    if (!has_axes && bound[1] - bound[0] == 1) return pick(import, node, *in, (int)axis, bound[0], true, err);
    return onnx_axes_cut(import, node, in, (int)axis, bound[0], bound[1], true, 0, err);
}
