// Every collective, type and combination on a group, checked exactly: whatever its transport.
#ifndef SOUNDER_TESTS_SHM_GROUP_GROUP_EVERYTHING_H
#define SOUNDER_TESTS_SHM_GROUP_GROUP_EVERYTHING_H

#include "ranks.h"

// Element i of rank r's input, small enough for sums and products of 7 in a byte.
static inline int64_t input_of(uint32_t rank, size_t i) {
    return (int64_t)((rank * 3 + i * 5 + (i >> 8)) % 2) + 1;
}

static inline void set(void *array, size_t i, GroupType type, int64_t value) {
    switch (type) {
    case GROUP_F32:
        ((float *)array)[i] = (float)value;
        break;
    case GROUP_F64:
        ((double *)array)[i] = (double)value;
        break;
    case GROUP_I32:
        ((int32_t *)array)[i] = (int32_t)value;
        break;
    case GROUP_I64:
        ((int64_t *)array)[i] = value;
        break;
    case GROUP_U8:
        ((uint8_t *)array)[i] = (uint8_t)value;
        break;
    }
}

static inline bool holds(const void *array, size_t i, GroupType type, double value) {
    switch (type) {
    case GROUP_F32:
        return ((const float *)array)[i] == (float)value;
    case GROUP_F64:
        return ((const double *)array)[i] == value;
    case GROUP_I32:
        return ((const int32_t *)array)[i] == (int32_t)value;
    case GROUP_I64:
        return ((const int64_t *)array)[i] == (int64_t)value;
    case GROUP_U8:
        return ((const uint8_t *)array)[i] == (uint8_t)value;
    }
    return false;
}

// What all ranks' elements i give together; the means of integers are cut by the conversion.
static inline double combined(uint32_t size, size_t i, GroupOp op) {
    int64_t result = input_of(0, i);
    for (uint32_t rank = 1; rank < size; rank++) {
        int64_t value = input_of(rank, i);
        switch (op) {
        case GROUP_SUM:
        case GROUP_AVG:
            result += value;
            break;
        case GROUP_PRODUCT:
            result *= value;
            break;
        case GROUP_MIN:
            result = value < result ? value : result;
            break;
        case GROUP_MAX:
            result = value > result ? value : result;
            break;
        case GROUP_BAND:
            result &= value;
            break;
        case GROUP_BOR:
            result |= value;
            break;
        case GROUP_BXOR:
            result ^= value;
            break;
        }
    }
    return op == GROUP_AVG ? (double)result / size : (double)result;
}

// Buffers of one rank: (size, count) elements each, with a guard behind them.
typedef struct Buffers {
    unsigned char *in, *out;
    size_t count, bytes;
    GroupType type;
} Buffers;

enum { GUARD_BYTES = 64, GUARD = 0xA5 };

static inline Buffers buffers_init(const Group *group, size_t count, GroupType type) {
    Buffers buffers = {.count = count, .bytes = group_size(group) * count * group_type_bytes(type), .type = type};
    buffers.in = malloc(buffers.bytes + GUARD_BYTES);
    buffers.out = malloc(buffers.bytes + GUARD_BYTES);
    require(buffers.in && buffers.out);
    return buffers;
}

// Rows of `in` are inputs of this rank from element 0 on; `out` is all guard.
static inline void buffers_fill(const Buffers *buffers, uint32_t rank) {
    size_t elements = buffers->bytes / group_type_bytes(buffers->type);
    for (size_t i = 0; i < elements; i++)
        set(buffers->in, i, buffers->type, input_of(rank, i));
    memset(buffers->in + buffers->bytes, GUARD, GUARD_BYTES);
    memset(buffers->out, GUARD, buffers->bytes + GUARD_BYTES);
}

// Nothing was written to `out` from element `first` on, nor behind `in`.
static inline void require_guards(const Buffers *buffers, size_t first) {
    for (size_t i = first * group_type_bytes(buffers->type); i < buffers->bytes + GUARD_BYTES; i++)
        require(buffers->out[i] == GUARD);
    for (size_t i = 0; i < GUARD_BYTES; i++)
        require(buffers->in[buffers->bytes + i] == GUARD);
}

static inline void buffers_free(Buffers *buffers) {
    free(buffers->in);
    free(buffers->out);
}

static inline void try_combining(Group *group, const Buffers *buffers, GroupOp op) {
    Error err = {.message = ""};
    uint32_t rank = group_rank(group), size = group_size(group), root = size / 2;
    size_t count = buffers->count;
    GroupType type = buffers->type;

    buffers_fill(buffers, rank);
    require_ok(group_all_reduce(group, buffers->out, buffers->in, count, type, op, &err));
    for (size_t i = 0; i < count; i++)
        require(holds(buffers->out, i, type, combined(size, i, op)));
    require_guards(buffers, count);

    require_ok(group_all_reduce(group, buffers->in, buffers->in, count, type, op, &err)); // in place
    require(memcmp(buffers->in, buffers->out, count * group_type_bytes(type)) == 0);

    buffers_fill(buffers, rank);
    require_ok(group_reduce(group, rank == root ? buffers->out : NULL, buffers->in, count, type, op, root, &err));
    for (size_t i = 0; i < count && rank == root; i++)
        require(holds(buffers->out, i, type, combined(size, i, op)));
    require_guards(buffers, rank == root ? count : 0);

    require_ok(group_reduce_scatter(group, buffers->out, buffers->in, count, type, op, &err));
    for (size_t i = 0; i < count; i++)
        require(holds(buffers->out, i, type, combined(size, rank * count + i, op)));
    require_guards(buffers, count);
}

// Row r of out is row `row` of rank r's input.
static inline void require_rows(const Group *group, const Buffers *buffers, uint32_t row) {
    for (uint32_t from = 0; from < group_size(group); from++)
        for (size_t i = 0; i < buffers->count; i++)
            require(holds(buffers->out, from * buffers->count + i, buffers->type,
                          (double)input_of(from, row * buffers->count + i)));
}

static inline void try_copying(Group *group, const Buffers *buffers, uint32_t root) {
    Error err = {.message = ""};
    uint32_t rank = group_rank(group), size = group_size(group);
    size_t count = buffers->count;
    GroupType type = buffers->type;
    bool is_root = rank == root;

    buffers_fill(buffers, rank);
    require_ok(group_gather(group, is_root ? buffers->out : NULL, buffers->in, count, type, root, &err));
    if (is_root) require_rows(group, buffers, 0);
    require_guards(buffers, is_root ? size * count : 0);

    require_ok(group_all_gather(group, buffers->out, buffers->in, count, type, &err));
    require_rows(group, buffers, 0);
    require_ok(group_all_to_all(group, buffers->out, buffers->in, count, type, &err));
    require_rows(group, buffers, rank);
    require_guards(buffers, size * count);

    buffers_fill(buffers, rank);
    require_ok(group_scatter(group, buffers->out, is_root ? buffers->in : NULL, count, type, root, &err));
    for (size_t i = 0; i < count; i++)
        require(holds(buffers->out, i, type, (double)input_of(root, rank * count + i)));
    require_guards(buffers, count);

    require_ok(group_broadcast(group, buffers->in, count, type, root, &err));
    for (size_t i = 0; i < count; i++)
        require(holds(buffers->in, i, type, (double)input_of(root, i)));
    require_ok(group_barrier(group, &err));
}

static inline void try_everything(Group *group, const void *context) {
    Error err = {.message = ""};
    const size_t counts[] = {0, 1, 37, *(const size_t *)context};
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++)
        for (GroupType type = GROUP_F32; type <= GROUP_U8; type++) {
            Buffers buffers = buffers_init(group, counts[c], type);
            for (GroupOp op = GROUP_SUM; op <= GROUP_BXOR; op++)
                if (op <= GROUP_AVG || type >= GROUP_I32) try_combining(group, &buffers, op);
            for (uint32_t root = 0; root < group_size(group); root++)
                try_copying(group, &buffers, root);
            buffers_free(&buffers);
        }
    require_ok(group_finish(group, &err));
}

#endif
