// Who stands at the door of rank 0: connected, but yet to say who he is.
//
// The name of a meeting place is open to every user of the machine, so a stranger is turned away as soon as he is
// accepted, and whoever is let in and stays silent loses his place once others may wait behind him. While no place is
// free the listener is not polled (guests_have_room): it would stay readable, and the poll would never sleep.
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

// Accepts who stands at the listener, as far as there is room. Processes of other users are turned away.
void guests_let_in(Guests *guests, int listener);

// Once no place is free, sends away who has been silent for GUEST_SILENCE_SECONDS. Returns when the next one's patience
// ends; UINT64_MAX: there is none.
uint64_t guests_drop_silent(Guests *guests);

// Whether the process at the other end of a Unix socket is of this user.
bool socket_is_of_same_user(int socket);

#endif
