// Part of group.h: its functions check their arguments and hand the call to the group's transport.
#include "shm/group/group.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shm/group/group_combine.h"
#include "shm/group/group_transport.h"

enum { DEFAULT_TIMEOUT_SECONDS = 1800, MAX_TIMEOUT_SECONDS = 1000000000 };

static uint64_t nanoseconds(double seconds) {
    if (!(seconds > 0)) seconds = DEFAULT_TIMEOUT_SECONDS;
    if (seconds > MAX_TIMEOUT_SECONDS) seconds = MAX_TIMEOUT_SECONDS;
    return (uint64_t)(seconds * 1e9);
}

Status group_fail(Group *group, Status status, Error *err) {
    assert(status != STATUS_OK && *group->error.message); // the sentence is complete
    group->failure = status;
    return fail(err, status, "%s", group->error.message);
}

// Sentences -----------------------------------------------------------------------------------------------------------

Status group_call_late(Group *group, const GroupCall *call, const bool *missing) {
    char names[GROUP_RANKS_TEXT_BYTES], text[GROUP_CALL_TEXT_BYTES];
    return fail(&group->error, STATUS_TIMEOUT,
                "rank %u waited %.1f s in %s (call %lu of a group of %u): %s did not come", group->rank,
                (double)group->timeout_nanoseconds * 1e-9, group_call_text(text, call), call->sequence, group->size,
                group_ranks_text(names, missing, group->size));
}

Status group_message_late(Group *group, const GroupRequest *request) {
    char peer[32] = "no rank";
    if (request->peer != GROUP_ANY) snprintf(peer, sizeof peer, "rank %d", request->peer);
    return fail(&group->error, STATUS_TIMEOUT, "rank %u waited %.1f s in %s of %zu %s: %s did not %s it", group->rank,
                (double)group->timeout_nanoseconds * 1e-9, request->is_send ? "send" : "recv", request->count,
                group_type_name(request->type), peer, request->is_send ? "receive" : "send");
}

Status group_message_mismatch(Group *group, const GroupRequest *request, uint64_t sent_count, uint32_t sent_type) {
    return fail(
        &group->error, STATUS_MISMATCH,
        "the ranks' calls do not fit together: rank %d's message %lu to rank %u is send of %lu %s, but rank %u called "
        "recv of %zu %s",
        request->peer, request->number, group->rank, sent_count, group_type_name((GroupType)sent_type), group->rank,
        request->count, group_type_name(request->type));
}

// Life ----------------------------------------------------------------------------------------------------------------

Status group_init(Group **group, const GroupConfig *config, Error *err) {
    *group = NULL;
    GroupPlace place;
    TRY(group_place_find(&place, config, err));
    Group *made = calloc(1, sizeof *made);
    if (!made) return fail(err, STATUS_OS, "out of memory for a process group");
    made->timeout_nanoseconds = nanoseconds(config->timeout_seconds);
    made->failed_rank = -1;
    Status status;
    if (!place.is_mpi)
        status = group_shared_open(made, &place, config->memory, err);
    else if (group_mpi_open)
        status = group_mpi_open(made, &place, err);
    else
        status = fail(err, STATUS_UNAVAILABLE,
                      "mpi://: this program was built without MPI; install it (Debian: libopenmpi-dev), configure with "
                      "-D SOUNDER_MPI=ON, and link sounder_group_mpi");
    if (status == STATUS_OK)
        *group = made;
    else
        free(made);
    return status;
}

uint32_t group_rank(const Group *group) {
    return group->rank;
}

uint32_t group_size(const Group *group) {
    return group->size;
}

uint32_t group_local_rank(const Group *group) {
    return group->local_rank;
}

int group_failed_rank(const Group *group) {
    return group->failed_rank;
}

void group_set_timeout(Group *group, double seconds) {
    group->timeout_nanoseconds = nanoseconds(seconds);
}

// Arguments -----------------------------------------------------------------------------------------------------------

static Status check_failed(const Group *group, Error *err) {
    return group->failure == STATUS_OK ? STATUS_OK : fail(err, group->failure, "%s", group->error.message);
}

static Status check_rank(const Group *group, const char *role, uint32_t rank, Error *err) {
    if (rank < group->size) return STATUS_OK;
    return fail(err, STATUS_USAGE, "%s %u: the group has ranks 0 to %u", role, rank, group->size - 1);
}

static Status check_elements(const Group *group, size_t count, GroupType type, Error *err) {
    if ((unsigned)type > GROUP_U8) return fail(err, STATUS_USAGE, "type %d is none of f32, f64, i32, i64 and u8", type);
    if (count > SIZE_MAX / 2 / group->size / group_type_bytes(type))
        return fail(err, STATUS_USAGE, "%zu elements of %s do not fit the address space", count, group_type_name(type));
    return STATUS_OK;
}

static Status check_op(GroupType type, GroupOp op, Error *err) {
    if ((unsigned)op > GROUP_BXOR) return fail(err, STATUS_USAGE, "combination %d is none that a group knows", op);
    if (!group_op_is_defined(type, op))
        return fail(err, STATUS_USAGE, "%s of %s is not defined: bitwise operations are for integers",
                    group_op_name(op), group_type_name(type));
    return STATUS_OK;
}

// Collectives ---------------------------------------------------------------------------------------------------------

// Checks the arguments and makes group->call this rank's next call.
static Status collective(Group *group, GroupOperation operation, void *out, const void *in, size_t count,
                         GroupType type, GroupOp op, uint32_t root, Error *err) {
    TRY(check_failed(group, err));
    TRY(check_elements(group, count, type, err));
    TRY(check_op(type, op, err));
    TRY(check_rank(group, "root", root, err));
    group->call = (GroupCall){.sequence = ++group->sequence,
                              .count = count,
                              .root = root,
                              .operation = (uint8_t)operation,
                              .type = (uint8_t)type,
                              .op = (uint8_t)op};
    assert(group_operations[operation].root != ROOT_NONE || root == 0);
    assert(group_operations[operation].combines || op == GROUP_SUM);
    return group->transport->collective(group, &group->call, out, in, err);
}

Status group_broadcast(Group *group, void *data, size_t count, GroupType type, uint32_t root, Error *err) {
    return collective(group, OPERATION_BROADCAST, data, data, count, type, GROUP_SUM, root, err);
}

Status group_reduce(Group *group, void *out, const void *in, size_t count, GroupType type, GroupOp op, uint32_t root,
                    Error *err) {
    return collective(group, OPERATION_REDUCE, out, in, count, type, op, root, err);
}

Status group_all_reduce(Group *group, void *out, const void *in, size_t count, GroupType type, GroupOp op, Error *err) {
    return collective(group, OPERATION_ALL_REDUCE, out, in, count, type, op, 0, err);
}

Status group_gather(Group *group, void *out, const void *in, size_t count, GroupType type, uint32_t root, Error *err) {
    return collective(group, OPERATION_GATHER, out, in, count, type, GROUP_SUM, root, err);
}

Status group_all_gather(Group *group, void *out, const void *in, size_t count, GroupType type, Error *err) {
    return collective(group, OPERATION_ALL_GATHER, out, in, count, type, GROUP_SUM, 0, err);
}

Status group_scatter(Group *group, void *out, const void *in, size_t count, GroupType type, uint32_t root, Error *err) {
    return collective(group, OPERATION_SCATTER, out, in, count, type, GROUP_SUM, root, err);
}

Status group_reduce_scatter(Group *group, void *out, const void *in, size_t count, GroupType type, GroupOp op,
                            Error *err) {
    return collective(group, OPERATION_REDUCE_SCATTER, out, in, count, type, op, 0, err);
}

Status group_all_to_all(Group *group, void *out, const void *in, size_t count, GroupType type, Error *err) {
    return collective(group, OPERATION_ALL_TO_ALL, out, in, count, type, GROUP_SUM, 0, err);
}

Status group_barrier(Group *group, Error *err) {
    return collective(group, OPERATION_BARRIER, NULL, NULL, 0, GROUP_U8, GROUP_SUM, 0, err);
}

Status group_finish(Group *group, Error *err) {
    if (!group) return STATUS_OK;
    Status status = collective(group, OPERATION_FINISH, NULL, NULL, 0, GROUP_U8, GROUP_SUM, 0, err);
    group->transport->release(group, status != STATUS_OK);
    free(group);
    return status;
}

// Messages ------------------------------------------------------------------------------------------------------------

static Status start(Group *group, GroupRequest *request, void *data, size_t count, GroupType type, int peer,
                    bool is_send, Error *err) {
    TRY(check_failed(group, err));
    TRY(check_elements(group, count, type, err));
    if (peer != GROUP_ANY || is_send) TRY(check_rank(group, is_send ? "receiver" : "sender", (uint32_t)peer, err));
    if (peer == (int)group->rank)
        return fail(err, STATUS_USAGE, "rank %u cannot %s itself: name another rank", group->rank,
                    is_send ? "send a message to" : "receive a message from");
    *request = (GroupRequest){.data = data,
                              .count = count,
                              .bytes = count * group_type_bytes(type),
                              .type = type,
                              .peer = peer,
                              .is_send = is_send};
    return group->transport->start(group, request, err);
}

Status group_isend(Group *group, GroupRequest *request, const void *data, size_t count, GroupType type, uint32_t to,
                   Error *err) {
    // The data is only read: the request's pointer serves both directions.
    return start(group, request, (void *)(uintptr_t)data, count, type, (int)to, true, err);
}

Status group_irecv(Group *group, GroupRequest *request, void *data, size_t count, GroupType type, int from,
                   Error *err) {
    return start(group, request, data, count, type, from, false, err);
}

static void tell_source(const GroupRequest *request, uint32_t *source) {
    assert(!request->done || request->peer >= 0); // what has been received has a sender
    if (source && request->done && !request->is_send) *source = (uint32_t)request->peer;
}

Status group_wait(Group *group, GroupRequest *request, uint32_t *source, Error *err) {
    if (!request->done) {
        TRY(check_failed(group, err));
        TRY(group->transport->wait(group, request, err));
    }
    tell_source(request, source);
    return STATUS_OK;
}

Status group_test(Group *group, GroupRequest *request, bool *done, uint32_t *source, Error *err) {
    *done = false;
    if (!request->done) {
        TRY(check_failed(group, err));
        TRY(group->transport->test(group, request, err));
    }
    *done = request->done;
    tell_source(request, source);
    return STATUS_OK;
}

Status group_send(Group *group, const void *data, size_t count, GroupType type, uint32_t to, Error *err) {
    GroupRequest request;
    TRY(group_isend(group, &request, data, count, type, to, err));
    return group_wait(group, &request, NULL, err);
}

Status group_recv(Group *group, void *data, uint32_t *source, size_t count, GroupType type, int from, Error *err) {
    GroupRequest request;
    TRY(group_irecv(group, &request, data, count, type, from, err));
    return group_wait(group, &request, source, err);
}

// Sub-groups ----------------------------------------------------------------------------------------------------------

// The ranks exchange this before a group is divided.
typedef struct Share {
    int32_t colour, key;
    uint64_t list; // fingerprint of the list given to group_subset; 0 for group_split
} Share;

// FNV-1a of a list, never 0.
static uint64_t fingerprint(const uint32_t *ranks, uint32_t count) {
    uint64_t hash = 0xcbf29ce484222325u;
    for (uint32_t i = 0; i < count; i++)
        hash = (hash ^ ranks[i]) * 0x100000001b3u;
    return hash ? hash : 1;
}

// Every rank sees the same shares, hence all find the same two that do not fit.
static Status check_lists(Group *group, const Share *shares, Error *err) {
    for (uint32_t rank = 1; rank < group->size; rank++) {
        if (shares[rank].list == shares[0].list) continue;
        fail(&group->error, STATUS_MISMATCH,
             "the ranks' calls do not fit together: ranks 0 and %u gave different lists of a sub-group's members",
             rank);
        return group_fail(group, STATUS_MISMATCH, err);
    }
    return STATUS_OK;
}

// Lists the parent's ranks of this rank's colour in the order of the part: by key, then by rank. Returns their number.
static uint32_t list_members(uint32_t *members, const Share *shares, uint32_t size, uint32_t rank) {
    uint32_t count = 0;
    for (uint32_t other = 0; other < size; other++) {
        if (shares[other].colour != shares[rank].colour) continue;
        uint32_t place = count++;
        for (; place > 0 && shares[members[place - 1]].key > shares[other].key; place--)
            members[place] = members[place - 1];
        members[place] = other;
    }
    return count;
}

// The ranks exchange their shares, so that each of them computes the members of its part by itself.
static Status divide(Group **part, Group *group, const Share *own, Error *err) {
    *part = NULL;
    Share shares[GROUP_MAX_RANKS];
    TRY(collective(group, OPERATION_SPLIT, shares, own, sizeof *own, GROUP_U8, GROUP_SUM, 0, err));
    TRY(check_lists(group, shares, err));
    uint32_t members[GROUP_MAX_RANKS];
    uint32_t count = list_members(members, shares, group->size, group->rank);
    assert(count >= 1 && count <= group->size);
    Group *made = NULL;
    if (own->colour >= 0) {
        made = calloc(1, sizeof *made);
        if (!made) return fail(err, STATUS_OS, "out of memory for a process group");
        made->transport = group->transport;
        made->size = count;
        made->local_rank = group->local_rank;
        made->timeout_nanoseconds = group->timeout_nanoseconds;
        made->failed_rank = -1;
        while (members[made->rank] != group->rank)
            made->rank++;
    }
    assert(!made || made->rank < made->size);
    Status status = group->transport->split(made, group, members, err);
    if (status == STATUS_OK)
        *part = made;
    else
        free(made);
    return status;
}

Status group_split(Group **part, Group *group, int colour, int key, Error *err) {
    return divide(part, group, &(Share){.colour = colour, .key = key}, err);
}

Status group_subset(Group **part, Group *group, const uint32_t *ranks, uint32_t count, Error *err) {
    *part = NULL;
    Share own = {.colour = -1, .list = fingerprint(ranks, count)};
    bool listed[GROUP_MAX_RANKS] = {false};
    for (uint32_t i = 0; i < count; i++) {
        TRY(check_rank(group, "member", ranks[i], err));
        if (listed[ranks[i]])
            return fail(err, STATUS_USAGE, "rank %u is given twice in the list of a sub-group", ranks[i]);
        listed[ranks[i]] = true;
        if (ranks[i] == group->rank) own = (Share){.colour = 0, .key = (int32_t)i, .list = own.list};
    }
    return divide(part, group, &own, err);
}
