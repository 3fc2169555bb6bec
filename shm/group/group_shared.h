// The transport of ranks on one machine: a segment without a name that all of them map.
//
//   header | record | members (size) | rings (size, size) | ring bytes (size, size, ring_bytes) | slots (size, 2,
//   chunk)
//
// Only the rank itself writes its member entry, except the bell. Collectives: a rank copies the data that the others
// need into its slot, stores its arrival, waits for theirs, and reads their slots; two slots and two arrivals alternate
// by step, which is enough because no rank arrives at a step before all have arrived at the previous one. Messages: one
// byte ring for each ordered pair of ranks, written by the sender and emptied by the receiver.
//
// Every wait polls for a while if each rank has a core of its own, then sleeps at its own bell (bell.h). A rank that
// changes something that others wait for rings the sleeping ones. A sleeper wakes by itself every 20 ms and checks the
// others' process descriptors, so that a death, or a ring that was lost because its rank died, is noticed within that
// time.
#ifndef SOUNDER_SHM_GROUP_GROUP_SHARED_H
#define SOUNDER_SHM_GROUP_GROUP_SHARED_H

#include <poll.h>
#include <stdatomic.h>
#include <stddef.h>

#include "base/owned.h"
#include "shm/bell.h"
#include "shm/cuda_share.h"
#include "shm/group/group_transport.h"
#include "shm/segment.h"

typedef struct GroupArrival {
    _Alignas(64) _Atomic uint64_t step; // from 1; stored (release) after the call and the slot are written
    GroupCall call;
} GroupArrival;

typedef struct GroupMember {
    GroupArrival arrivals[2]; // of odd and even steps
    Bell bell;                // rung by ranks that changed something this rank may wait for
    int32_t pid;
    uint64_t pid_namespace;          // in which it has that pid; 0: not known
    _Alignas(64) uint64_t cores[16]; // the affinity mask (1024 cores), set before the first arrival
} GroupMember;

// The group's failure: written once, by the first rank that finds it.
typedef struct GroupRecord {
    _Alignas(64) _Atomic uint32_t state; // RECORD_*
    int32_t status, rank;
    Error error;
} GroupRecord;

enum { RECORD_EMPTY, RECORD_TAKEN, RECORD_COMPLETE };

typedef struct GroupRing {
    _Alignas(64) _Atomic uint64_t written; // bytes so far, by the sender
    _Alignas(64) _Atomic uint64_t taken;   // bytes so far, by the receiver
} GroupRing;

typedef struct GroupHeader {
    uint32_t size, memory;
    uint64_t ring_bytes;    // a power of two
    uint64_t chunk_bytes;   // of one slot, a multiple of 64
    CudaShareHandle device; // of GROUP_CUDA: slots and ring data on the device, used instead of those in the segment
} GroupHeader;

// Moves bytes between a rank's buffers, the slots and the rings, which are all in host memory or all on one device.
typedef struct GroupMover {
    Status (*publish)(void *to, const void *from, size_t bytes, Error *err); // into a slot or a ring
    Status (*copy)(void *to, const void *from, size_t bytes, Error *err);    // out of one, or within a rank's buffers
    Status (*combine)(void *out, const void *const *inputs, uint32_t ranks, size_t count, GroupType type, GroupOp op,
                      Error *err);
    Status (*settle)(Error *err); // returns when moved bytes are visible to other ranks
} GroupMover;

// This rank's requests with one other rank.
typedef struct GroupPeer {
    GroupRequest *first_send, *last_send; // in the order they were started
    GroupRequest *receiving;              // the message that is being received; NULL: none
    uint64_t sent;                        // messages begun
} GroupPeer;

typedef struct SharedGroup {
    Group *group; // back pointer
    Segment segment;
    GroupHeader *header;
    GroupRecord *record;
    GroupMember *members;         // (size)
    GroupRing *rings;             // (size, size): [from][to]
    unsigned char *ring_bytes;    // (size, size, ring_bytes): envelopes, and the data between them ...
    unsigned char *payload_bytes; // ... unless the data is on a device, at the same offsets; otherwise ring_bytes
    unsigned char *slots;         // (size, 2, chunk_bytes)
    unsigned char *device_slots;  // the slots on a device; otherwise `slots`
    CudaShare device;             // owned; zeros without one
    GroupMover mover, host_mover; // for the caller's buffers; for what the group itself exchanges
    uint32_t spins;               // polls before sleeping
    uint64_t step;                // of this rank's last arrival
    Owned owned;                  // peers, pidfds, polls
    GroupPeer *peers;             // (size)
    GroupRequest *receives;       // not begun, in the order they were started
    int *pidfds;                  // (size); the sockets follow
    int *sockets;                 // (size), of the meeting; -1: none. Rank 0: to each rank; others: [0], to rank 0
    struct pollfd *polls;         // (size); fd -1: nothing to check
    uint64_t moved;               // steps that messages have made, to notice progress
    uint64_t looked_nanoseconds;  // time of the last check of the process descriptors
} SharedGroup;

// A wait until `ready` returns true. `late` writes the sentence for a wait that has timed out to group->error.
typedef struct GroupWaiting {
    bool (*ready)(SharedGroup *shared, void *context);
    Status (*late)(const SharedGroup *shared, const void *context);
    void *context;
} GroupWaiting;

// group_wait.c
Status group_shared_wait(SharedGroup *shared, const GroupWaiting *waiting, Error *err);

// Returns the group's failure if another rank has recorded one.
Status group_shared_check(SharedGroup *shared, Error *err);

// Checks for deaths and for failures that other ranks have recorded, at most every 20 ms; never waits.
Status group_shared_look(SharedGroup *shared, Error *err);

// Makes the whole group fail with the sentence in group->error, unless it has failed already, and returns the first
// failure.
Status group_shared_fail(SharedGroup *shared, Status status, Error *err);

// In a split, each rank sends this to all others about the part that it will join.
typedef struct GroupOffer {
    int32_t leader;      // rank of the part's first member in the whole group; -1: no part
    int32_t place, size; // own rank in the part, its size
    int32_t has_memory;  // of a leader: it has made the part's segment
} GroupOffer;

// group_handover.c
// Called by all ranks of `shared` after they have exchanged their offers (size): the leader of each part gives its
// segment to the other members, and all members get part->sockets. part: this rank's part, or NULL. *memory_fd is set
// to the segment's descriptor for a member that is not the leader (the caller owns it), otherwise to -1. A failure is
// one of the whole group.
Status group_shared_hand_over(int *memory_fd, SharedGroup *shared, SharedGroup *part, const GroupOffer *offers,
                              Error *err);

// group_slots.c
Status group_shared_collective(Group *group, const GroupCall *call, void *out, const void *in, Error *err);

// group_mailbox.c
Status group_mailbox_start(Group *group, GroupRequest *request, Error *err);
Status group_mailbox_wait(Group *group, GroupRequest *request, Error *err);
Status group_mailbox_test(Group *group, GroupRequest *request, Error *err);
Status group_mailbox_advance(Group *group, Error *err);

// Copies data that another core is going to read.
//
// An ordinary store first has to get the cache line back from the core that read it last. The cost depends on where the
// two cores are, which the scheduler may change at any time, and on whether that core's cache still has the line.
// Between cores that share no cache it is some 35 ns per line, ten times as much as the rest of the copy (EPYC: 1.9
// GB/s); streaming stores past the caches reach 25 GB/s, and streamed data is read as fast. Cores that share a cache
// exchange long copies through it twice as fast as through memory, short copies more slowly.
//
// Small copies are done by memcpy, larger ones are streamed, and for very large ones the first pages decide: they are
// stored, and if that was quick, the rest is stored, too. All of it is visible to a core that sees a later release
// store of this core.
void group_stream(void *to, const void *from, size_t bytes);

// Groups whose buffers are on one GPU: the slots and the rings' data are in device memory that rank 0 has allocated and
// the other ranks have opened by CUDA IPC; arrivals, envelopes and failures stay in the segment. Any number of ranks
// can so share a GPU. All work is done in the default stream of the current device and has finished when a call
// returns.

// Weak: a program that does not link the code for GPUs has none of these functions, and its groups say so. Rank 0
// allocates slot_bytes + ring_bytes and stores the handle in the header; the others open it. From then on the group
// moves its data on the GPU. detach frees the memory: importers call it before they arrive to finish, rank 0
// afterwards, because CUDA requires the exporter to free last.
__attribute__((weak)) Status group_cuda_create(SharedGroup *shared, size_t slot_bytes, size_t ring_bytes, Error *err);
__attribute__((weak)) Status group_cuda_open(SharedGroup *shared, size_t slot_bytes, Error *err);
__attribute__((weak)) void group_cuda_detach(SharedGroup *shared);

#endif
