// Lesson 13. A lock that spins.
//
// One word of shared memory is a lock: 0 free, 1 taken. A rank that swaps 1 in and gets 0 back has it. One that gets 1
// back looks until it sees a 0, and tries again: looking leaves the cache line where it is, swapping would pull it over
// each time (lesson 9).
//
// The counter behind the lock is ordinary memory. That is what the lock is for: acquire when it is taken and release
// when it is given back order all that is done in between (lesson 7).
//
// Question: the kernel takes the processor from the rank that has the lock. What do the others do meanwhile? And if
// that rank is killed (the first Change)?
// Build: cc -O2 -o lesson 13_spin_lock.c
// Run: ./lesson
// Prints:
//   counted 4000000 of 4000000
//   most turns of one rank in a row: <number>
// Change: "DEADLY_COUNT = -1" -> "DEADLY_COUNT = 1000": hangs
// Change: "take(&shared->lock);" -> "": lacks counted 4000000 of 4000000
// Read: nothing in Sounder spins on a lock. shm/barrier.c spins, a bounded time: what does it do afterwards?
// PyTorch: a threading.Lock sleeps; see the next lesson.
#include <stdatomic.h>
#include <stdio.h>

#include "ranks.h"

enum { RANKS = 4, COUNTS = 1000000, DEADLY_COUNT = -1 }; // -1: no rank is killed

typedef struct Shared {
    _Atomic int lock;
    int counter; // ordinary memory
    int last_rank, in_a_row, most_in_a_row;
} Shared;

static void take(_Atomic int *lock) {
    while (atomic_exchange_explicit(lock, 1, memory_order_acquire) != 0)
        while (atomic_load_explicit(lock, memory_order_relaxed) != 0)
            ;
}

static void give_back(_Atomic int *lock) {
    atomic_store_explicit(lock, 0, memory_order_release);
}

static void work(int rank, int size, void *memory) {
    Shared *shared = memory;
    (void)size;
    for (int i = 0; i < COUNTS; i++) {
        take(&shared->lock);
        int counter = shared->counter;
        if (i % 10000 == rank) usleep(1); // meanwhile the others come, and find the lock taken
        shared->counter = counter + 1;
        shared->in_a_row = shared->last_rank == rank ? shared->in_a_row + 1 : 1;
        shared->last_rank = rank;
        if (shared->in_a_row > shared->most_in_a_row) shared->most_in_a_row = shared->in_a_row;
        if (counter == DEADLY_COUNT) raise(SIGKILL); // it still has the lock
        give_back(&shared->lock);
    }
}

int main(void) {
    Shared *shared = share(sizeof *shared);
    pid_t pids[RANKS];
    start_ranks(pids, RANKS, work, shared);
    for (int rank = 0; rank < RANKS; rank++)
        waitpid(pids[rank], NULL, 0);
    printf("counted %d of %d\n", shared->counter, RANKS * COUNTS);
    printf("most turns of one rank in a row: %d\n", shared->most_in_a_row);
    return 0;
}
