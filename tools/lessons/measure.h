// Figures that a busy machine does not falsify: the least of many rounds in which both ranks ran at once, without a
// pause.
//
//   static void count(int rank, void *memory) { ... }          // one round of a rank
//   double ns = measure(shared, count, COUNTS);                // ns for one of COUNTS, of the slower rank
//
// Each rank has a processor of its own, and both meet before and after each round. A round counts if the kernel has not
// taken the processor from either rank, which each rank learns from getrusage: on a busy machine many rounds fit into
// the milliseconds in which both happen to run. A measurement ends after `SETTLED` such rounds, or after
// MEASURE_SECONDS. Where there is none, as on a single core, it says so and ends the lesson with 77.
#ifndef SOUNDER_TOOLS_LESSONS_MEASURE_H
#define SOUNDER_TOOLS_LESSONS_MEASURE_H

#include <sched.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <time.h>

#include "ranks.h"

enum { MEASURE_SECONDS = 4, SETTLED = 8, MEASURE_LOOKS = 20000 };

typedef struct Measure {
    _Alignas(64) _Atomic int arrived; // at all meetings so far: two in each round
    _Atomic int is_over;
    _Alignas(64) double begin[2], end[2];
    long pauses[2];
} Measure;

static inline double seconds_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static inline long pauses_so_far(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_nivcsw + usage.ru_nvcsw;
}

// The processors that this process could use before take_processor.
static inline const cpu_set_t *processors(void) {
    static cpu_set_t all;
    static int is_known;
    if (!is_known) is_known = sched_getaffinity(0, sizeof all, &all) == 0;
    return &all;
}

// A processor of its own for each rank, the first and the last of them: the kernel may put both ranks on one, where
// they take turns.
static inline void take_processor(int rank) {
    const cpu_set_t *all = processors();
    cpu_set_t mine;
    if (CPU_COUNT(all) == 0) return;
    size_t cpu = rank == 0 ? 0 : CPU_SETSIZE - 1;
    while (!CPU_ISSET(cpu, all))
        cpu = rank == 0 ? cpu + 1 : cpu - 1;
    CPU_ZERO(&mine);
    CPU_SET(cpu, &mine);
    sched_setaffinity(0, sizeof mine, &mine);
}

// Waits until the number is at least `value`: it looks for some microseconds, and sleeps as long before it looks again.
// The kernel soon gives a processor to a process that has slept, so that both ranks run at once after a meeting, which
// is rare on a busy machine if both look all the time.
static inline void await_number(_Atomic int *number, int value) {
    for (int looks = 1; atomic_load(number) < value; looks++)
        if (looks % MEASURE_LOOKS == 0) usleep(1);
}

static inline void measure_meet(Measure *measure, int *meetings) {
    atomic_fetch_add(&measure->arrived, 1);
    await_number(&measure->arrived, 2 * ++*meetings);
}

// One round of a rank, from one meeting to the next.
static inline void measure_round(Measure *measure, int rank, int *meetings, void (*work)(int rank, void *memory),
                                 void *memory) {
    const long pauses = pauses_so_far();
    measure->begin[rank] = seconds_now();
    work(rank, memory);
    measure->end[rank] = seconds_now();
    measure->pauses[rank] = pauses_so_far() - pauses;
    measure_meet(measure, meetings);
}

// The seconds of the slower rank; 0 if a rank paused, or if they did not run at once for nine tenths of that time.
static inline double undisturbed_seconds(const Measure *measure) {
    const double *begin = measure->begin, *end = measure->end;
    const double first = end[0] - begin[0], second = end[1] - begin[1], slower = first > second ? first : second;
    const double together = (end[0] < end[1] ? end[0] : end[1]) - (begin[0] > begin[1] ? begin[0] : begin[1]);
    return measure->pauses[0] + measure->pauses[1] == 0 && together > 0.9 * slower ? slower : 0;
}

// Nanoseconds for one of the `count` things that a round of each rank does.
static inline double measure(void (*work)(int rank, void *memory), void *memory, int count) {
    Measure *shared = share(sizeof *shared);
    const double end = seconds_now() + MEASURE_SECONDS;
    double least = 0;
    processors();
    const pid_t pid = fork_rank();
    take_processor(pid == 0);
    int meetings = 0, good = 0;
    for (;;) {
        if (pid > 0) atomic_store(&shared->is_over, good == SETTLED || seconds_now() >= end);
        measure_meet(shared, &meetings);
        if (atomic_load(&shared->is_over)) break;
        measure_round(shared, pid == 0, &meetings, work, memory);
        const double seconds = pid > 0 ? undisturbed_seconds(shared) : 0;
        if (seconds > 0 && (good++ == 0 || seconds < least)) least = seconds;
    }
    if (pid == 0) _exit(0);
    waitpid(pid, NULL, 0);
    munmap(shared, sizeof *shared);
    if (least > 0) return least / count * 1e9;
    fprintf(stderr, "no round of two ranks without a pause in %d s, on %d cores: other work keeps them busy\n",
            MEASURE_SECONDS, CPU_COUNT(processors()));
    exit(NOT_HERE);
}

#endif
