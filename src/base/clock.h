// Time for deadlines and measurements: CLOCK_MONOTONIC, which no administrator sets and all processes share.
#ifndef SOUNDER_BASE_CLOCK_H
#define SOUNDER_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline uint64_t clock_nanoseconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static inline double clock_seconds_since(uint64_t start_nanoseconds) {
    return (double)(clock_nanoseconds() - start_nanoseconds) * 1e-9;
}

#endif
