// Op tests run once for each instruction set's build.
#ifndef SOUNDER_TESTS_NN_BUILDS_H
#define SOUNDER_TESTS_NN_BUILDS_H

#include <stdbool.h>
#include <stddef.h>

#include "nn/kernels.h"

// Runs a check with each build that this machine has; `few`: and with the ops that it has for few samples.
static inline void with_builds(void (*check)(const Kernels *kernels), bool few) {
    const char *names[] = {"avx512", "avx2", "baseline"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const Kernels *kernels = kernels_named(names[i]);
        if (kernels) check(kernels);
        if (few && kernels && kernels->few) check(kernels->few);
    }
}

static inline void with_each_build(void (*check)(const Kernels *kernels)) {
    with_builds(check, false);
}

// For ops whose lanes are samples.
static inline void with_each_build_and_few(void (*check)(const Kernels *kernels)) {
    with_builds(check, true);
}

#endif
