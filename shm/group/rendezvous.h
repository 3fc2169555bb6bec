// The meeting of the ranks of a group on one machine, before they share memory.
//
//   TRY(rendezvous_join(&meeting, &place, memory, deadline, err));   // rank 0: all ranks have come
//   rank 0: make the memory, then
//           TRY_GOTO(done, rendezvous_share(&meeting, fd, deadline, err))   // or rendezvous_refuse(&meeting, ...)
//   others: TRY_GOTO(done, rendezvous_receive(&meeting, &fd, deadline, err))
//   done:   rendezvous_free(&meeting)          // whoever keeps the pidfds takes them out first
//
// Rank 0 listens at a Unix socket: a name in the abstract namespace, which ends with the process, or a path. Everyone
// else connects, says who he is and hands over a descriptor of his own process; from rank 0 he gets the shared memory
// and everybody's process descriptors. A process descriptor that its own process has opened cannot name a stranger who
// was given the same pid later. Only processes of the same user are let in.
//
// What goes wrong is told to all: rank 0 sends its sentence to everyone who has come, and everyone whose own patience
// ends first sends his to rank 0.
#ifndef SOUNDER_SHM_GROUP_RENDEZVOUS_H
#define SOUNDER_SHM_GROUP_RENDEZVOUS_H

#include "shm/group/group_transport.h"
#include "shm/group/rendezvous_guests.h"

typedef struct Rendezvous {
    uint32_t rank, size;
    GroupMemory memory;
    int pidfds[GROUP_MAX_RANKS];  // owned (size); -1: not known (yet)
    int pids[GROUP_MAX_RANKS];    // (size); known to rank 0 alone; 0: in another PID namespace
    int sockets[GROUP_MAX_RANKS]; // owned; -1: none. Rank 0: to each rank; others: [0], to rank 0
    Guests guests;                // rank 0: who has come, but not yet said who he is
    int listener;                 // owned; rank 0, while not all have come, else -1
    char path[108];               // of a meeting by file, removed with the listener; else ""
    char name[256];               // of the place
    bool is_file;                 // it is a file, else a port or a job
    char job[GROUP_JOB_BYTES];    // as GroupPlace
    uint64_t started_nanoseconds;
} Rendezvous;

// Deadlines are of clock_nanoseconds. Failures as group_init. Leaves nothing to free on failure.
Status rendezvous_join(Rendezvous *meeting, const GroupPlace *place, GroupMemory memory, uint64_t deadline, Error *err);

// Rank 0: hands everyone the memory and the process descriptors.
Status rendezvous_share(Rendezvous *meeting, int memory_fd, uint64_t deadline, Error *err);

// Rank 0: ends the meeting with this failure on every rank.
void rendezvous_refuse(Rendezvous *meeting, Status status, const Error *reason);

// The others: *memory_fd is the caller's, pidfds are filled in.
Status rendezvous_receive(Rendezvous *meeting, int *memory_fd, uint64_t deadline, Error *err);

void rendezvous_free(Rendezvous *meeting);

#endif
