// Lesson 3. Why ++ on shared memory loses counts.
//
// ++ is three steps: load, add, store. When two ranks load the same 7, both store 8, and one count is gone. How many
// are lost in a race is chance; in slow motion, where everybody loads before anybody stores, it is always all but one.
// The steps are written out here, with atomic loads and stores: a plain ++ by two ranks at once is undefined in C, and
// compilers use that (they may add a million in one step, and the lesson would be lost as well).
//
// PyTorch: what `shared_tensor += 1` does in several processes at once.
//
// A race needs two who run at once: the ranks race in rounds until one round has lost something.
//
// Run: build/lessons/03_lost_counts
// Prints:
//   race: <number> of <number> counts are lost
//   slow motion: 75 of 100 counts are lost
#include <stdatomic.h>
#include <stdio.h>

#include "lesson.h"
#include "shm/barrier.h"
#include "shm/segment.h"

enum { RANKS = 4, RACE_COUNTS = 100000, MOST_RACES = 2000, SLOW_COUNTS = 25 };

typedef struct Shared {
    Barrier barrier;                 // lesson 5
    _Atomic int race, slow, counted; // counted: in all races, had none been lost
} Shared;

static void work(int rank, int size, void *memory) {
    Shared *shared = memory;
    (void)size;
    for (int races = 1, lost = 0; lost == 0 && races <= MOST_RACES; races++) {
        barrier_wait(&shared->barrier, (uint32_t)rank, 0, 0); // all start together
        for (int i = 0; i < RACE_COUNTS; i++) {
            int value = atomic_load_explicit(&shared->race, memory_order_relaxed);
            atomic_store_explicit(&shared->race, value + 1, memory_order_relaxed);
        }
        barrier_wait(&shared->barrier, (uint32_t)rank, 0, 0); // all have finished, and see the same
        lost = RANKS * RACE_COUNTS * races - atomic_load(&shared->race);
        if (rank == 0) atomic_store(&shared->counted, RANKS * RACE_COUNTS * races);
    }
    for (int i = 0; i < SLOW_COUNTS; i++) {
        int value = atomic_load_explicit(&shared->slow, memory_order_relaxed);
        barrier_wait(&shared->barrier, (uint32_t)rank, 0, 0); // all have loaded the same value
        atomic_store_explicit(&shared->slow, value + 1, memory_order_relaxed);
        barrier_wait(&shared->barrier, (uint32_t)rank, 0, 0); // all have stored the same value
    }
}

int main(void) {
    Error err;
    Segment segment;
    must(segment_create(&segment, "counts", sizeof(Shared), &err), &err);
    Shared *shared = segment.memory;
    barrier_init(&shared->barrier, RANKS, 0);

    pid_t pids[RANKS];
    start_ranks(pids, RANKS, work, shared);
    join_ranks(pids, RANKS);

    const int counted = atomic_load(&shared->counted), lost = counted - atomic_load(&shared->race);
    printf("race: %d of %d counts are lost\n", lost, counted);
    const int slowly = RANKS * SLOW_COUNTS - atomic_load(&shared->slow);
    printf("slow motion: %d of %d counts are lost\n", slowly, RANKS * SLOW_COUNTS);
    segment_free(&segment);
    // The race may lose nothing: on a busy machine two ranks seldom run at once. Slow motion loses as many every time.
    return slowly == (RANKS - 1) * SLOW_COUNTS ? 0 : EX_SOFTWARE;
}
