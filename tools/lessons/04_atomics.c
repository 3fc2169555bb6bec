// Lesson 4. Atomics: counting without loss, and handing something over.
//
// atomic_fetch_add loads, adds and stores as one step that nobody can come between: no count is lost. The second half
// is the pattern under every queue and mailbox: write the letter, then raise the flag. The store of the flag is a
// *release* (all that I wrote before is to be seen by who sees this) and its load an *acquire* (what I read after it is
// at least as new). With relaxed order on both, rank 1 might find the flag up and an old letter behind it.
//
// PyTorch: the locks inside mp.Queue and inside gloo's buffers are made of these.
//
// Run: build/lessons/04_atomics
// Prints:
//   rank 1 read: the sum of 1 to 100 is 5050
//   0 of 4000000 counts are lost
#include <stdatomic.h>
#include <stdio.h>

#include "lesson.h"
#include "shm/segment.h"

enum { RANKS = 4, COUNTS = 1000000 };

typedef struct Shared {
    _Atomic int counter;
    int first, last, sum;     // the letter: ordinary memory
    _Atomic int is_delivered; // the flag
} Shared;

static void work(int rank, int size, void *memory) {
    Shared *shared = memory;
    (void)size;
    for (int i = 0; i < COUNTS; i++)
        atomic_fetch_add_explicit(&shared->counter, 1, memory_order_relaxed);
    if (rank == 0) {
        shared->first = 1;
        shared->last = 100;
        for (int i = shared->first; i <= shared->last; i++)
            shared->sum += i;
        atomic_store_explicit(&shared->is_delivered, 1, memory_order_release); // pairs with the acquire below
    }
    if (rank == 1) {
        while (!atomic_load_explicit(&shared->is_delivered, memory_order_acquire)) // pairs with the release above
            usleep(100);
        printf("rank 1 read: the sum of %d to %d is %d\n", shared->first, shared->last, shared->sum);
    }
}

int main(void) {
    Error err;
    Segment segment;
    must(segment_create(&segment, "letter", sizeof(Shared), &err), &err);
    Shared *shared = segment.memory;

    pid_t pids[RANKS];
    start_ranks(pids, RANKS, work, shared);
    join_ranks(pids, RANKS);
    printf("%d of %d counts are lost\n", RANKS * COUNTS - atomic_load(&shared->counter), RANKS * COUNTS);
    segment_free(&segment);
    return 0;
}
