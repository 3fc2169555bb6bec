// Part of group_shared.h: ranks that share memory wait for each other and fail together.
#include <assert.h>

#include "base/clock.h"
#include "shm/barrier.h"
#include "shm/group/group_shared.h"

// Failures ------------------------------------------------------------------------------------------------------------

static Status adopt_record(SharedGroup *shared, Error *err) {
    const GroupRecord *record = shared->record;
    assert(record->status != STATUS_OK && *record->error.message);
    assert(record->rank >= -1 && record->rank < (int)shared->group->size);
    shared->group->error = record->error;
    shared->group->failed_rank = record->rank;
    return group_fail(shared->group, (Status)record->status, err);
}

static bool is_recorded(const SharedGroup *shared) {
    // Acquire, pairs with the store in group_shared_fail: the sentence is complete.
    return atomic_load_explicit(&shared->record->state, memory_order_acquire) == RECORD_COMPLETE;
}

Status group_shared_check(SharedGroup *shared, Error *err) {
    return is_recorded(shared) ? adopt_record(shared, err) : STATUS_OK;
}

Status group_shared_fail(SharedGroup *shared, Status status, Error *err) {
    assert(status != STATUS_OK && *shared->group->error.message);
    GroupRecord *record = shared->record;
    uint32_t empty = RECORD_EMPTY;
    if (atomic_compare_exchange_strong(&record->state, &empty, RECORD_TAKEN)) {
        record->status = (int32_t)status;
        record->rank = shared->group->failed_rank;
        record->error = shared->group->error;
        atomic_store_explicit(&record->state, RECORD_COMPLETE, memory_order_release); // pairs with is_recorded
        for (uint32_t other = 0; other < shared->group->size; other++)
            bell_ring(&shared->members[other].bell);
    }
    // The rank that took the record may have died before it was complete; then this rank's own sentence is used.
    return is_recorded(shared) ? adopt_record(shared, err) : group_fail(shared->group, status, err);
}

// Waits ---------------------------------------------------------------------------------------------------------------

// Says whether there is work after all: checks everything that other ranks may have changed before they saw a listener
// at the bell.
static Status is_called(bool *called, SharedGroup *shared, const GroupWaiting *waiting, Error *err) {
    uint64_t moved = shared->moved;
    if (shared->group->pending > 0) TRY(group_mailbox_advance(shared->group, err));
    *called = shared->moved != moved || waiting->ready(shared, waiting->context) || is_recorded(shared);
    return STATUS_OK;
}

static Status sleep_at_bell(SharedGroup *shared, const GroupWaiting *waiting, uint64_t nanoseconds, Error *err) {
    Bell *bell = &shared->members[shared->group->rank].bell;
    assert(nanoseconds > 0 && nanoseconds <= GROUP_LOOK_NANOSECONDS); // a death is noticed within it
    const uint32_t heard = bell_listen(bell);
    bool called = false;
    Status status = is_called(&called, shared, waiting, err);
    if (status == STATUS_OK && !called) bell_wait(bell, heard, nanoseconds);
    return status;
}

// A rank that has arrived to finish may end: the others do not need it any more.
static bool has_finished(const GroupMember *member) {
    uint64_t odd = atomic_load_explicit(&member->arrivals[1].step, memory_order_acquire);
    uint64_t even = atomic_load_explicit(&member->arrivals[0].step, memory_order_acquire);
    return (odd | even) != 0 && member->arrivals[odd > even].call.operation == OPERATION_FINISH;
}

// Returns the lowest rank that has ended without finishing, or -1.
static int find_dead(SharedGroup *shared) {
    if (poll(shared->polls, shared->group->size, 0) <= 0) return -1;
    for (uint32_t rank = 0; rank < shared->group->size; rank++) {
        if (!shared->polls[rank].revents) continue;
        if (!has_finished(&shared->members[rank])) return (int)rank;
        shared->polls[rank].fd = -1;
    }
    return -1;
}

static Status fail_by_death(SharedGroup *shared, int dead, Error *err) {
    assert(dead >= 0 && dead < (int)shared->group->size && dead != (int)shared->group->rank);
    const GroupMember *member = &shared->members[dead], *self = &shared->members[shared->group->rank];
    const int pid = member->pid_namespace == self->pid_namespace ? member->pid : 0;
    fail(&shared->group->error, STATUS_PEER_DIED, "rank %d (%s) of a group of %u ended without group_finish", dead,
         group_process_text(pid).text, shared->group->size);
    shared->group->failed_rank = dead;
    return group_shared_fail(shared, STATUS_PEER_DIED, err);
}

Status group_shared_look(SharedGroup *shared, Error *err) {
    TRY(group_shared_check(shared, err));
    uint64_t now = clock_nanoseconds();
    if (now - shared->looked_nanoseconds < GROUP_LOOK_NANOSECONDS) return STATUS_OK;
    shared->looked_nanoseconds = now;
    int dead = find_dead(shared);
    return dead < 0 ? STATUS_OK : fail_by_death(shared, dead, err);
}

// Polls while every rank has a core of its own, then sleeps in slices and checks for deaths after each. A dead rank may
// have completed the awaited call just before: `ready` is checked once more before its death counts.
Status group_shared_wait(SharedGroup *shared, const GroupWaiting *waiting, Error *err) {
    uint64_t deadline = 0;
    for (uint32_t polls = 0;;) {
        const bool spins = polls < shared->spins;
        const uint64_t now = spins ? 0 : clock_nanoseconds(); // read first: arrivals until then are in time
        if (shared->group->pending > 0) TRY(group_mailbox_advance(shared->group, err));
        if (waiting->ready(shared, waiting->context)) return STATUS_OK;
        if (spins) {
            polls++;
            pause_core();
            continue;
        }
        if (deadline == 0) deadline = now + shared->group->timeout_nanoseconds;
        Status status = group_shared_look(shared, err);
        if (status == STATUS_PEER_DIED && waiting->ready(shared, waiting->context)) return STATUS_OK;
        TRY(status);
        if (now >= deadline) return group_shared_fail(shared, waiting->late(shared, waiting->context), err);
        uint64_t left = deadline - now;
        TRY(sleep_at_bell(shared, waiting, left < GROUP_LOOK_NANOSECONDS ? left : GROUP_LOOK_NANOSECONDS, err));
    }
}
