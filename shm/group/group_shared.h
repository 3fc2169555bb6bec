// The transport of ranks on one machine: a nameless segment that all of them map.
//
//   header | record | members (size) | rings (size, size) | ring bytes (size, size, ring_bytes) | slots (size, 2,
//   chunk)
//
// A member's lines are written by that rank alone, except its bell. Collectives: a rank copies what the others need
// into its slot, stores its arrival, waits for theirs, and reads their slots; two slots and two arrivals alternate by
// step, which is enough because no rank arrives at a step before all have arrived at the one before. Messages: a
// byte ring for each ordered pair of ranks, written by the sender and emptied by the receiver.
//
// Every wait polls for a while if each rank has a core of its own, then sleeps at its own bell (a futex). A rank that
// changes something that others wait for rings those that sleep. A sleeper wakes by itself every 20 ms and looks at the
// others' process descriptors, so that neither a death nor a ring that a death has swallowed is missed for longer.
#ifndef SOUNDER_SHM_GROUP_GROUP_SHARED_H
#define SOUNDER_SHM_GROUP_GROUP_SHARED_H

#include <poll.h>
#include <stdatomic.h>

#include "shm/cuda_share.h"
#include "shm/group/group_transport.h"
#include "shm/segment.h"
#include <stddef.h>

typedef struct GroupArrival {
    _Alignas(64) _Atomic uint64_t step; // 1: the first; stored (release) after the call and the slot are written
    GroupCall call;
} GroupArrival;

typedef struct GroupMember {
    GroupArrival arrivals[2];             // of odd and even steps
    _Alignas(64) _Atomic uint32_t asleep; // 1: ring the bell
    _Atomic uint32_t bell;                // counts rings; the futex word
    int32_t pid;
    uint64_t pid_namespace;          // in which it has that number; 0: not known
    _Alignas(64) uint64_t cores[16]; // the affinity mask (1024 cores), set before the first arrival
} GroupMember;

// Why the group has failed: written once, by the first rank that finds out.
typedef struct GroupRecord {
    _Alignas(64) _Atomic uint32_t state; // RECORD_*
    int32_t status, rank;
    Error error;
} GroupRecord;

enum { RECORD_EMPTY, RECORD_TAKEN, RECORD_COMPLETE };

typedef struct GroupRing {
    _Alignas(64) _Atomic uint64_t written; // bytes ever, by the sender
    _Alignas(64) _Atomic uint64_t taken;   // bytes ever, by the receiver
} GroupRing;

typedef struct GroupHeader {
    uint32_t size, memory;
    uint64_t ring_bytes;    // a power of two
    uint64_t chunk_bytes;   // of one slot, a multiple of 64
    CudaShareHandle device; // of GROUP_CUDA: the slots and the rings' data that are used instead of those here
} GroupHeader;

// How bytes move between a rank's buffers, the slots and the rings: they are all in host memory or all on one device.
typedef struct GroupMover {
    Status (*publish)(void *to, const void *from, size_t bytes, Error *err); // into a slot or a ring
    Status (*copy)(void *to, const void *from, size_t bytes, Error *err);    // out of one, or within
    Status (*combine)(void *out, const void *const *inputs, uint32_t ranks, size_t count, GroupType type, GroupOp op,
                      Error *err);
    Status (*settle)(Error *err); // what was moved has arrived: the others may be told
} GroupMover;

// This rank's requests with one other rank.
typedef struct GroupPeer {
    GroupRequest *first_send, *last_send; // in the order they were made
    GroupRequest *receiving;              // the message that has begun to come in; NULL: none
    uint64_t sent;                        // messages begun
} GroupPeer;

typedef struct SharedGroup {
    Group *group; // whose state this is
    Segment segment;
    GroupHeader *header;
    GroupRecord *record;
    GroupMember *members;         // (size)
    GroupRing *rings;             // (size, size): [from][to]
    unsigned char *ring_bytes;    // (size, size, ring_bytes): envelopes, and between them the data ...
    unsigned char *payload_bytes; // ... unless that is on a device, at the same places; otherwise ring_bytes
    unsigned char *slots;         // (size, 2, chunk_bytes)
    unsigned char *device_slots;  // the same on a device; otherwise slots
    CudaShare device;             // owned; zeros without one
    GroupMover mover, host_mover; // of the buffers; of what the group itself exchanges
    uint32_t spins;               // polls before sleeping
    uint64_t step;                // of this rank's last arrival
    GroupPeer *peers;             // owned (size)
    GroupRequest *receives;       // not begun, in the order they were made
    int *pidfds;                  // owned (size)
    int *sockets;                // owned (size), of the meeting; -1: none. Rank 0: to each rank; others: [0], to rank 0
    struct pollfd *polls;        // owned (size); fd -1 where there is nothing to look for
    uint64_t moved;              // steps that messages have made, to see whether there were any
    uint64_t looked_nanoseconds; // when the process descriptors were looked at last
} SharedGroup;

// A wait: until ready returns true. late writes the sentence of a wait that has lasted too long.
typedef struct GroupWaiting {
    bool (*ready)(SharedGroup *shared, void *context);
    void (*late)(const SharedGroup *shared, const void *context, Error *sentence);
    void *context;
} GroupWaiting;

// group_wait.c
Status group_shared_wait(SharedGroup *shared, const GroupWaiting *waiting, Error *err);

// The group's failure, if another rank has found one.
Status group_shared_check(SharedGroup *shared, Error *err);

// Looks for deaths and for a failure that others have found, at most every 20 ms; never waits.
Status group_shared_look(SharedGroup *shared, Error *err);

// Makes the whole group fail, unless it has already, and returns the failure that was first.
Status group_shared_fail(SharedGroup *shared, Status status, int rank, const Error *reason, Error *err);

// Wakes a rank if it sleeps; after the store that it may be waiting for.
void group_shared_ring(SharedGroup *shared, uint32_t rank);

// In a split, each rank sends the others this about the part that it is to join.
typedef struct GroupOffer {
    int32_t leader, place,
        size;           // rank of the part's first member in the whole group, own rank and size; leader -1: none
    int32_t has_memory; // of a leader: it could make the part's segment
} GroupOffer;

// group_handover.c
// All ranks of `shared`, after they have exchanged their offers (size): the leader of each part hands its segment to
// the other members, and they get part->sockets. part: this rank's, NULL for none. *memory_fd becomes the segment, the
// caller's, of a member that is no leader; else -1. A failure is one of the whole group.
Status group_shared_hand_over(int *memory_fd, SharedGroup *shared, SharedGroup *part, const GroupOffer *offers,
                              Error *err);

// group_slots.c
Status group_shared_collective(Group *group, const GroupCall *call, void *out, const void *in, Error *err);

// group_mailbox.c
Status group_mailbox_start(Group *group, GroupRequest *request, Error *err);
Status group_mailbox_wait(Group *group, GroupRequest *request, Error *err);
Status group_mailbox_test(Group *group, GroupRequest *request, Error *err);
Status group_mailbox_advance(Group *group, Error *err);

// Copies what another core is going to read.
//
// An ordinary store first has to win the cache line back from the core that read it last. How dear that is depends on
// where the two cores are, which the scheduler may change at any time, and on whether that core's cache still has the
// line. Between cores that share no cache it costs some 35 ns a line, ten times as much as everything else about the
// copy (EPYC: 1.9 GB/s); streaming past the caches does 25 GB/s, and what was streamed is read as fast. Cores that
// share a cache exchange long copies through it twice as fast as through memory, short ones more slowly.

// Little is copied as memcpy does it, more is streamed, and of very much the first pages decide: they are stored, and
// if that was quick, so is the rest. All of it is visible to a core that sees a later store of this core with release.
void group_stream(void *to, const void *from, size_t bytes);

// Groups whose buffers are on one GPU: the slots and the rings' data are in device memory that the first rank has
// allocated and the others have opened by CUDA IPC; arrivals, envelopes and failures stay in the segment. So any number
// of ranks share a GPU. Everything runs in the default stream of the device that is current, and has finished when a
// call returns.

// Weak: a program that does not link the code for GPUs has none of them, and its groups say so. detach frees the
// memory that was attached, importers before they arrive to finish, the first rank after it: CUDA wants it freed last.

// Rank 0 (slot_bytes, ring_bytes: what the group needs) allocates and leaves the handle in the header; the others open
// it. Then the group moves its data on the GPU.
__attribute__((weak)) Status group_cuda_create(SharedGroup *shared, size_t slot_bytes, size_t ring_bytes, Error *err);
__attribute__((weak)) Status group_cuda_open(SharedGroup *shared, size_t slot_bytes, Error *err);
__attribute__((weak)) void group_cuda_detach(SharedGroup *shared);

#endif
