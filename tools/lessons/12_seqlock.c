// Lesson 12. A snapshot while it is written: a seqlock.
//
// Rank 0 writes all the time: sixteen numbers that are always equal. Rank 1 wants a copy of them as they were at one
// moment. Without help it sees some of before and some of after (a torn copy). With a seqlock the writer counts, before
// and after each write: while the count is odd it writes. The reader copies between two looks at the count, and again
// if the count was odd or has changed. The writer never waits, and readers write nothing at all. The price: while the
// kernel has taken the processor from a writer in the middle of a write, readers try again and again.
//
//   writer   count 6 → 7   8 8 8 8 8 ...   7 → 8
//   reader   6 ...  copy  ... 6? keep.  7, or no longer 6? once more.
//
// Question: what goes wrong with two writers, and what would you do?
// Build: cc -O2 -o lesson 12_seqlock.c
// Run: ./lesson
// Prints:
//   plain:   <number> of <number> copies were torn
//   seqlock: 0 of <number> copies were torn, <number> were made again
// Change: "while (before % 2 == 1 || before != after)" -> "while (0)": lacks seqlock: 0 of
// Read: fedavg/README.md, "One round": the parent writes the global model that all workers read, and has no seqlock.
// What keeps the workers' copies whole?
// PyTorch: state_dict() of a model under Hogwild is a torn copy, which training forgives.
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>

#include "ranks.h"

enum { NUMBERS = 16, COPIES = 20000, SECONDS = 3 }; // SECONDS: until a copy meets a write, on a busy machine

typedef struct Shared {
    _Alignas(64) _Atomic unsigned count;
    _Atomic int numbers[NUMBERS]; // atomic one by one, so that reading them during a write is defined
    _Atomic int is_over;
} Shared;

static void write_all(Shared *shared) {
    for (int i = 1; !atomic_load_explicit(&shared->is_over, memory_order_relaxed); i++) {
        unsigned count = atomic_load_explicit(&shared->count, memory_order_relaxed);
        atomic_store_explicit(&shared->count, count + 1, memory_order_relaxed);
        atomic_thread_fence(memory_order_release); // the count is odd before the first number changes
        for (int n = 0; n < NUMBERS; n++)
            atomic_store_explicit(&shared->numbers[n], i, memory_order_relaxed);
        atomic_store_explicit(&shared->count, count + 2, memory_order_release); // and even after the last one has
    }
}

static int copy_is_torn(Shared *shared) {
    int first = atomic_load_explicit(&shared->numbers[0], memory_order_relaxed), torn = 0;
    for (int n = 1; n < NUMBERS; n++)
        torn |= atomic_load_explicit(&shared->numbers[n], memory_order_relaxed) != first;
    return torn;
}

static int copy_with_seqlock(Shared *shared, int *again) {
    unsigned before, after;
    int torn;
    (*again)--;
    do {
        ++*again;
        before = atomic_load_explicit(&shared->count, memory_order_acquire);
        torn = copy_is_torn(shared);
        atomic_thread_fence(memory_order_acquire); // the copy ends before the second look
        after = atomic_load_explicit(&shared->count, memory_order_relaxed);
    } while (before % 2 == 1 || before != after);
    return torn;
}

int main(void) {
    Shared *shared = share(sizeof *shared);
    const pid_t pid = fork_rank();
    if (pid == 0) {
        write_all(shared);
        _exit(0);
    }
    int torn = 0, copies = 0, again = 0;
    for (time_t end = time(NULL) + SECONDS; copies < COPIES || (torn == 0 && time(NULL) < end); copies++)
        torn += copy_is_torn(shared);
    printf("plain:   %d of %d copies were torn\n", torn, copies);
    torn = copies = 0;
    for (time_t end = time(NULL) + SECONDS; copies < COPIES || (torn + again == 0 && time(NULL) < end); copies++)
        torn += copy_with_seqlock(shared, &again);
    printf("seqlock: %d of %d copies were torn, %d were made again\n", torn, copies, again);
    atomic_store(&shared->is_over, 1);
    waitpid(pid, NULL, 0);
    return 0;
}
