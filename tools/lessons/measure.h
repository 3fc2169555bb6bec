// Figures that a busy machine does not falsify: the least of many rounds in which both ranks ran at once, without a
// pause.
//
//   static void count(int rank, void *memory) { ... }          // one round of a rank
//   double ns = measure(shared, count, COUNTS);                // ns for one of COUNTS, of the slower rank
//
// A round counts if the kernel has not taken the processor from either rank, which each rank learns from getrusage. A
// measurement ends after `SETTLED` such rounds, or after MEASURE_SECONDS. Where there is none, as on a single core, it
// says so and ends the lesson with 77.
#ifndef SOUNDER_TOOLS_LESSONS_MEASURE_H
#define SOUNDER_TOOLS_LESSONS_MEASURE_H

#include <sched.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <time.h>

#include "ranks.h"

enum { MEASURE_SECONDS = 4, SETTLED = 8 };

typedef struct Measure {
    _Alignas(64) _Atomic int arrived;
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

static inline void measure_round(Measure *measure, int rank, void (*work)(int rank, void *memory), void *memory) {
    atomic_fetch_add(&measure->arrived, 1);
    while (atomic_load(&measure->arrived) < 2)
        ;
    const long pauses = pauses_so_far();
    measure->begin[rank] = seconds_now();
    work(rank, memory);
    measure->end[rank] = seconds_now();
    measure->pauses[rank] = pauses_so_far() - pauses;
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
    for (int good = 0; good < SETTLED && seconds_now() < end;) {
        atomic_store(&shared->arrived, 0);
        const pid_t pid = fork_rank();
        if (pid == 0) {
            measure_round(shared, 1, work, memory);
            _exit(0);
        }
        measure_round(shared, 0, work, memory);
        waitpid(pid, NULL, 0);
        const double seconds = undisturbed_seconds(shared);
        if (seconds > 0 && (good++ == 0 || seconds < least)) least = seconds;
    }
    munmap(shared, sizeof *shared);
    if (least > 0) return least / count * 1e9;
    cpu_set_t cores;
    sched_getaffinity(0, sizeof cores, &cores);
    fprintf(stderr, "no round of two ranks without a pause in %d s, on %d cores: other work keeps them busy\n",
            MEASURE_SECONDS, CPU_COUNT(&cores));
    exit(NOT_HERE);
}

#endif
