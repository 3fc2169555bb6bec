// Lesson 17. A ring: messages from one rank to one other.
//
// A ring has room for a few messages. The sender counts those that it has written, the receiver those that it has read;
// each counter has one writer, so no step needs an exchange. Written minus read is the number of messages in the ring:
// 0, and the receiver waits; as many as there are places, and the sender waits.
//
//   written 11, read 9     place  [ 8 | 9 | 10 | 3 | 4 | 5 | 6 | 7 ]      9 and 10 are on their way
//
// The letter and the flag of lesson 7 are here a message and `written`; in the other direction, room and `read`. The
// counters are never reset: after 255 comes 0, and the next place must be the next one then, too.
//
// Question: what is wrong with a counter that both sides change, such as `full`, the number of messages in the ring? And
// which numbers of places are right? (The second Change.)
// Build: cc -O2 -o lesson 17_ring.c
// Run: ./lesson
// Prints:
//   20000 of 20000 messages of 8 bytes in order, <number> a second
//   2000 of 2000 messages of 65536 bytes in order, <number> a second
// Change: "memory_order_acquire)) == PLACES" -> "memory_order_acquire)) == 2 * PLACES":
//   lacks 20000 of 20000 messages
// Change: "PLACES = 8" -> "PLACES = 7": lacks 20000 of 20000 messages
// Read: shm/group/group_mailbox.c has such a ring for each pair of ranks. How does a message travel that is larger than
// the ring, and how does a rank wait (lesson 10)?
// PyTorch: gloo's shared memory and pipes; a multiprocessing.Queue is a pipe with a lock on either end.
#define _GNU_SOURCE 1
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "ranks.h"

enum { PLACES = 8, MOST_BYTES = 65536 };

typedef struct Ring {
    _Alignas(64) _Atomic uint8_t written; // of the sender, who alone writes it
    _Alignas(64) _Atomic uint8_t read;    // of the receiver
    _Alignas(64) char places[PLACES][MOST_BYTES];
} Ring;

static void send_message(Ring *ring, const void *message, size_t bytes) {
    const uint8_t written = atomic_load_explicit(&ring->written, memory_order_relaxed);
    while ((uint8_t)(written - atomic_load_explicit(&ring->read, memory_order_acquire)) == PLACES)
        sched_yield();
    memcpy(ring->places[written % PLACES], message, bytes);
    atomic_store_explicit(&ring->written, (uint8_t)(written + 1), memory_order_release);
}

static void receive_message(Ring *ring, void *message, size_t bytes) {
    const uint8_t read = atomic_load_explicit(&ring->read, memory_order_relaxed);
    while (atomic_load_explicit(&ring->written, memory_order_acquire) == read)
        sched_yield();
    memcpy(message, ring->places[read % PLACES], bytes);
    atomic_store_explicit(&ring->read, (uint8_t)(read + 1), memory_order_release);
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static void pass(Ring *ring, unsigned count, size_t bytes) {
    static char message[MOST_BYTES];
    const pid_t sender = fork_rank();
    if (sender == 0) {
        for (unsigned i = 0; i < count; i++) {
            memcpy(message, &i, sizeof i);
            send_message(ring, message, bytes);
        }
        _exit(0);
    }
    const double begin = now();
    unsigned in_order = 0;
    for (unsigned i = 0, number; i < count; i++) {
        receive_message(ring, message, bytes);
        memcpy(&number, message, sizeof number);
        in_order += number == i;
    }
    printf("%u of %u messages of %zu bytes in order, %.0f a second\n", in_order, count, bytes, count / (now() - begin));
    waitpid(sender, NULL, 0);
}

int main(void) {
    Ring *ring = share(sizeof *ring);
    pass(ring, 20000, 8);
    pass(ring, 2000, MOST_BYTES);
    return 0;
}
