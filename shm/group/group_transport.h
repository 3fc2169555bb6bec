// A transport carries out a group's calls: a table of functions, chosen when the group is created. group_front.c has
// checked every argument before it calls; a transport moves and combines the data, and detects failures of other ranks.
#ifndef SOUNDER_SHM_GROUP_GROUP_TRANSPORT_H
#define SOUNDER_SHM_GROUP_GROUP_TRANSPORT_H

#include "shm/group/group.h"
#include "shm/group/group_call.h"

// Longest sleep of a rank before it checks whether the others live; well below the promised 100 ms.
enum { GROUP_LOOK_NANOSECONDS = 20000000 };

typedef struct GroupTransport {
    // Called by all ranks: carries out the call. out and in: as in the function of group.h. OPERATION_FINISH is
    // followed by release, whether it succeeds or not.
    Status (*collective)(Group *group, const GroupCall *call, void *out, const void *in, Error *err);

    // Queues a request whose data, bytes, count, type, peer and is_send are set; does not wait.
    Status (*start)(Group *group, GroupRequest *request, Error *err);

    // Advance messages: wait until the request is done, test without waiting.
    Status (*wait)(Group *group, GroupRequest *request, Error *err);
    Status (*test)(Group *group, GroupRequest *request, Error *err);

    // Called by all of the parent's ranks, right after the exchange of a split: creates the state of `part`, whose
    // rank, size and timeout are set. members[r] is the parent's rank of the part's rank r. part is NULL on ranks that
    // are in no part.
    Status (*split)(Group *part, Group *parent, const uint32_t *members, Error *err);

    // Releases the state without waiting. failed: the other ranks may be at any call.
    void (*release)(Group *group, bool failed);
} GroupTransport;

struct Group {
    const GroupTransport *transport;
    void *state; // owned by the transport
    uint32_t rank, size, local_rank;
    uint64_t sequence; // of the last collective
    uint64_t timeout_nanoseconds;
    Status failure;   // the status that the group failed with; OK while it works
    Error error;      // the sentence of that failure, or of one that is about to be recorded
    int failed_rank;  // the rank that died, or -1
    GroupCall call;   // this rank's current call, for sentences
    uint32_t pending; // requests that are not done
};

// Length of a job's name. Two jobs may share a meeting place by accident, and their ranks must not join one group.
enum { GROUP_JOB_BYTES = 64 };

// Facts that every rank knows before it meets the others and before there is a transport.
typedef struct GroupPlace {
    bool is_mpi, is_file;
    int rank, size, local_rank; // -1: not known
    char name[256];             // of the meeting, as used in sentences
    char socket[108];           // a path for file, otherwise a name in the abstract namespace
    char job[GROUP_JOB_BYTES];  // the launch or job of this process; "": not known
} GroupPlace;

// Creates the state of a whole group and sets rank, size and local_rank. Nothing is left on failure.
Status group_shared_open(Group *group, const GroupPlace *place, GroupMemory memory, Error *err);
// Weak: a program that does not link sounder_group_mpi has no such function, and mpi:// says so.
__attribute__((weak)) Status group_mpi_open(Group *group, const GroupPlace *place, Error *err);

// Records a failure whose sentence is in group->error, so that later calls return it, and returns it, with the sentence
// in *err.
Status group_fail(Group *group, Status status, Error *err);

// Sentences that the transports share: each is written to group->error, and its status is returned.

// "rank 0 waited 60.0 s in barrier (call 7 of a group of 3): rank 2 did not come". missing: marks (size).
Status group_call_late(Group *group, const GroupCall *call, const bool *missing);

// "rank 0 waited 60.0 s in recv of 10 f32: rank 2 did not send it".
Status group_message_late(Group *group, const GroupRequest *request);

// The request's sender sent another count or type than this rank expects.
Status group_message_mismatch(Group *group, const GroupRequest *request, uint64_t sent_count, uint32_t sent_type);

// Finds the group's meeting place and this process's rank in the configuration and the environment.
//
// env:// reads the first set of variables that is complete: RANK, WORLD_SIZE (LOCAL_RANK) of sounder launch and
// torchrun; those of Open MPI, MPICH and Slurm. The meeting place is MASTER_ADDR and MASTER_PORT, or else the job that
// mpirun or srun started. Ranks on one machine meet by the port number alone: it names a socket in the abstract
// namespace, so that a program that listens on the TCP port itself (as torchrun does) is not disturbed and no file
// remains. Fails with USAGE as group_init says.
Status group_place_find(GroupPlace *place, const GroupConfig *config, Error *err);

// Says whether a host name or address belongs to this machine, that is, whether a socket can be bound to it. Returns
// getaddrinfo's error.
int group_place_is_here(bool *is_here, const char *host);

#endif
