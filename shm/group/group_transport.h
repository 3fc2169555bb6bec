// A transport carries a group's calls: it is one table of functions, chosen when the group is made. group.c has checked
// every argument before it calls; a transport moves and combines the data, and finds out what went wrong with the
// others.
#ifndef SOUNDER_SHM_GROUP_GROUP_TRANSPORT_H
#define SOUNDER_SHM_GROUP_GROUP_TRANSPORT_H

#include "shm/group/group.h"
#include "shm/group/group_call.h"

// How long a rank sleeps at most before it looks whether the others live; well below the promised 100 ms.
enum { GROUP_LOOK_NANOSECONDS = 20000000 };

typedef struct GroupTransport {
    // All ranks: carries out the call. out and in as the function of group.h has them.
    Status (*collective)(Group *group, const GroupCall *call, void *out, const void *in, Error *err);

    // All ranks, last of all: meets the others. It is followed by release, whether it succeeds or not.
    Status (*finish)(Group *group, const GroupCall *call, Error *err);

    // Queues a request whose next, data, bytes, count, type, peer and is_send are set; waits for nothing.
    Status (*start)(Group *group, GroupRequest *request, Error *err);

    // Moves messages on: until the request is done, or only as far as it goes without waiting.
    Status (*wait)(Group *group, GroupRequest *request, Error *err);
    Status (*test)(Group *group, GroupRequest *request, Error *err);

    // All of the parent's ranks, right after a split: gives `part`, whose rank, size and timeout are set, a state of
    // its own. members[r] is the parent's rank of the part's rank r; part is NULL on ranks that are in no part.
    Status (*split)(Group *part, Group *parent, const uint32_t *members, Error *err);

    // Releases the state, without waiting. `failed`: others may be anywhere.
    void (*release)(Group *group, bool failed);
} GroupTransport;

struct Group {
    const GroupTransport *transport;
    void *state; // owned by the transport
    uint32_t rank, size, local_rank;
    uint64_t sequence; // of the last collective
    uint64_t timeout_nanoseconds;
    Status failure;   // what the group failed with; OK while it works
    Error error;      // and its sentence
    int failed_rank;  // whose death it was, else -1
    GroupCall call;   // what this rank is doing, for sentences
    uint32_t pending; // requests that are not done
};

// The length of a job's name. Two jobs may share a meeting place by accident, and their ranks must not join one group.
enum { GROUP_JOB_BYTES = 64 };

// Every rank knows these facts when it has met the others, before there is a transport.
typedef struct GroupPlace {
    bool is_mpi, is_file;
    int rank, size, local_rank; // -1: not known
    char name[256];             // of the meeting, as sentences name it
    char socket[108];           // a path for file, else a name in the abstract namespace
    char job[GROUP_JOB_BYTES];  // the launch or the job this process belongs to; "": not known
} GroupPlace;

// Makes the state of a whole group and fills in rank, size and local_rank. Nothing is left on failure.
Status group_shared_open(Group *group, const GroupPlace *place, GroupMemory memory, Error *err);
// Weak: a program that does not link sounder_group_mpi has none of it, and mpi:// says so.
__attribute__((weak)) Status group_mpi_open(Group *group, const GroupPlace *place, Error *err);

// Notes the failure, so that later calls return it, and returns it with its sentence in *err.
Status group_fail(Group *group, Status status, int rank, const Error *reason, Error *err);

// A rank finds the place of its group and its own number in the configuration and the environment that it was started
// with.

// env:// reads, the first that is there, as one set: RANK, WORLD_SIZE (LOCAL_RANK) of sounder launch and torchrun;
// those of Open MPI, MPICH and Slurm. The meeting place is MASTER_ADDR and MASTER_PORT, else the job that mpirun or
// srun started. Ranks on one machine meet by the port alone: a socket in the abstract namespace is named after it, so
// that nothing is in the way of a program that listens on the TCP port itself (torchrun does), nor stays behind.
// USAGE as group_init says.
Status group_place_find(GroupPlace *place, const GroupConfig *config, Error *err);

// Whether a host's name or address is one of this machine's: a socket can be bound to it. Returns getaddrinfo's error.
int group_place_is_here(bool *is_here, const char *host);

#endif
