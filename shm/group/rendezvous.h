// The meeting of the ranks of a group on one machine, before they share memory.
//
//   TRY(rendezvous_join(&meeting, &place, memory, deadline, err));   // rank 0: all ranks have come
//   rank 0: make the memory, then
//           TRY_GOTO(done, rendezvous_share(&meeting, fd, err))             // or rendezvous_refuse(&meeting, ...)
//   others: TRY_GOTO(done, rendezvous_receive(&meeting, &fd, err))
//   done:   rendezvous_free(&meeting)          // to keep pidfds and sockets, set them to -1 before
//
// Rank 0 listens at a Unix socket (rendezvous_socket.h).
// Every other rank connects, introduces itself and sends a descriptor of its own process; rank 0 sends it the shared
// memory and the process descriptors of all ranks. A process descriptor that the process itself has opened cannot refer
// to another process that got the same pid later. Only processes of the same user are accepted.
//
// All ranks learn of a failure: rank 0 sends its sentence to every rank that has connected, and a rank whose own
// deadline passes first sends its sentence to rank 0.
#ifndef SOUNDER_SHM_GROUP_RENDEZVOUS_H
#define SOUNDER_SHM_GROUP_RENDEZVOUS_H

#include "shm/group/group_transport.h"
#include "shm/group/rendezvous_guests.h"

typedef struct Rendezvous {
    uint32_t rank, size;
    GroupMemory memory;
    int pidfds[GROUP_MAX_RANKS];  // owned (size); -1: not known yet
    int pids[GROUP_MAX_RANKS];    // (size); only rank 0 knows them; 0: in another PID namespace
    int sockets[GROUP_MAX_RANKS]; // owned; -1: none. Rank 0: to each rank; other ranks: [0], to rank 0
    Guests guests;                // rank 0: connections that have not introduced themselves yet
    int listener;                 // owned; rank 0 until all ranks have come; otherwise -1
    const GroupPlace *place;      // borrowed; a place that is a file is removed with the listener
    uint64_t started_nanoseconds, deadline;
} Rendezvous;

// The deadline of the meeting is a time of clock_nanoseconds. Fails as group_init; nothing to free on failure.
Status rendezvous_join(Rendezvous *meeting, const GroupPlace *place, GroupMemory memory, uint64_t deadline, Error *err);

// Rank 0: sends the memory and the process descriptors to all other ranks.
Status rendezvous_share(Rendezvous *meeting, int memory_fd, Error *err);

// Rank 0: ends the meeting with this failure on every rank.
void rendezvous_refuse(Rendezvous *meeting, Status status, const Error *reason);

// Other ranks: the caller owns *memory_fd; sets pidfds.
Status rendezvous_receive(Rendezvous *meeting, int *memory_fd, Error *err);

void rendezvous_free(Rendezvous *meeting);

#endif
