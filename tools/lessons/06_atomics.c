// Lesson 6. Atomics: counting without loss.
//
// atomic_fetch_add loads, adds and stores as one step that no other rank can come between. What has no such instruction
// is made of compare and exchange: load a value, compute the new one, and store it if the old one is still there; if
// not, try again with what is there now.
//
// Question: how do you keep the largest number that any rank has seen, with compare and exchange? (The second Change.)
// Build: cc -O2 -o lesson 06_atomics.c
// Run: ./lesson
// Prints:
//   fetch_add: 4000000 of 4000000
//   compare and exchange: 4000000 of 4000000, tried again <number> times
// Change: "value + 1)" -> "value + 2)": prints compare and exchange: 8000000 of 4000000, tried again <number> times
// Change: "value + 1)" -> "value > i ? value : i)":
//   prints compare and exchange: 999999 of 4000000, tried again <number> times
// Read: fedavg/memory/queue.h: workers take jobs from one queue. Which of the two does it use, and what is the new
// value made of?
// PyTorch: the counters inside its queues and gloo's buffers are made of these.
#include <stdatomic.h>
#include <stdio.h>

#include "ranks.h"

enum { RANKS = 4, COUNTS = 1000000 };

typedef struct Shared {
    _Atomic int added, exchanged, again;
} Shared;

static void work(int rank, int size, void *memory) {
    Shared *shared = memory;
    (void)rank;
    (void)size;
    for (int i = 0; i < COUNTS; i++)
        atomic_fetch_add_explicit(&shared->added, 1, memory_order_relaxed);
    for (int i = 0; i < COUNTS; i++) {
        int value = atomic_load_explicit(&shared->exchanged, memory_order_relaxed);
        // A failure puts the value that is there now into `value`.
        while (!atomic_compare_exchange_strong(&shared->exchanged, &value, value + 1))
            atomic_fetch_add_explicit(&shared->again, 1, memory_order_relaxed);
    }
}

int main(void) {
    Shared *shared = share(sizeof *shared);
    pid_t pids[RANKS];
    start_ranks(pids, RANKS, work, shared);
    join_ranks(pids, RANKS);
    printf("fetch_add: %d of %d\n", atomic_load(&shared->added), RANKS * COUNTS);
    printf("compare and exchange: %d of %d, tried again %d times\n", atomic_load(&shared->exchanged), RANKS * COUNTS,
           atomic_load(&shared->again));
    return 0;
}
