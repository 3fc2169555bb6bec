#include "shm/group/rendezvous_guests.h"

#include <assert.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "shm/group/rendezvous_message.h"
#include "shm/group/rendezvous_socket.h"

enum { ACCEPTS_AT_ONCE = 512 }; // then rank 0 handles other events, even if more strangers connect

void guests_init(Guests *guests) {
    memset(guests->sockets, -1, sizeof guests->sockets);
}

void guests_free(Guests *guests) {
    for (int i = 0; i < GUESTS_MOST; i++)
        if (guests->sockets[i] >= 0) close(guests->sockets[i]);
    guests_init(guests);
}

static int free_place(const Guests *guests) {
    for (int i = 0; i < GUESTS_MOST; i++)
        if (guests->sockets[i] < 0) return i;
    return -1;
}

bool guests_have_room(const Guests *guests) {
    return free_place(guests) >= 0;
}

void guests_let_in(Guests *guests, int listener) {
    for (int accepts = 0; accepts < ACCEPTS_AT_ONCE; accepts++) {
        int place = free_place(guests);
        int guest = place < 0 ? -1 : accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (guest < 0) return;
        if (!socket_peer(guest).is_of_same_user) {
            close(guest);
            continue;
        }
        assert(place >= 0 && guests->sockets[place] < 0);
        guests->sockets[place] = guest;
        guests->came_nanoseconds[place] = clock_nanoseconds();
    }
}

static bool has_spoken(int socket) {
    return poll(&(struct pollfd){.fd = socket, .events = POLLIN}, 1, 0) == 1;
}

uint64_t guests_drop_silent(Guests *guests) {
    if (guests_have_room(guests)) return UINT64_MAX;
    const uint64_t patience = GUEST_SILENCE_SECONDS * UINT64_C(1000000000), now = clock_nanoseconds();
    uint64_t next = UINT64_MAX;
    for (int i = 0; i < GUESTS_MOST; i++) {
        if (guests->sockets[i] < 0) continue;
        const uint64_t end = guests->came_nanoseconds[i] + patience;
        if (now < end) {
            if (end < next) next = end;
            continue;
        }
        if (has_spoken(guests->sockets[i])) continue; // its message arrived while rank 0 was stopped
        notice_send(guests->sockets[i], NOTICE_REFUSED, STATUS_TIMEOUT,
                    "rank 0 was connected to, but not told within 3 s by whom; start all ranks again", NULL, 0);
        close(guests->sockets[i]);
        guests->sockets[i] = -1;
    }
    return next;
}
