// Process groups: ranks that talk, as torch.distributed has them, on shared memory, on one GPU, or across machines.
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
// Who is in it. `size` processes with the ranks 0 to size - 1, started by anybody (sounder launch, torchrun, mpirun,
// srun, a shell). A group is used by one thread at a time; different groups of a process may be used by different
// threads at the same time.
//
// What the calls promise.
//   - Collectives are called by all ranks of the group in the same order, and each returns when this rank may use its
//     buffers again. All of them wait until every rank has come.
//   - all_reduce, reduce and reduce_scatter combine in the order of the ranks, 0 first, whatever the size and the
//     transport: the same bits on every rank and in every run.
//   - Messages between two ranks are received in the order they were sent. A short message is buffered, so that send
//     may return before it is received; a long one is handed over piece by piece.
//   - Buffers are the caller's. An output may be the input where that is said, and must not overlap it otherwise.
//     Counts are elements, not bytes, and may be 0. Shapes stand at the parameters, (size, count) row by row.
//
// What goes wrong, and what is then returned, on every rank of the group:
//   MISMATCH   two ranks made calls that do not fit together (sequence, operation, type, combination, root, count): at
//              once, whoever else is still to come; the sentence names both ranks and both calls
//   PEER_DIED  a rank ended without group_finish, however: within 100 ms in every call that waits; the sentence and
//              group_failed_rank name it
//   TIMEOUT    a call has waited longer than the timeout; the sentence names the ranks that did not come
// A group that has failed stays failed: all its later calls return the same at once, and what is left is
// group_finish. Its sub-groups live on if their own members do. USAGE (an argument that can be seen to be wrong: a
// rank out of range, a send to oneself, a bitwise operation on floats) is this rank's alone: nothing was sent, the
// group is as before.
// Under MPI, mpirun ends all ranks when one dies, before any of them could return; and a TIMEOUT, or a message that its
// receiver refuses, is that rank's alone: the others meet their own deadlines.
//
// Source of names and semantics: torch.distributed, and the MPI standard for what that leaves open.
#ifndef SOUNDER_SHM_GROUP_GROUP_H
#define SOUNDER_SHM_GROUP_GROUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

typedef enum GroupType { GROUP_F32, GROUP_F64, GROUP_I32, GROUP_I64, GROUP_U8 } GroupType;

// Integers are added and multiplied modulo 2^bits. AVG is the exact mean of integers, rounded towards zero, and the sum
// divided by size for floats. MIN and MAX keep the earlier rank's value unless the later one is less (greater).
// BAND, BOR and BXOR are for integers alone.
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

// Where the buffers given to the calls are: in this process's memory, or all of them on the current CUDA device, which
// is the same for all ranks. There the calls work in the default stream and have finished when they return; what other
// streams do to the buffers must have finished before. A program gets it by linking the code for GPUs
// (sounder_device). Rank 0's process holds device memory for all; after a failure, until it ends.
typedef enum GroupMemory { GROUP_HOST, GROUP_CUDA } GroupMemory;

enum {
    GROUP_ANY = -1,       // receive from whoever sends
    GROUP_MAX_RANKS = 250 // one message hands over that many descriptors
};

typedef struct GroupConfig {
    const char *init; // where the ranks meet; NULL: "env://"
    //   "env://"           RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT as sounder launch and torchrun set them; where
    //                      they are missing, what mpirun or srun set (the job itself is then the meeting place)
    //   "tcp://host:port"  all ranks name the same address, which is one of this machine's
    //   "file:///path"     rank 0 creates the file for the time of the meeting; one that is there already is an error
    //   "mpi://"           rank and size from mpirun or srun, messages by MPI, also across machines
    // Ranks that meet by env, tcp or file share memory, so they are on one machine; by env those of two launchers
    // (--nnodes 2) count as on two, wherever they run. A process that another launch or job has started is refused.
    // They may be in containers of their own that share the network (env, tcp) or the file's folder (file).
    int rank, size;         // -1: from the environment (env) or MPI; tcp and file need both
    double timeout_seconds; // for the meeting and for every later wait; 0: 1800
    GroupMemory memory;     // GROUP_CUDA: not with mpi; UNAVAILABLE when this program was built without it
} GroupConfig;

typedef struct Group Group;

// Blocks until all ranks have joined. TIMEOUT names who is missing; USAGE: a rank out of range, an address that is not
// of this machine, a variable that is not set; on all ranks: two processes with the same rank, or with different sizes
// or memories (MISMATCH), one that ends while the others are still meeting (PEER_DIED); MISMATCH, in the refused
// process alone: it belongs to another launch or job than rank 0 (SOUNDER_LAUNCH_ID); DATA: a stale file.
// UNAVAILABLE: mpi:// in a program built without MPI. On success *group is the caller's until group_finish; on failure
// it is NULL and nothing is left behind. Nothing is left behind later either, whoever dies when: neither processes nor
// shared memory nor sockets (only rank 0 killed during a meeting by file leaves the file).
Status group_init(Group **group, const GroupConfig *config, Error *err);

// All ranks, once, for every group and sub-group: waits for the others (sub-groups first), then frees the group in any
// case, after a failure without waiting. Returns what barrier would. NULL is allowed and does nothing. Pending requests
// must have been waited for; what the peers have not received by then is lost.
Status group_finish(Group *group, Error *err);

uint32_t group_rank(const Group *group);
uint32_t group_size(const Group *group);
uint32_t group_local_rank(const Group *group); // LOCAL_RANK of the launcher, else counted on this machine

// For all later waits of this rank on this group. Sub-groups inherit it when they are made.
void group_set_timeout(Group *group, double seconds);

// The rank whose death made the group fail with PEER_DIED, else -1.
int group_failed_rank(const Group *group);

// Messages ------------------------------------------------------------------------------------------------------------

// The receiver must expect this type and count, otherwise MISMATCH on both.
Status group_send(Group *group, const void *data, size_t count, GroupType type, uint32_t to, Error *err);

// from: a rank or GROUP_ANY. *source (may be NULL) becomes the sender.
Status group_recv(Group *group, void *data, uint32_t *source, size_t count, GroupType type, int from, Error *err);

// A message on its way. The caller's memory, which must stay where it is, like the data, until wait or test says that
// it is done. Its fields are the transport's.
typedef struct GroupRequest {
    struct GroupRequest *next;
    void *data; // of an isend: only read
    size_t bytes, moved_bytes;
    uint64_t number; // among the messages of this pair of ranks
    size_t count;
    GroupType type;
    int peer; // the other rank; GROUP_ANY until one has sent
    bool is_send, started, done;
    void *transport[2]; // MPI: its requests
    uint64_t header[8]; // MPI: what it sends first
} GroupRequest;

// Begin to send and to receive. Messages advance in whatever call this rank makes on the group, not in between.
Status group_isend(Group *group, GroupRequest *request, const void *data, size_t count, GroupType type, uint32_t to,
                   Error *err);
Status group_irecv(Group *group, GroupRequest *request, void *data, size_t count, GroupType type, int from, Error *err);

// Waits until the request is done (sent: the data may be changed; received: it is there). *source (may be NULL) becomes
// the sender of what was received.
Status group_wait(Group *group, GroupRequest *request, uint32_t *source, Error *err);

// The same without waiting: *done says whether it is. A request that is done needs no wait.
Status group_test(Group *group, GroupRequest *request, bool *done, uint32_t *source, Error *err);

// Collectives ---------------------------------------------------------------------------------------------------------

// data (count): root's, copied to all.
Status group_broadcast(Group *group, void *data, size_t count, GroupType type, uint32_t root, Error *err);

// out (count) at root, unused elsewhere (NULL will do); in (count). out == in is allowed.
Status group_reduce(Group *group, void *out, const void *in, size_t count, GroupType type, GroupOp op, uint32_t root,
                    Error *err);

// out (count), in (count). out == in is allowed.
Status group_all_reduce(Group *group, void *out, const void *in, size_t count, GroupType type, GroupOp op, Error *err);

// out (size, count) at root, unused elsewhere; in (count).
Status group_gather(Group *group, void *out, const void *in, size_t count, GroupType type, uint32_t root, Error *err);

// out (size, count), in (count).
Status group_all_gather(Group *group, void *out, const void *in, size_t count, GroupType type, Error *err);

// out (count); in (size, count) at root, unused elsewhere.
Status group_scatter(Group *group, void *out, const void *in, size_t count, GroupType type, uint32_t root, Error *err);

// out (count): row `rank` of the combined inputs; in (size, count).
Status group_reduce_scatter(Group *group, void *out, const void *in, size_t count, GroupType type, GroupOp op,
                            Error *err);

// out (size, count): row s is what rank s had in its row `rank`; in (size, count).
Status group_all_to_all(Group *group, void *out, const void *in, size_t count, GroupType type, Error *err);

Status group_barrier(Group *group, Error *err);

// Sub-groups ----------------------------------------------------------------------------------------------------------

// A collective of all ranks of `group`: those with the same colour (>= 0) become a group, ranked by key, then by their
// rank here. *part is the caller's until group_finish; NULL for a negative colour. As MPI_Comm_split.
Status group_split(Group **part, Group *group, int colour, int key, Error *err);

// The same for one list of ranks (count), which all ranks of `group` give alike: its members become ranks 0 to count -
// 1 in the order of the list, the others get NULL. As torch.distributed.new_group.
Status group_subset(Group **part, Group *group, const uint32_t *ranks, uint32_t count, Error *err);

// A type's bytes, and the names that sentences use: "f32", "sum".
size_t group_type_bytes(GroupType type);
const char *group_type_name(GroupType type);
const char *group_op_name(GroupOp op);

#endif
