// Guests of rank 0: connections that have not introduced themselves yet.
//
// Every user of the machine can connect to the name of a meeting place. So a process of another user is disconnected as
// soon as it is accepted, and an accepted process that stays silent loses its place when others may be waiting for one.
// While no place is free the listener is not polled (guests_have_room): it would stay readable, and the poll would
// never sleep.
#ifndef SOUNDER_SHM_GROUP_RENDEZVOUS_GUESTS_H
#define SOUNDER_SHM_GROUP_RENDEZVOUS_GUESTS_H

#include <stdbool.h>
#include <stdint.h>

enum { GUESTS_MOST = 64, GUEST_SILENCE_SECONDS = 3 };

typedef struct Guests {
    int sockets[GUESTS_MOST]; // owned; -1: a free place
    uint64_t came_nanoseconds[GUESTS_MOST];
} Guests;

void guests_init(Guests *guests);
void guests_free(Guests *guests);

bool guests_have_room(const Guests *guests);

// Accepts connections as long as there is room. Processes of other users are disconnected.
void guests_let_in(Guests *guests, int listener);

// If no place is free, disconnects guests that have been silent for GUEST_SILENCE_SECONDS. Returns the time at which
// the next guest's limit ends, or UINT64_MAX if places are free.
uint64_t guests_drop_silent(Guests *guests);

#endif
