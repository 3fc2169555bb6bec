// Lesson 5. Lost counts.
//
// ++ is three steps: load, add, store. When two ranks load the same 7, both store 8, and one count is lost.
//
//   rank 0   load 7               store 8
//   rank 1            load 7               store 8      two counts, and 8 instead of 9
//
// How many counts a race loses is chance: the two ranks race until one race has lost some. Then there is no chance: a
// text says which rank takes the next step (tools/lessons/steps.h), each rank counts twice, and each count is a load
// and a store. The steps are written out, as atomic loads and stores. A plain ++ in two processes at once is undefined
// in C, and compilers use that: they add a million in one step.
//
// Question: which order loses exactly one of the four counts? Try it: ./lesson "0 1 1 0 0 0 1 1"
// Can an order lose three?
// Build: cc -O2 -o lesson 05_lost_counts.c
// Run: ./lesson
// Prints:
//   race <number>: <number> of 200000 counts are lost
//   order 0 0 1 1 0 0 1 1: 0 of 4 counts are lost
//   order 0 1 0 1 0 1 0 1: 2 of 4 counts are lost
// Change: "0 1 0 1 0 1 0 1" -> "0 1 1 0 0 0 1 1": prints order 0 1 1 0 0 0 1 1: 1 of 4 counts are lost
// Change: "0 1 0 1 0 1 0 1" -> "0 1 1 1 1 0 0 0": prints order 0 1 1 1 1 0 0 0: 2 of 4 counts are lost
// Read: fedavg/worker/hogwild.c adds to weights just so, on purpose. What does "update=atomic" do there instead?
// PyTorch: what `shared_tensor += 1` does in several processes at once.
#include <stdatomic.h>
#include <stdio.h>

#include "ranks.h"
#include "steps.h"

enum { RANKS = 2, RACE_COUNTS = 100000, MOST_RACES = 5000, SLOW_COUNTS = 2 };

typedef struct Shared {
    Steps steps; // without a text in a race
    _Atomic int counter, ready;
} Shared;

static void count(Shared *shared, int rank, int counts) {
    for (int i = 0; i < counts; i++) {
        step(&shared->steps, rank, "load");
        int value = atomic_load_explicit(&shared->counter, memory_order_relaxed);
        step(&shared->steps, rank, "store");
        atomic_store_explicit(&shared->counter, value + 1, memory_order_relaxed);
    }
    steps_end(&shared->steps);
}

static void race(int rank, int size, void *memory) {
    Shared *shared = memory;
    atomic_fetch_add(&shared->ready, 1);
    while (atomic_load(&shared->ready) < size)
        ; // start together
    count(shared, rank, RACE_COUNTS);
}

static void take_turns(int rank, int size, void *memory) {
    (void)size;
    count(memory, rank, SLOW_COUNTS);
}

static int lost_counts(Shared *shared, const char *order) {
    pid_t pids[RANKS];
    atomic_store(&shared->counter, 0);
    atomic_store(&shared->ready, 0);
    steps_begin(&shared->steps, order);
    start_ranks(pids, RANKS, *order ? take_turns : race, shared);
    join_ranks(pids, RANKS);
    return RANKS * (*order ? SLOW_COUNTS : RACE_COUNTS) - atomic_load(&shared->counter);
}

// A turn of a rank that has ended would never end.
static int has_too_many_turns(const char *order) {
    int turns[RANKS] = {0, 0};
    for (; *order; order++)
        if (*order != ' ' && (*order < '0' || *order >= '0' + RANKS || ++turns[*order - '0'] > 2 * SLOW_COUNTS))
            return 1;
    return 0;
}

int main(int argc, char **argv) {
    if (argc > 1 && has_too_many_turns(argv[1])) {
        fprintf(stderr, "an order is made of 0 and 1, each at most %d times\n", 2 * SLOW_COUNTS);
        return EX_USAGE;
    }
    Shared *shared = share(sizeof *shared);
    const char *orders[] = {"0 0 1 1 0 0 1 1", argc > 1 ? argv[1] : "0 1 0 1 0 1 0 1"};
    int races = 0, lost = 0;
    for (; lost == 0 && races < MOST_RACES; races++)
        lost = lost_counts(shared, "");
    printf("race %d: %d of %d counts are lost\n", races, lost, RANKS * RACE_COUNTS);
    for (int i = 0; i < 2; i++)
        printf("order %s: %d of %d counts are lost\n", orders[i], lost_counts(shared, orders[i]), RANKS * SLOW_COUNTS);
    return 0;
}
