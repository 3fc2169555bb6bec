// A machine that has been up for a day: a test may say that something was heard hours ago. Only for a test that
// tests/CMakeLists.txt gives sounder_late_clock: the linker then sends the calls of everything under test here. Just
// after the start, hours ago would be a time below zero.
#ifndef SOUNDER_TESTS_LATE_CLOCK_H
#define SOUNDER_TESTS_LATE_CLOCK_H

#include <time.h>

int __real_clock_gettime(clockid_t clock, struct timespec *now);
int __wrap_clock_gettime(clockid_t clock, struct timespec *now);

int __wrap_clock_gettime(clockid_t clock, struct timespec *now) {
    const int result = __real_clock_gettime(clock, now);
    if (clock == CLOCK_MONOTONIC) now->tv_sec += 24 * 60 * 60;
    return result;
}

#endif
