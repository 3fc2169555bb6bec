// Lesson 9. False sharing.
//
// Two ranks add to two counters: neither reads what the other one writes. But processors pass memory between their
// caches in lines of 64 bytes (128 on some). If both counters are in one line, each write takes the line away from the
// other processor, just as if both wrote the same counter.
//
//   one line    [ counter 0 | counter 1 | ...            ]      the line goes back and forth
//   own lines   [ counter 0 | ... ] [ counter 1 | ...    ]      each processor keeps its own
//
// The nanoseconds are the least of many rounds (measure.h says why). Two processors that are two threads of one core
// share its caches: there the lines differ less.
//
// Question: which two of the three lines are about equal? And which of them does the third equal if its counters are 32
// bytes apart instead of 256? Try it.
// Build: cc -O2 -o lesson 09_false_sharing.c
// Run: ./lesson
// Prints:
//   same counter: <number> ns a count
//   same line:    <number> ns a count
//   own lines:    <number> ns a count
// Read: shm/supervisor.h, WorkerPulse, and shm/barrier.h: what has 64 bytes of its own there, and why only that?
// PyTorch: nothing in Python is fast enough to notice; the counters of its C++ threads are padded in the same way.
#define _GNU_SOURCE 1
#include "measure.h"

enum { COUNTS = 5000 };

typedef struct Counters {
    _Alignas(128) char memory[512];
    int gap; // from rank 0's counter to rank 1's, bytes
} Counters;

static void count(int rank, void *memory) {
    Counters *counters = memory;
    _Atomic long *counter = (_Atomic long *)(void *)(counters->memory + rank * counters->gap);
    for (int i = 0; i < COUNTS; i++)
        atomic_fetch_add_explicit(counter, 1, memory_order_relaxed);
}

int main(void) {
    static const struct {
        const char *name;
        int gap;
    } cases[] = {{"same counter:", 0}, {"same line:", sizeof(long)}, {"own lines:", 256}};
    Counters *counters = share(sizeof *counters);
    for (int i = 0; i < 3; i++) {
        counters->gap = cases[i].gap;
        printf("%-13s %.1f ns a count\n", cases[i].name, measure(count, counters, COUNTS));
        fflush(stdout);
    }
    return 0;
}
