// Op tests run once for each instruction set's build.
#ifndef SOUNDER_TESTS_NN_BUILDS_H
#define SOUNDER_TESTS_NN_BUILDS_H

#include <stddef.h>

#include "nn/kernels.h"

// Runs a check with each build that this machine has.
static inline void with_each_build(void (*check)(const Kernels *kernels)) {
    const char *names[] = {"avx512", "avx2", "baseline"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const Kernels *kernels = kernels_named(names[i]);
        if (kernels) check(kernels);
    }
}

#endif
