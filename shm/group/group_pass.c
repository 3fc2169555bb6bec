#include "shm/group/group_pass.h"

#include <assert.h>
#include <stddef.h>

enum { SMALL_BYTES = 8192 }; // up to this size every rank combines all data, which takes one meeting instead of two

static size_t smaller(size_t a, size_t b) {
    return a < b ? a : b;
}

size_t pass_piece_length(const Pass *pass, const Chunk *chunk, uint32_t publisher, uint32_t reader) {
    const size_t row = (pass->has_rows ? reader : publisher) * pass->row_elements;
    const size_t length = row < pass->elements ? smaller(pass->row_elements, pass->elements - row) : 0;
    return chunk->begin < length ? smaller(chunk->most, length - chunk->begin) : 0;
}

const unsigned char *pass_own_piece(const Pass *pass, const Chunk *chunk, uint32_t reader) {
    size_t row = pass->has_rows ? reader * pass->row_elements : 0;
    return pass->in ? pass->in + (row + chunk->begin) * group_type_bytes((GroupType)pass->call->type) : NULL;
}

unsigned char *pass_place(const Pass *pass, const Chunk *chunk, uint32_t publisher) {
    size_t row = pass->combines || pass->publisher != ALL_RANKS ? 0 : publisher * pass->row_elements;
    return pass->out ? pass->out + (row + chunk->begin) * group_type_bytes((GroupType)pass->call->type) : NULL;
}

// all_reduce of much data: each rank combines one slice of the vector, then all gather the slices.
static Status all_reduce_slices(Group *group, const Pass *whole, PassRunner *run, Error *err) {
    enum { LINE = 64 }; // in elements: slices begin at cache lines
    size_t count = whole->call->count, size = group_size(group);
    Pass pass = *whole;
    pass.row_elements = ((count + size - 1) / size + LINE - 1) / LINE * LINE;
    pass.elements = count;
    assert(pass.row_elements % LINE == 0 && pass.row_elements * size >= count);
    // The last ranks may have nothing to combine.
    size_t own = smaller(group_rank(group) * pass.row_elements, count);
    unsigned char *slice = whole->out + own * group_type_bytes((GroupType)whole->call->type);
    pass.has_rows = true;
    pass.out = slice;
    TRY(run(group, &pass, err));
    pass.has_rows = pass.combines = false;
    pass.in = slice;
    pass.out = whole->out;
    return run(group, &pass, err);
}

Status group_run_passes(Group *group, const GroupCall *call, void *out, const void *in, PassRunner *run, Error *err) {
    const GroupOperationFacts *facts = &group_operations[call->operation];
    assert(call->operation < OPERATION_COUNT && call->root < group_size(group));
    const Pass pass = {.call = call,
                       .in = in,
                       .out = out,
                       .has_rows = facts->has_rows,
                       .combines = facts->combines,
                       .publisher = facts->root == ROOT_PUBLISHES ? (int)call->root : ALL_RANKS,
                       .reader = facts->root == ROOT_READS ? (int)call->root : ALL_RANKS,
                       .row_elements = call->count,
                       .elements = call->count * group_size(group)};
    if (call->operation == OPERATION_ALL_REDUCE && call->count * group_type_bytes((GroupType)call->type) > SMALL_BYTES)
        return all_reduce_slices(group, &pass, run, err);
    return run(group, &pass, err);
}
