// Part of kernels.h: picks the build for this CPU's instruction set.
#include "nn/kernels.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"

enum { BUILDS = 3 };

// Writes the builds that this machine can run to `runnable`, the widest first; returns their number. All four parts of
// AVX-512 that the code uses are asked for: the first processors with the instruction set lack some.
static size_t runnable_builds(const Kernels *runnable[BUILDS]) {
    size_t count = 0;
#ifdef __x86_64__
    __builtin_cpu_init();
    bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
                  __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw");
    bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    if (avx512 && avx2) runnable[count++] = &kernels_avx512;
    if (avx2) runnable[count++] = &kernels_avx2;
#endif
    runnable[count++] = &kernels_baseline;
    return count;
}

bool kernels_is_name(const char *name) {
    return strcmp(name, "avx512") == 0 || strcmp(name, "avx2") == 0 || strcmp(name, "baseline") == 0;
}

// NULL for a build that this machine cannot run, too: its first wide instruction would kill the process.
const Kernels *kernels_named(const char *name) {
    const Kernels *runnable[BUILDS];
    size_t count = runnable_builds(runnable);
    for (size_t i = 0; i < count; i++)
        if (strcmp(runnable[i]->name, name) == 0) return runnable[i];
    return NULL;
}

const Kernels *kernels_best(void) {
    const Kernels *runnable[BUILDS];
    runnable_builds(runnable);
    const char *wish = getenv("SOUNDER_ISA");
    if (!wish || !*wish) return runnable[0];
    const Kernels *wished = kernels_named(wish);
    if (wished) return wished;
    log_warning("SOUNDER_ISA=%s is unknown or cannot run on this machine; using %s (known: avx512, avx2, baseline)",
                wish, runnable[0]->name);
    setenv("SOUNDER_ISA", runnable[0]->name, 1); // so that neither this process nor its workers warn again
    return runnable[0];
}
