// Constants that are made of others, as the weights of an LSTM, vectors of positions or an attention's scale in files
// whose exporter folds nothing.
#include "onnx_ops.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

// Numbers of one place of a dimension, and how many times there are such places one after the other.
static size_t block_of(const OnnxValue *value, int axis) {
    size_t block = 1;
    for (int d = axis + 1; d < value->rank; d++)
        block *= (size_t)value->extent[d];
    return block;
}
static size_t rows_of(const OnnxValue *value, int axis) {
    size_t rows = 1;
    for (int d = 0; d < axis; d++)
        rows *= (size_t)value->extent[d];
    return rows;
}

// A constant like that one, but for `extent` places of a dimension: its numbers are there to be written.
static Status begin_reals(OnnxValue *value, const OnnxImport *import, const OnnxValue *like, int axis, int64_t extent,
                          Error *err) {
    *value = (OnnxValue){.kind = VALUE_CONSTANT, .rank = like->rank};
    memcpy(value->extent, like->extent, sizeof value->extent);
    value->extent[axis] = extent;
    value->count = rows_of(like, axis) * (size_t)extent * block_of(like, axis);
    value->reals = malloc((value->count + 1) * sizeof *value->reals);
    if (value->reals) return STATUS_OK;
    return fail(err, STATUS_OS, "%s: no memory for %zu numbers", import->path, value->count);
}

Status onnx_cut_reals(OnnxImport *import, const Onnx__NodeProto *node, const OnnxValue *in, int axis, int64_t from,
                      int64_t to, Error *err) {
    OnnxValue value;
    const int64_t extent = to > from ? to - from : 0;
    TRY(begin_reals(&value, import, in, axis, extent, err));
    const size_t block = block_of(in, axis), wide = (size_t)in->extent[axis] * block, narrow = (size_t)extent * block;
    for (size_t row = 0; row < rows_of(in, axis) && narrow > 0; row++)
        memcpy(value.reals + row * narrow, in->reals + row * wide + (size_t)from * block, narrow * sizeof *value.reals);
    return onnx_give(import, node, value, err);
}

// Whether the second differs from the first in that dimension alone.
static bool are_alike(const OnnxValue *a, const OnnxValue *b, int axis) {
    bool alike = b->reals && a->rank == b->rank;
    for (int d = 0; d < a->rank && alike; d++)
        alike = d == axis || a->extent[d] == b->extent[d];
    return alike;
}

Status onnx_join_reals(OnnxImport *import, const Onnx__NodeProto *node, Error *err) {
    OnnxValue *first, *part, value;
    int64_t extent = 0, done = 0;
    TRY(onnx_take(&first, import, node, 0, VALUE_CONSTANT, onnx_not_constant, err));
    const int64_t given = onnx_attribute_whole(node, "axis", 0), axis = given < 0 ? given + first->rank : given;
    for (size_t i = 0; i < node->n_input; i++) {
        TRY(onnx_take(&part, import, node, i, VALUE_CONSTANT, onnx_not_constant, err));
        if (axis < 0 || axis >= first->rank || part->count == 0 || !are_alike(first, part, (int)axis))
            return fail(err, STATUS_DATA,
                        NODE_FORMAT "its constants have no numbers, or do not fit each other along axis %" PRId64,
                        NODE_ARGS(import, node), given);
        extent += part->extent[axis];
        // No more than the file has: joins of joins would grow by themselves.
        if ((size_t)extent * rows_of(first, (int)axis) * block_of(first, (int)axis) > import->number_count)
            return fail(err, STATUS_DATA, NODE_FORMAT "joins more numbers than the %zu of the file's constants",
                        NODE_ARGS(import, node), import->number_count);
    }
    TRY(begin_reals(&value, import, first, (int)axis, extent, err));
    const size_t block = block_of(first, (int)axis), wide = (size_t)extent * block;
    for (size_t i = 0; i < node->n_input; i++) {
        TRY(onnx_take(&part, import, node, i, VALUE_CONSTANT, onnx_not_constant, err)); // as before
        const size_t narrow = (size_t)part->extent[axis] * block;
        for (size_t row = 0; row < rows_of(first, (int)axis) && narrow > 0; row++)
            memcpy(value.reals + row * wide + (size_t)done * block, part->reals + row * narrow,
                   narrow * sizeof *value.reals);
        done += part->extent[axis];
    }
    return onnx_give(import, node, value, err);
}

// Rows of a constant, at constant places; places of (1, count) give rows of (1, count, ...). No more than the file has
// numbers: rows of rows would grow by themselves.
Status onnx_take_rows(OnnxImport *import, const Onnx__NodeProto *node, Error *err) {
    OnnxValue *in, *places, value;
    TRY(onnx_take(&in, import, node, 0, VALUE_CONSTANT, onnx_not_constant, err));
    TRY(onnx_take(&places, import, node, 1, VALUE_CONSTANT, "no constant of whole numbers", err));
    const size_t block = block_of(in, 0);
    const int more = places->rank - 1; // dimensions of one before the places
    if (!in->reals || !places->wholes || in->rank < 1 || more < 0 || in->rank + more > ONNX_MAX_RANK ||
        places->count == 0 || (size_t)places->extent[more] != places->count || block == 0 ||
        places->count > import->number_count / block || onnx_attribute_whole(node, "axis", 0) != 0)
        return fail(err, STATUS_DATA, NODE_FORMAT "takes other than some rows of a constant", NODE_ARGS(import, node));
    TRY(begin_reals(&value, import, in, 0, (int64_t)places->count, err));
    for (size_t i = 0; i < places->count; i++) {
        const int64_t rows = in->extent[0], given = places->wholes[i], place = given < 0 ? given + rows : given;
        if (given < -rows || place >= rows) {
            free(value.reals);
            return fail(err, STATUS_DATA, NODE_FORMAT "row %" PRId64 " of %" PRId64, NODE_ARGS(import, node), given,
                        rows);
        }
        memcpy(value.reals + i * block, in->reals + (size_t)place * block, block * sizeof *value.reals);
    }
    value.rank = in->rank + more;
    for (int d = value.rank - 1; d >= 0; d--)
        value.extent[d] = d >= more ? value.extent[d - more] : 1;
    return onnx_give(import, node, value, err);
}

// The numbers 0, 1, ... as positions are counted: no more than the file has numbers.
Status onnx_range(OnnxImport *import, const Onnx__NodeProto *node, Error *err) {
    OnnxValue *bounds[3];
    for (size_t i = 0; i < 3; i++)
        TRY(onnx_take_wholes(&bounds[i], import, node, i, err));
    const int64_t end = bounds[1]->count == 1 ? *bounds[1]->wholes : 0;
    if (bounds[0]->count != 1 || *bounds[0]->wholes != 0 || bounds[2]->count != 1 || *bounds[2]->wholes != 1 ||
        end < 1 || (size_t)end > import->number_count)
        return fail(err, STATUS_DATA, NODE_FORMAT "counts other than the steps of a sequence", NODE_ARGS(import, node));
    OnnxValue value = {.kind = VALUE_CONSTANT, .rank = 1, .count = (size_t)end, .extent = {end}};
    value.wholes = malloc(value.count * sizeof *value.wholes);
    if (!value.wholes) return fail(err, STATUS_OS, "%s: no memory for %zu numbers", import->path, value.count);
    for (int64_t i = 0; i < end; i++)
        value.wholes[i] = i;
    return onnx_give(import, node, value, err);
}

// Single numbers: roots, quotients, and a float from a whole number or back.

enum { GREATEST_WHOLE = 1 << 24 }; // that all floats up to it are

static bool is_one(double *number, const OnnxValue *value) {
    if (!value || value->kind != VALUE_CONSTANT || value->count != 1) return false;
    if (!value->reals && *value->wholes <= ONNX_TIMES(ONNX_MOST_TIMES)) return false; // how many samples there are
    *number = value->reals ? (double)*value->reals : (double)*value->wholes;
    return true;
}

Status onnx_number(OnnxImport *import, const Onnx__NodeProto *node, Error *err) {
    Status status;
    double a, b = 1;
    const OnnxValue *in = onnx_input(import, node, 0, &status, err), *other;
    TRY(status);
    other = onnx_input(import, node, 1, &status, err);
    TRY(status);
    const bool is_root = strcmp(node->op_type, "Sqrt") == 0, is_quotient = strcmp(node->op_type, "Div") == 0;
    if (!is_one(&a, in) || (is_root && a < 0) || (is_quotient && (!is_one(&b, other) || b == 0)))
        return fail(err, STATUS_DATA, NODE_FORMAT "computes with constants of more than a number each, or of none here",
                    NODE_ARGS(import, node));
    OnnxValue value = {.kind = VALUE_CONSTANT, .count = 1, .extent = {1, 1, 1, 1, 1}};
    value.rank = other && other->rank > in->rank ? other->rank : in->rank;
    if (!is_root && !is_quotient && in->reals) { // Cast
        if (a != trunc(a) || fabs(a) > GREATEST_WHOLE)
            return fail(err, STATUS_DATA, NODE_FORMAT "makes whole numbers of a constant's", NODE_ARGS(import, node));
        value.wholes = malloc(sizeof *value.wholes);
        if (value.wholes) *value.wholes = (int64_t)a;
    } else {
        value.reals = malloc(sizeof *value.reals);
        if (value.reals) *value.reals = (float)(is_root ? sqrt(a) : a / b);
    }
    if (!value.reals && !value.wholes) return fail(err, STATUS_OS, "%s: no memory for a number", import->path);
    return onnx_give(import, node, value, err);
}
