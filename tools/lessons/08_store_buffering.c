// Lesson 8. Store buffering: what release and acquire do not promise.
//
// Each of two ranks raises its own flag and then looks at the other's. Can both find the other flag down? In no order
// of the four steps. Yet they do: a processor keeps a store for itself for a while before the others see it, and the
// load overtakes it. Release and acquire allow that. A sequentially consistent fence between the two does not.
//
//   rank 0   x = i   ...  load y            rank 1   y = i   ...  load x
//            both stores are still in their processor's buffer: both loads find the old value
//
// It takes two ranks that run at once, each on a processor of its own (measure.h, of the next day): rounds follow until
// it has been seen, for at most 5 seconds; then ten times as many with the fence. The lesson is about x86. On Arm the
// instructions that C's release and acquire become happen to forbid it.
//
// Question: a lock in which each rank raises a flag and enters if the other one is down: which of the two lines does it
// need? What happens to both ranks if the other line is the truth?
// Build: cc -O2 -o lesson 08_store_buffering.c
// Run: ./lesson
// Prints:
//   release and acquire: both found the old value in <number> of <number> rounds
//   with a fence:        both found the old value in 0 of <number> rounds
// Change: "atomic_thread_fence(memory_order_seq_cst)" -> "atomic_thread_fence(memory_order_acq_rel)":
//   lacks found the old value in 0 of
// Read: shm/bell.h and shm/bell.c: a process that is about to sleep says so and looks once more whether it must. Which
// two stores are x and y there? shm/barrier.c names Dekker: which are they in a barrier?
// PyTorch: none of its interfaces shows this; its locks pay for it.
#define _GNU_SOURCE 1
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>

#include "measure.h"

enum { SECONDS = 5, ROUNDS = 2000, LATE = 400 };

typedef struct Shared { // each in a cache line of its own (lesson 9)
    _Alignas(64) _Atomic int x;
    _Alignas(64) _Atomic int y;
    _Alignas(64) _Atomic int go, done;
    int found[2], fenced, rounds; // found: what each rank has loaded
} Shared;

static int store_and_load(_Atomic int *mine, _Atomic int *other, int value, int fenced) {
    atomic_store_explicit(mine, value, memory_order_release);
    if (fenced) atomic_thread_fence(memory_order_seq_cst);
    return atomic_load_explicit(other, memory_order_acquire);
}

static void answer(Shared *shared, int first) {
    for (int i = first; i < first + ROUNDS; i++) {
        await_number(&shared->go, i);
        shared->found[1] = store_and_load(&shared->y, &shared->x, i, shared->fenced);
        atomic_store(&shared->done, i);
    }
}

// How often both found the old value in ROUNDS rounds, or in fewer if the time is over.
static int ask(Shared *shared, int first, time_t end) {
    int both = 0;
    for (int i = first; i < first + ROUNDS && time(NULL) <= end; i++, shared->rounds++) {
        atomic_store(&shared->go, i);
        for (int wait = i % LATE; wait > 0; wait--) // rank 1 sees the new round a little later: how much is chance
            (void)atomic_load_explicit(&shared->go, memory_order_relaxed);
        shared->found[0] = store_and_load(&shared->x, &shared->y, i, shared->fenced);
        await_number(&shared->done, i);
        both += shared->found[0] < i && shared->found[1] < i;
    }
    atomic_store(&shared->go, first + ROUNDS); // rank 1 ends, if the time is over, too
    return both;
}

// Until it is seen, in at most `most_rounds`.
static int both_found_old(Shared *shared, int fenced, long most_rounds) {
    const time_t end = time(NULL) + SECONDS;
    int both = 0;
    shared->fenced = fenced;
    processors(); // before either rank takes one
    for (shared->rounds = 0; both == 0 && shared->rounds < most_rounds && time(NULL) <= end;) {
        const int first = atomic_load(&shared->go) + 1;
        const pid_t pid = fork_rank();
        take_processor(pid == 0); // measure.h
        if (pid == 0) {
            answer(shared, first);
            _exit(0);
        }
        both += ask(shared, first, end);
        waitpid(pid, NULL, 0);
    }
    return both;
}

int main(void) {
#if !defined __x86_64__
    fprintf(stderr, "this lesson is about x86\n");
    return NOT_HERE;
#endif
    Shared *shared = share(sizeof *shared);
    int both = both_found_old(shared, 0, INT_MAX);
    if (both == 0) {
        fprintf(stderr,
                "not seen in %d rounds: this takes two cores, and a processor that lets loads overtake stores\n",
                shared->rounds);
        return NOT_HERE;
    }
    printf("release and acquire: both found the old value in %d of %d rounds\n", both, shared->rounds);
    both = both_found_old(shared, 1, 10L * shared->rounds);
    printf("with a fence:        both found the old value in %d of %d rounds\n", both, shared->rounds);
    return 0;
}
