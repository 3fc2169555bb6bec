// Part of group_shared.h: messages between two ranks that share memory: each ordered pair has a ring of bytes. A
// message is an envelope of 32 bytes and its data, padded to a multiple of 32, so that an envelope never wraps and a
// short message needs one cache line besides the counter. A long message flows through the ring while its receiver
// empties it.
#include <assert.h>
#include <string.h>

#include "shm/group/group_shared.h"

typedef struct Envelope {
    uint64_t number; // counts the messages of this pair of ranks from 1
    uint64_t count;
    uint32_t type;
    uint32_t unused[3];
} Envelope;

_Static_assert(sizeof(Envelope) == 32, "envelopes must not wrap in a ring, whose size is a power of two");

// One pair's ring as seen by one of the two ranks.
typedef struct Channel {
    GroupRing *counters;
    unsigned char *bytes;   // (capacity), envelopes
    unsigned char *payload; // (capacity), the data between them; the same memory unless buffers are on a device
    uint64_t capacity;
} Channel;

static Channel channel_of(const SharedGroup *shared, uint32_t from, uint32_t to) {
    assert(from < shared->group->size && to < shared->group->size);
    size_t pair = (size_t)from * shared->group->size + to;
    uint64_t capacity = shared->header->ring_bytes;
    assert(capacity % sizeof(Envelope) == 0 && (capacity & (capacity - 1)) == 0);
    return (Channel){.counters = &shared->rings[pair],
                     .bytes = shared->ring_bytes + pair * capacity,
                     .payload = shared->payload_bytes + pair * capacity,
                     .capacity = capacity};
}

static uint64_t round_up(uint64_t position) {
    return (position + sizeof(Envelope) - 1) & ~(uint64_t)(sizeof(Envelope) - 1);
}

static size_t smaller(uint64_t a, uint64_t b) {
    return (size_t)(a < b ? a : b);
}

// Moves as much of the message as belongs into the ring's next `most` bytes, between its buffer and the ring. *position
// advances, at the message's end past its padding. A rank that cannot move its data makes the whole group fail, because
// the other rank waits for it.
static Status transfer(SharedGroup *shared, const Channel *channel, GroupRequest *request, uint64_t *position,
                       uint64_t most, Error *err) {
    Error *why = &shared->group->error;
    assert(!request->done && request->started && request->moved_bytes <= request->bytes);
    assert(most <= channel->capacity);
    const size_t bytes = smaller(request->bytes - request->moved_bytes, most);
    Status status = STATUS_OK;
    for (size_t left = bytes; left > 0 && status == STATUS_OK;) { // twice where the message wraps at the ring's end
        const size_t offset = (size_t)(*position & (channel->capacity - 1));
        const size_t part = smaller(left, channel->capacity - offset);
        assert(part > 0 && request->moved_bytes + part <= request->bytes);
        unsigned char *ring = channel->payload + offset,
                      *buffer = (unsigned char *)request->data + request->moved_bytes;
        status = request->is_send ? shared->mover.publish(ring, buffer, part, why)
                                  : shared->mover.copy(buffer, ring, part, why);
        request->moved_bytes += part;
        *position += part;
        left -= part;
    }
    if (bytes > 0 && status == STATUS_OK) status = shared->mover.settle(why);
    if (status != STATUS_OK) return group_shared_fail(shared, status, err);
    request->done = request->moved_bytes == request->bytes;
    if (request->done) *position = round_up(*position);
    return STATUS_OK;
}

// Sending -------------------------------------------------------------------------------------------------------------

// Writes as much of the message as the ring has room for.
static Status push(SharedGroup *shared, GroupRequest *request, Error *err) {
    Channel channel = channel_of(shared, shared->group->rank, (uint32_t)request->peer);
    uint64_t written = atomic_load_explicit(&channel.counters->written, memory_order_relaxed); // its own to write
    // Acquire, pairs with the store in pull: the receiver has read the bytes that will be overwritten.
    uint64_t taken = atomic_load_explicit(&channel.counters->taken, memory_order_acquire);
    // Padding counts as written although no byte of it is, so `held` may exceed the capacity.
    uint64_t held = written - taken, room = held < channel.capacity ? channel.capacity - held : 0, position = written;
    assert(taken <= written && held < channel.capacity + sizeof(Envelope)); // no more than the padding beyond it
    assert(request->is_send && (request->started || position % sizeof(Envelope) == 0));
    if (!request->started) {
        if (room < sizeof(Envelope)) return STATUS_OK;
        const Envelope envelope = {.number = request->number, .count = request->count, .type = (uint32_t)request->type};
        memcpy(channel.bytes + (position & (channel.capacity - 1)), &envelope, sizeof envelope);
        request->started = true;
        position += sizeof(Envelope);
        room -= sizeof(Envelope);
    }
    TRY(transfer(shared, &channel, request, &position, room, err));
    if (position == written) return STATUS_OK;
    // Release, pairs with the load in pull: envelope and data are complete.
    atomic_store_explicit(&channel.counters->written, position, memory_order_release);
    shared->moved++;
    bell_ring(&shared->members[(uint32_t)request->peer].bell);
    return STATUS_OK;
}

static Status advance_sends(SharedGroup *shared, GroupPeer *peer, Error *err) {
    while (peer->first_send) {
        GroupRequest *request = peer->first_send;
        TRY(push(shared, request, err));
        if (!request->done) return STATUS_OK;
        assert(shared->group->pending > 0);
        peer->first_send = request->next;
        shared->group->pending--;
    }
    return STATUS_OK;
}

// Receiving -----------------------------------------------------------------------------------------------------------

// Removes from the list and returns the earliest request that accepts a message of this rank; NULL: none.
static GroupRequest *claim(SharedGroup *shared, uint32_t from) {
    for (GroupRequest **link = &shared->receives; *link; link = &(*link)->next) {
        GroupRequest *request = *link;
        if (request->peer != GROUP_ANY && request->peer != (int)from) continue;
        assert(!request->is_send && !request->started && !request->done);
        *link = request->next;
        request->peer = (int)from;
        return request;
    }
    return NULL;
}

// Reads the part of a message that has arrived. *position is the place at which this rank continues to read.
static Status take(SharedGroup *shared, const Channel *channel, GroupRequest *request, uint64_t *position,
                   uint64_t written, Error *err) {
    if (!request->started) {
        Envelope envelope;
        memcpy(&envelope, channel->bytes + (*position & (channel->capacity - 1)), sizeof envelope);
        assert(*position % sizeof envelope == 0 && envelope.number > 0);
        request->number = envelope.number;
        if (envelope.count != request->count || envelope.type != request->type)
            return group_shared_fail(
                shared, group_message_mismatch(shared->group, request, envelope.count, envelope.type), err);
        request->started = true;
        *position += sizeof envelope;
    }
    return transfer(shared, channel, request, position, written - *position, err);
}

// Reads all that has arrived of one rank's messages.
static Status pull(SharedGroup *shared, uint32_t from, Error *err) {
    GroupPeer *peer = &shared->peers[from];
    Channel channel = channel_of(shared, from, shared->group->rank);
    uint64_t taken = atomic_load_explicit(&channel.counters->taken, memory_order_relaxed); // only this rank writes it
    // Acquire, pairs with the store in push.
    uint64_t written = atomic_load_explicit(&channel.counters->written, memory_order_acquire);
    uint64_t position = taken;
    assert(written >= taken && (peer->receiving || taken == written || taken % sizeof(Envelope) == 0));
    while (position != written) {
        if (!peer->receiving) peer->receiving = claim(shared, from);
        if (!peer->receiving) break;
        TRY(take(shared, &channel, peer->receiving, &position, written, err));
        if (!peer->receiving->done) break;
        assert(shared->group->pending > 0);
        peer->receiving = NULL;
        shared->group->pending--;
    }
    if (position == taken) return STATUS_OK;
    // Release, pairs with the load in push: the sender may overwrite the bytes that were read.
    atomic_store_explicit(&channel.counters->taken, position, memory_order_release);
    shared->moved++;
    bell_ring(&shared->members[from].bell);
    return STATUS_OK;
}

// Table ---------------------------------------------------------------------------------------------------------------

Status group_mailbox_advance(Group *group, Error *err) {
    SharedGroup *shared = group->state;
    for (uint32_t rank = 0; rank < group->size; rank++) {
        GroupPeer *peer = &shared->peers[rank];
        if (peer->first_send) TRY(advance_sends(shared, peer, err));
        if (peer->receiving || shared->receives) TRY(pull(shared, rank, err));
    }
    return STATUS_OK;
}

Status group_mailbox_start(Group *group, GroupRequest *request, Error *err) {
    assert(!request->next && !request->done && request->moved_bytes == 0);
    SharedGroup *shared = group->state;
    TRY(group_shared_check(shared, err));
    group->pending++;
    if (request->is_send) {
        GroupPeer *peer = &shared->peers[request->peer];
        request->number = ++peer->sent;
        if (peer->first_send)
            peer->last_send->next = request;
        else
            peer->first_send = request;
        peer->last_send = request;
        return advance_sends(shared, peer, err);
    }
    GroupRequest **link = &shared->receives;
    while (*link)
        link = &(*link)->next;
    *link = request;
    return STATUS_OK;
}

static bool is_done(SharedGroup *shared, void *context) {
    (void)shared;
    return ((const GroupRequest *)context)->done;
}

static Status message_is_late(const SharedGroup *shared, const void *context) {
    return group_message_late(shared->group, context);
}

Status group_mailbox_wait(Group *group, GroupRequest *request, Error *err) {
    return group_shared_wait(group->state, &(GroupWaiting){is_done, message_is_late, request}, err);
}

// Also checks whether the other ranks live, for callers that only test and never wait.
Status group_mailbox_test(Group *group, GroupRequest *request, Error *err) {
    TRY(group_mailbox_advance(group, err));
    return request->done ? STATUS_OK : group_shared_look(group->state, err);
}
