// The collectives of ranks that share memory. Each is one pass over its data, chunk by chunk, or two:
//
//   what is published            who publishes   who reads   what they do    operation
//   one piece for everybody      all             all         copy            all_gather, second pass of all_reduce
//                                all             root        copy            gather
//                                root            all         copy            broadcast
//                                all             all         combine         all_reduce of little data
//                                all             root        combine         reduce
//   a row for each rank          all             all         copy            all_to_all
//                                root            all         copy            scatter
//                                all             all         combine         reduce_scatter, first pass of all_reduce
//   nothing                                                                  barrier
//
// A step of a pass: publish a chunk in the slot, arrive, wait for all, read theirs. While the last ones still read, the
// first publish their next chunk in the other slot.
#include <string.h>

#include "shm/group_shared.h"

enum { SMALL_BYTES = 8192 }; // up to here every rank combines everything, which takes one step instead of two or more

// What rank p publishes for rank q is piece (p, q). Pieces are rows: q's row of p's input, or p's own.
typedef struct Pass {
    const GroupCall *call;
    const unsigned char *in;
    unsigned char *out;
    bool has_rows;         // in has a row for each reader; otherwise it is one piece, for all of them
    bool combines;         // what a reader gets, into one row; otherwise out has a row for each publisher
    int publisher, reader; // a rank, or EVERYBODY
    size_t row_elements;   // of every row, but the last ones are shorter if ...
    size_t elements;       // ... this is less than all rows together
    const GroupMover *mover;
} Pass;

enum { EVERYBODY = -1 };

static bool concerns(int whom, uint32_t rank) {
    return whom == EVERYBODY || whom == (int)rank;
}

static size_t smaller(size_t a, size_t b) {
    return a < b ? a : b;
}

// Arrivals ------------------------------------------------------------------------------------------------------------

// A wait for all ranks' arrival at this rank's step, and what was seen so far.
typedef struct Meeting {
    const GroupCall *call;
    uint32_t next; // ranks below it are known to be here
    int misfit;    // a rank that is here with another call, -1: none
} Meeting;

static bool is_here(const SharedGroup *shared, uint32_t rank, uint64_t step) {
    // Sequentially consistent, as arrive needs it; and acquire: the call and the slot are those of this step.
    return atomic_load(&shared->members[rank].arrivals[step % 2].step) == step;
}

static bool misfits(const SharedGroup *shared, uint32_t rank, const GroupCall *call) {
    return !group_call_fits(call, &shared->members[rank].arrivals[shared->step % 2].call);
}

static bool all_are_here(SharedGroup *shared, void *context) {
    Meeting *meeting = context;
    for (; meeting->next < shared->group->size && is_here(shared, meeting->next, shared->step); meeting->next++)
        if (misfits(shared, meeting->next, meeting->call)) meeting->misfit = (int)meeting->next;
    // Whoever is here with another call is to be found at once, although others before it have not come.
    for (uint32_t rank = meeting->next; rank < shared->group->size && meeting->misfit < 0; rank++)
        if (is_here(shared, rank, shared->step) && misfits(shared, rank, meeting->call)) meeting->misfit = (int)rank;
    return meeting->misfit >= 0 || meeting->next == shared->group->size;
}

static void who_is_late(const SharedGroup *shared, const void *context, Error *sentence) {
    const Meeting *meeting = context;
    bool missing[GROUP_MAX_RANKS];
    for (uint32_t rank = 0; rank < shared->group->size; rank++)
        missing[rank] = !is_here(shared, rank, shared->step);
    char names[GROUP_RANKS_TEXT_BYTES], text[GROUP_CALL_TEXT_BYTES];
    fail(sentence, STATUS_TIMEOUT, "rank %u waited %.1f s in %s (call %lu of a group of %u): %s did not come",
         shared->group->rank, (double)shared->group->timeout_nanoseconds * 1e-9, group_call_text(text, meeting->call),
         meeting->call->sequence, shared->group->size, group_ranks_text(names, missing, shared->group->size));
}

// Stores this rank's arrival at the next step. Only the last to arrive rings the others: its own store precedes its
// look at theirs, in the one order that sequentially consistent operations have, so of the last two at least one sees
// all.
static void arrive(SharedGroup *shared, const GroupCall *call) {
    GroupArrival *arrival = &shared->members[shared->group->rank].arrivals[++shared->step % 2];
    arrival->call = *call;
    atomic_store(&arrival->step, shared->step); // release, pairs with is_here
    for (uint32_t rank = 0; rank < shared->group->size; rank++)
        if (!is_here(shared, rank, shared->step)) return;
    for (uint32_t rank = 0; rank < shared->group->size; rank++)
        if (rank != shared->group->rank) group_shared_ring(shared, rank);
}

static Status meet(SharedGroup *shared, const GroupCall *call, Error *err) {
    arrive(shared, call);
    Meeting meeting = {.call = call, .misfit = -1};
    TRY(group_shared_wait(shared, &(GroupWaiting){all_are_here, who_is_late, &meeting}, err));
    if (meeting.misfit < 0) return STATUS_OK;
    Error reason;
    group_call_mismatch(call, shared->group->rank, &shared->members[meeting.misfit].arrivals[shared->step % 2].call,
                        (uint32_t)meeting.misfit, &reason);
    return group_shared_fail(shared, STATUS_MISMATCH, -1, &reason, err);
}

// Chunks --------------------------------------------------------------------------------------------------------------

static size_t row_length(const Pass *pass, uint32_t row) {
    size_t begin = row * pass->row_elements;
    return begin < pass->elements ? smaller(pass->row_elements, pass->elements - begin) : 0;
}

// The part of a pass that one step moves: elements [begin, begin + most) of every row, as far as it goes.
typedef struct Chunk {
    size_t begin, most;
} Chunk;

static size_t piece_length(const Pass *pass, const Chunk *chunk, uint32_t publisher, uint32_t reader) {
    size_t length = row_length(pass, pass->has_rows ? reader : publisher);
    return chunk->begin < length ? smaller(chunk->most, length - chunk->begin) : 0;
}

// This rank's own piece, where the caller has it.
static const unsigned char *own_piece(const Pass *pass, const Chunk *chunk, uint32_t reader) {
    size_t row = pass->has_rows ? reader * pass->row_elements : 0;
    return pass->in + (row + chunk->begin) * group_type_bytes(pass->call->type);
}

// The same in the publisher's slot.
static unsigned char *slot_piece(const SharedGroup *shared, const Pass *pass, const Chunk *chunk, uint32_t publisher,
                                 uint32_t reader, uint64_t step) {
    unsigned char *slot = shared->slots + (2 * publisher + step % 2) * shared->header->chunk_bytes;
    return slot + (pass->has_rows ? reader * chunk->most * group_type_bytes(pass->call->type) : 0);
}

static Status publish(SharedGroup *shared, const Pass *pass, const Chunk *chunk, Error *err) {
    uint32_t rank = shared->group->rank, size = shared->group->size;
    if (!concerns(pass->publisher, rank)) return STATUS_OK;
    for (uint32_t reader = 0; reader < size; reader++) {
        if (reader == rank || !concerns(pass->reader, reader)) continue;
        size_t length = piece_length(pass, chunk, rank, reader);
        if (length > 0)
            TRY(pass->mover->copy(slot_piece(shared, pass, chunk, rank, reader, shared->step + 1),
                                  own_piece(pass, chunk, reader), length * group_type_bytes(pass->call->type), err));
        if (!pass->has_rows) break; // all readers look at the same
    }
    return STATUS_OK;
}

static Status take_copies(SharedGroup *shared, const Pass *pass, const Chunk *chunk, Error *err) {
    uint32_t rank = shared->group->rank;
    size_t element = group_type_bytes(pass->call->type);
    for (uint32_t publisher = 0; publisher < shared->group->size; publisher++) {
        size_t length = piece_length(pass, chunk, publisher, rank);
        if (!concerns(pass->publisher, publisher) || length == 0) continue;
        size_t row = pass->publisher == EVERYBODY ? publisher * pass->row_elements : 0;
        unsigned char *to = pass->out + (row + chunk->begin) * element;
        const unsigned char *from = publisher == rank ? own_piece(pass, chunk, rank)
                                                      : slot_piece(shared, pass, chunk, publisher, rank, shared->step);
        if (to != from) TRY(pass->mover->copy(to, from, length * element, err));
    }
    return STATUS_OK;
}

static Status take_combined(SharedGroup *shared, const Pass *pass, const Chunk *chunk, Error *err) {
    uint32_t rank = shared->group->rank, size = shared->group->size;
    size_t length = piece_length(pass, chunk, rank, rank);
    if (length == 0) return STATUS_OK;
    const void *inputs[GROUP_MAX_RANKS];
    for (uint32_t publisher = 0; publisher < size; publisher++)
        inputs[publisher] = publisher == rank ? own_piece(pass, chunk, rank)
                                              : slot_piece(shared, pass, chunk, publisher, rank, shared->step);
    return pass->mover->combine(pass->out + chunk->begin * group_type_bytes(pass->call->type), inputs, size, length,
                                (GroupType)pass->call->type, (GroupOp)pass->call->op, err);
}

// Elements of a row that one step can move: what a slot holds, of one piece or of one for each rank, in whole lines.
static size_t elements_a_step(const SharedGroup *shared, const Pass *pass) {
    size_t bytes = shared->header->chunk_bytes;
    if (pass->has_rows) bytes = bytes / shared->group->size / 64 * 64;
    return bytes / group_type_bytes(pass->call->type);
}

// A rank that cannot move its data is a failure of the whole group: the others wait for it.
static Status move_or_fail(SharedGroup *shared, Status status, const Error *reason, Error *err) {
    return status == STATUS_OK ? STATUS_OK : group_shared_fail(shared, status, -1, reason, err);
}

static Status run(SharedGroup *shared, const Pass *pass, Error *err) {
    Error reason = {.message = ""};
    Chunk chunk = {.most = elements_a_step(shared, pass)};
    do { // at least once: calls without elements meet too
        Status status = publish(shared, pass, &chunk, &reason);
        if (status == STATUS_OK) status = pass->mover->settle(&reason);
        TRY(move_or_fail(shared, status, &reason, err));
        TRY(meet(shared, pass->call, err));
        if (concerns(pass->reader, shared->group->rank))
            status = pass->combines ? take_combined(shared, pass, &chunk, &reason)
                                    : take_copies(shared, pass, &chunk, &reason);
        if (status == STATUS_OK) status = pass->mover->settle(&reason);
        TRY(move_or_fail(shared, status, &reason, err));
        chunk.begin += chunk.most;
    } while (chunk.begin < pass->row_elements);
    return STATUS_OK;
}

// Operations ----------------------------------------------------------------------------------------------------------

// The sum of much data: each rank combines one slice of the vector, then all gather the slices.
static Status all_reduce_slices(SharedGroup *shared, const Pass *whole, Error *err) {
    enum { LINE = 64 }; // elements: slices begin at cache lines
    size_t count = whole->call->count, size = shared->group->size;
    size_t slice = ((count + size - 1) / size + LINE - 1) / LINE * LINE;
    unsigned char *own = whole->out;
    if (row_length(&(Pass){.row_elements = slice, .elements = count}, shared->group->rank) > 0)
        own += shared->group->rank * slice * group_type_bytes(whole->call->type);
    Pass pass = *whole;
    pass.row_elements = slice;
    pass.elements = count;
    pass.has_rows = true;
    pass.out = own;
    TRY(run(shared, &pass, err));
    pass.has_rows = pass.combines = false;
    pass.in = own;
    pass.out = whole->out;
    return run(shared, &pass, err);
}

Status group_shared_collective(Group *group, const GroupCall *call, void *out, const void *in, Error *err) {
    SharedGroup *shared = group->state;
    TRY(group_shared_check(shared, err));
    Pass pass = {.call = call,
                 .in = in,
                 .out = out,
                 .publisher = EVERYBODY,
                 .reader = EVERYBODY,
                 .row_elements = call->count,
                 .elements = call->count * group->size,
                 .mover = call->operation == OPERATION_SPLIT ? &shared->host_mover : &shared->mover};
    switch ((GroupOperation)call->operation) {
    case OPERATION_BROADCAST:
        pass.publisher = (int)call->root;
        break;
    case OPERATION_REDUCE:
        pass.combines = true;
        pass.reader = (int)call->root;
        break;
    case OPERATION_ALL_REDUCE:
        pass.combines = true;
        if (call->count * group_type_bytes((GroupType)call->type) > SMALL_BYTES)
            return all_reduce_slices(shared, &pass, err);
        break;
    case OPERATION_GATHER:
        pass.reader = (int)call->root;
        break;
    case OPERATION_SCATTER:
        pass.publisher = (int)call->root;
        pass.has_rows = true;
        break;
    case OPERATION_REDUCE_SCATTER:
        pass.combines = pass.has_rows = true;
        break;
    case OPERATION_ALL_TO_ALL:
        pass.has_rows = true;
        break;
    default: // barrier and finish have no elements, all_gather and split are as the pass stands
        break;
    }
    return run(shared, &pass, err);
}
