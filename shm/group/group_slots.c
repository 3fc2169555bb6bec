// Part of group_shared.h: passes of ranks that share memory. A step of a pass: publish a chunk in the slot, arrive,
// wait for all ranks, read their slots. While the last ranks still read, the first ones publish their next chunk in the
// other slot.
#include <assert.h>

#include "shm/group/group_pass.h"
#include "shm/group/group_shared.h"

// Arrivals ------------------------------------------------------------------------------------------------------------

// A wait for the arrival of all ranks at this rank's step, and what was seen so far.
typedef struct Meeting {
    const GroupCall *call;
    uint32_t next; // all lower ranks are known to have arrived
    int misfit;    // a rank that has arrived with another call; -1: none
} Meeting;

static bool is_here(const SharedGroup *shared, uint32_t rank, uint64_t step) {
    assert(rank < shared->group->size && step > 0);
    // Sequentially consistent, as `arrive` requires; and acquire: the call and the slot belong to this step.
    return atomic_load(&shared->members[rank].arrivals[step % 2].step) == step;
}

static bool misfits(const SharedGroup *shared, uint32_t rank, const GroupCall *call) {
    return !group_call_fits(call, &shared->members[rank].arrivals[shared->step % 2].call);
}

// Continues where the previous call has stopped: an arrival at this step stays visible until this rank has arrived at
// the next one.
static bool all_are_here(SharedGroup *shared, void *context) {
    Meeting *meeting = context;
    for (; meeting->next < shared->group->size && is_here(shared, meeting->next, shared->step); meeting->next++)
        if (misfits(shared, meeting->next, meeting->call)) meeting->misfit = (int)meeting->next;
    // Reports a rank with another call at once, even if lower ranks have not arrived.
    for (uint32_t rank = meeting->next; rank < shared->group->size && meeting->misfit < 0; rank++)
        if (is_here(shared, rank, shared->step) && misfits(shared, rank, meeting->call)) meeting->misfit = (int)rank;
    return meeting->misfit >= 0 || meeting->next == shared->group->size;
}

static Status call_is_late(const SharedGroup *shared, const void *context) {
    const Meeting *meeting = context;
    bool missing[GROUP_MAX_RANKS];
    for (uint32_t rank = 0; rank < shared->group->size; rank++)
        missing[rank] = !is_here(shared, rank, shared->step);
    return group_call_late(shared->group, meeting->call, missing);
}

// Stores this rank's arrival at the next step. Only the last rank to arrive rings the others. Its own store precedes
// its loads of the others' arrivals in the single order of all sequentially consistent operations, so at least one of
// the last two ranks sees all arrivals.
static void arrive(SharedGroup *shared, const GroupCall *call) {
    GroupArrival *arrival = &shared->members[shared->group->rank].arrivals[++shared->step % 2];
    assert(atomic_load(&arrival->step) < shared->step); // steps only grow, and this rank alone writes its entry
    arrival->call = *call;
    atomic_store(&arrival->step, shared->step); // release, pairs with is_here
    for (uint32_t rank = 0; rank < shared->group->size; rank++)
        if (!is_here(shared, rank, shared->step)) return;
    for (uint32_t rank = 0; rank < shared->group->size; rank++)
        if (rank != shared->group->rank) bell_ring(&shared->members[rank].bell);
}

static Status meet(SharedGroup *shared, const GroupCall *call, Error *err) {
    arrive(shared, call);
    Meeting meeting = {.call = call, .misfit = -1};
    TRY(group_shared_wait(shared, &(GroupWaiting){all_are_here, call_is_late, &meeting}, err));
    assert(meeting.misfit >= 0 || meeting.next == shared->group->size);
    if (meeting.misfit < 0) return STATUS_OK;
    const GroupCall *other = &shared->members[meeting.misfit].arrivals[shared->step % 2].call;
    group_call_mismatch(call, shared->group->rank, other, (uint32_t)meeting.misfit, &shared->group->error);
    return group_shared_fail(shared, STATUS_MISMATCH, err);
}

// Chunks --------------------------------------------------------------------------------------------------------------

static const GroupMover *mover_of(const SharedGroup *shared, const Pass *pass) {
    return pass->call->operation == OPERATION_SPLIT ? &shared->host_mover : &shared->mover;
}

// Address of piece (publisher, reader) in the publisher's slot.
static unsigned char *slot_piece(const SharedGroup *shared, const Pass *pass, const Chunk *chunk, uint32_t publisher,
                                 uint32_t reader, uint64_t step) {
    unsigned char *slots = pass->call->operation == OPERATION_SPLIT ? shared->slots : shared->device_slots;
    unsigned char *slot = slots + (2 * publisher + step % 2) * shared->header->chunk_bytes;
    assert(publisher < shared->group->size && reader < shared->group->size);
    assert((pass->has_rows ? shared->group->size : 1) * chunk->most * group_type_bytes((GroupType)pass->call->type) <=
           shared->header->chunk_bytes);
    return slot + (pass->has_rows ? reader * chunk->most * group_type_bytes((GroupType)pass->call->type) : 0);
}

static Status publish(SharedGroup *shared, const Pass *pass, const Chunk *chunk, Error *err) {
    uint32_t rank = shared->group->rank, size = shared->group->size;
    size_t element = group_type_bytes((GroupType)pass->call->type);
    if (!pass_concerns(pass->publisher, rank)) return STATUS_OK;
    for (uint32_t reader = 0; reader < size; reader++) {
        if (reader == rank || !pass_concerns(pass->reader, reader)) continue;
        size_t length = pass_piece_length(pass, chunk, rank, reader);
        assert(length <= chunk->most && chunk->begin + length <= pass->row_elements);
        if (length > 0)
            TRY(mover_of(shared, pass)
                    ->publish(slot_piece(shared, pass, chunk, rank, reader, shared->step + 1),
                              pass_own_piece(pass, chunk, reader), length * element, err));
        if (!pass->has_rows) break; // all readers read the same piece
    }
    return STATUS_OK;
}

// Address at which this rank reads a publisher's piece.
static const unsigned char *find_piece(const SharedGroup *shared, const Pass *pass, const Chunk *chunk,
                                       uint32_t publisher) {
    uint32_t rank = shared->group->rank;
    return publisher == rank ? pass_own_piece(pass, chunk, rank)
                             : slot_piece(shared, pass, chunk, publisher, rank, shared->step);
}

static Status take_copies(SharedGroup *shared, const Pass *pass, const Chunk *chunk, Error *err) {
    size_t element = group_type_bytes((GroupType)pass->call->type);
    for (uint32_t publisher = 0; publisher < shared->group->size; publisher++) {
        size_t length = pass_piece_length(pass, chunk, publisher, shared->group->rank);
        if (!pass_concerns(pass->publisher, publisher) || length == 0) continue;
        unsigned char *to = pass_place(pass, chunk, publisher);
        const unsigned char *from = find_piece(shared, pass, chunk, publisher);
        if (to != from) TRY(mover_of(shared, pass)->copy(to, from, length * element, err));
    }
    return STATUS_OK;
}

static Status take_combined(SharedGroup *shared, const Pass *pass, const Chunk *chunk, Error *err) {
    uint32_t rank = shared->group->rank, size = shared->group->size;
    size_t length = pass_piece_length(pass, chunk, rank, rank);
    if (length == 0) return STATUS_OK;
    const void *inputs[GROUP_MAX_RANKS];
    for (uint32_t publisher = 0; publisher < size; publisher++)
        inputs[publisher] = find_piece(shared, pass, chunk, publisher);
    return mover_of(shared, pass)
        ->combine(pass_place(pass, chunk, rank), inputs, size, length, (GroupType)pass->call->type,
                  (GroupOp)pass->call->op, err);
}

// Elements of a row that one step can move: as many as fit a slot, which holds one piece or one for each rank, in whole
// lines.
static size_t elements_per_step(const SharedGroup *shared, const Pass *pass) {
    size_t bytes = shared->header->chunk_bytes;
    if (pass->has_rows) bytes = bytes / shared->group->size / 64 * 64;
    return bytes / group_type_bytes((GroupType)pass->call->type);
}

// Moved data is settled before other ranks are told. A rank that cannot move its data makes the whole group fail,
// because the others wait for it.
static Status settle(SharedGroup *shared, const Pass *pass, Status moved, Error *err) {
    if (moved == STATUS_OK) moved = mover_of(shared, pass)->settle(&shared->group->error);
    return moved == STATUS_OK ? STATUS_OK : group_shared_fail(shared, moved, err);
}

static Status run_pass(Group *group, const Pass *pass, Error *err) {
    SharedGroup *shared = group->state;
    Error *why = &group->error;
    Chunk chunk = {.most = elements_per_step(shared, pass)};
    assert(chunk.most > 0);
    do { // at least once: the ranks of calls without elements meet, too
        TRY(settle(shared, pass, publish(shared, pass, &chunk, why), err));
        TRY(meet(shared, pass->call, err));
        if (pass_concerns(pass->reader, group->rank))
            TRY(settle(shared, pass, (pass->combines ? take_combined : take_copies)(shared, pass, &chunk, why), err));
        chunk.begin += chunk.most;
    } while (chunk.begin < pass->row_elements);
    return STATUS_OK;
}

// CUDA requires that an exported block is freed after all importers have closed it: an importer closes it before it
// arrives to finish, rank 0 frees it afterwards.
Status group_shared_collective(Group *group, const GroupCall *call, void *out, const void *in, Error *err) {
    SharedGroup *shared = group->state;
    TRY(group_shared_check(shared, err));
    if (call->operation == OPERATION_FINISH && shared->device.imported) group_cuda_detach(shared);
    return group_run_passes(group, call, out, in, run_pass, err);
}
