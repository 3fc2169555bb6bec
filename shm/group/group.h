// Process groups: ranks that exchange data, as in torch.distributed, through shared memory, on one GPU or across
// machines.
//
//   Group *group;                                          // env://: rank and size from the environment of a launcher
//   TRY(group_init(&group, &(GroupConfig){.rank = -1, .size = -1}, err));
//                                                          // in C++ a variable: {"env://", -1, -1, 60, GROUP_HOST}
//   float mean[1000];                                      // (1000), this rank's own
//   TRY_GOTO(done, group_all_reduce(group, mean, mean, 1000, GROUP_F32, GROUP_AVG, err));
//   if (group_rank(group) == 0)
//       TRY_GOTO(done, group_send(group, mean, 10, GROUP_F32, 1, err));
//   done: finished = group_finish(group, err);             // all ranks; frees it, also after a failure
//
// Members. A group has `size` processes with the ranks 0 to size - 1, started by any launcher (sounder launch,
// torchrun, mpirun, srun, a shell). A group is used by one thread at a time; different groups of a process may be used
// by different threads at the same time.
//
// Guarantees.
//   - All ranks of the group call the collectives in the same order. A collective waits until all ranks have called it,
//     and returns when this rank may use its buffers again.
//   - all_reduce, reduce and reduce_scatter combine in the order of the ranks, 0 first, for every size and transport:
//     the same bits on every rank and in every run.
//   - Messages between two ranks are received in the order they were sent. A short message is buffered, so that send
//     may return before it is received; a long one is transferred piece by piece.
//   - The output is the argument before the input, as in memcpy, and unlike MPI.
//   - Buffers belong to the caller. An output may be the input where a comment says so, and must not overlap it
//     otherwise. Counts are elements, not bytes, and may be 0. Comments state shapes, (size, count) row by row.
//
// Failures, as every rank of the group gets them:
//   MISMATCH   two ranks made calls that do not fit together (sequence, operation, type, combination, root, count);
//              returned at once, even if other ranks have not called; the sentence names both ranks and both calls
//   PEER_DIED  a rank ended without group_finish, for any reason; within 100 ms in every call that waits; the sentence
//              and group_failed_rank name the rank
//   TIMEOUT    a call has waited longer than the timeout; the sentence names the missing ranks
// A group that has failed stays failed: all its later calls return the same failure at once, and only group_finish
// remains. Its sub-groups still work if their own members live. USAGE (an argument that is wrong in itself: a rank out
// of range, a send to oneself, a bitwise operation on floats) concerns this rank only: nothing was sent, and the group
// is as before. Under MPI, mpirun ends all ranks when one dies, before any of them could return; and a TIMEOUT, or a
// message that its receiver refuses, concerns only that rank: the others wait until their own deadlines.
//
// Source of names and semantics: torch.distributed, and the MPI standard for details that it leaves open.
#ifndef SOUNDER_SHM_GROUP_GROUP_H
#define SOUNDER_SHM_GROUP_GROUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

typedef enum GroupType { GROUP_F32, GROUP_F64, GROUP_I32, GROUP_I64, GROUP_U8 } GroupType;

// Integers are added and multiplied modulo 2^bits. AVG is the exact mean of integers, rounded towards zero, and the sum
// divided by size for floats. MIN and MAX keep the earlier rank's value unless the later one is less (greater). BAND,
// BOR and BXOR are only for integers.
typedef enum GroupOp {
    GROUP_SUM,
    GROUP_PRODUCT,
    GROUP_MIN,
    GROUP_MAX,
    GROUP_AVG,
    GROUP_BAND,
    GROUP_BOR,
    GROUP_BXOR
} GroupOp;

// Location of the buffers given to the calls: in this process's memory, or all on the current CUDA device, which is the
// same for all ranks. On a device the calls work in the default stream and have finished when they return; other
// streams must have finished with the buffers before. A program needs to link the code for GPUs (sounder_device). Rank
// 0's process owns device memory for all ranks; after a failure it keeps the memory until it ends.
typedef enum GroupMemory { GROUP_HOST, GROUP_CUDA } GroupMemory;

enum {
    GROUP_ANY = -1,       // receive from any sender
    GROUP_MAX_RANKS = 250 // limited by the number of descriptors in one message
};

typedef struct GroupConfig {
    const char *init; // meeting place of the ranks; NULL: "env://"
    //   "env://"           RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT as sounder launch and torchrun set them; if they
    //                      are missing, the variables of mpirun or srun (the job itself is then the meeting place)
    //   "tcp://host:port"  all ranks name the same address, which belongs to this machine
    //   "file:///path"     rank 0 creates the file for the duration of the meeting; an existing file is an error
    //   "mpi://"           rank and size from mpirun or srun; messages by MPI, also across machines
    // Ranks that meet by env, tcp or file share memory, so they run on one machine; by env, ranks of two launchers
    // (--nnodes 2) count as on two machines, wherever they run. A process of another launch or job is refused. The
    // ranks may run in several containers that share the network (env, tcp) or the file's folder (file).
    int rank, size;         // -1: from the environment (env) or MPI; tcp and file need both
    double timeout_seconds; // for the meeting and for every later wait; 0: 1800
    GroupMemory memory;     // GROUP_CUDA: not with mpi; UNAVAILABLE if this program was built without it
} GroupConfig;

typedef struct Group Group;

// Blocks until all ranks have joined. Failures: TIMEOUT names the missing ranks. USAGE: a rank out of range, an address
// that is not of this machine, a variable that is not set. On all ranks: MISMATCH for two processes with the same rank,
// or with different sizes or memories, PEER_DIED for a process that ends during the meeting. MISMATCH in the refused
// process alone: it belongs to another launch or job than rank 0 (SOUNDER_LAUNCH_ID). DATA: a stale file. UNAVAILABLE:
// mpi:// in a program built without MPI. On success the caller owns *group until group_finish; on failure it is NULL.
// Neither a failure nor the death of a rank at any time leaves processes, shared memory or sockets behind (only if rank
// 0 is killed during a meeting by file does the file remain).
Status group_init(Group **group, const GroupConfig *config, Error *err);

// Called by all ranks once for every group and sub-group, sub-groups first: waits for the others, then frees the group
// in any case; after a failure it does not wait. Returns what group_barrier would. NULL is allowed and does nothing.
// Pending requests must have been waited for; messages that the receiver has not received by then are lost.
Status group_finish(Group *group, Error *err);

uint32_t group_rank(const Group *group);
uint32_t group_size(const Group *group);
uint32_t group_local_rank(const Group *group); // LOCAL_RANK of the launcher, or counted on this machine

// Sets the timeout of all later waits of this rank on this group. Sub-groups inherit it when they are created.
void group_set_timeout(Group *group, double seconds);

// The rank whose death made the group fail with PEER_DIED, or -1.
int group_failed_rank(const Group *group);

// Messages ------------------------------------------------------------------------------------------------------------

// Sends a message. The receiver must expect this type and count, otherwise both get MISMATCH.
Status group_send(Group *group, const void *data, size_t count, GroupType type, uint32_t to, Error *err);

// Receives a message. from: a rank or GROUP_ANY. *source (may be NULL) is set to the sender.
Status group_recv(Group *group, void *data, uint32_t *source, size_t count, GroupType type, int from, Error *err);

// A message in transfer. The caller owns the memory, which must stay valid and in place, like the data, until wait or
// test reports that the request is done. The fields belong to the transport.
typedef struct GroupRequest {
    struct GroupRequest *next;
    void *data; // of an isend: read only
    size_t bytes, moved_bytes;
    uint64_t number; // of the message, counted per pair of ranks
    size_t count;
    GroupType type;
    int peer; // the other rank; GROUP_ANY until a rank has sent
    bool is_send, started, done;
    void *transport[2]; // MPI: its requests
    uint64_t header[8]; // MPI: its header, which is sent first
} GroupRequest;

// Begin to send or receive. Messages advance during any call of this rank on the group, not between calls.
Status group_isend(Group *group, GroupRequest *request, const void *data, size_t count, GroupType type, uint32_t to,
                   Error *err);
Status group_irecv(Group *group, GroupRequest *request, void *data, size_t count, GroupType type, int from, Error *err);

// Waits until the request is done: the sent data may be changed, or the received data is complete. *source (may be
// NULL) is set to the sender of a received message.
Status group_wait(Group *group, GroupRequest *request, uint32_t *source, Error *err);

// Advances messages without waiting; *done says whether the request is done. A request that is done needs no wait.
Status group_test(Group *group, GroupRequest *request, bool *done, uint32_t *source, Error *err);

// GCC then warns of an input that has no value yet, as after an output and an input in the wrong order.
#if defined(__GNUC__) && !defined(__clang__) && __GNUC__ >= 11
#define GROUP_READS_ITS_INPUT __attribute__((access(read_only, 3)))
#else
#define GROUP_READS_ITS_INPUT
#endif

// Collectives ---------------------------------------------------------------------------------------------------------

// data (count): copied from root to all ranks.
Status group_broadcast(Group *group, void *data, size_t count, GroupType type, uint32_t root, Error *err);

// out (count) at root, unused at other ranks (may be NULL there); in (count). out == in is allowed.
Status group_reduce(Group *group, void *out, const void *in, size_t count, GroupType type, GroupOp op, uint32_t root,
                    Error *err) GROUP_READS_ITS_INPUT;

// out (count), in (count). out == in is allowed.
Status group_all_reduce(Group *group, void *out, const void *in, size_t count, GroupType type, GroupOp op,
                        Error *err) GROUP_READS_ITS_INPUT;

// out (size, count) at root, unused at other ranks; in (count).
Status group_gather(Group *group, void *out, const void *in, size_t count, GroupType type, uint32_t root,
                    Error *err) GROUP_READS_ITS_INPUT;

// out (size, count), in (count).
Status group_all_gather(Group *group, void *out, const void *in, size_t count, GroupType type,
                        Error *err) GROUP_READS_ITS_INPUT;

// out (count); in (size, count) at root, unused at other ranks.
Status group_scatter(Group *group, void *out, const void *in, size_t count, GroupType type, uint32_t root, Error *err);

// out (count): row `rank` of the combined inputs; in (size, count).
Status group_reduce_scatter(Group *group, void *out, const void *in, size_t count, GroupType type, GroupOp op,
                            Error *err) GROUP_READS_ITS_INPUT;

// out (size, count): row s is row `rank` of rank s's input; in (size, count).
Status group_all_to_all(Group *group, void *out, const void *in, size_t count, GroupType type, Error *err);

Status group_barrier(Group *group, Error *err);

// Sub-groups ----------------------------------------------------------------------------------------------------------

// A collective of all ranks of `group`: ranks with the same colour (>= 0) form a new group, ordered by key, then by
// their rank in `group`. The caller owns *part until group_finish; NULL for a negative colour. As MPI_Comm_split.
Status group_split(Group **part, Group *group, int colour, int key, Error *err);

// A collective with a list of `count` ranks, which has to be the same on all ranks of `group`: its members become ranks
// 0 to count - 1 in the order of the list, the others get NULL. As torch.distributed.new_group.
Status group_subset(Group **part, Group *group, const uint32_t *ranks, uint32_t count, Error *err);

// A type's size in bytes, and the names used in sentences: "f32", "sum".
size_t group_type_bytes(GroupType type);
const char *group_type_name(GroupType type);
const char *group_op_name(GroupOp op);

#endif
