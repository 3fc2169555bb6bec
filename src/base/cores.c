#include "cores.h"

#include <sched.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#ifdef __x86_64__
#include <xmmintrin.h>
#endif

#include "base/cgroup.h"

// A machine may have more cores than a cpu_set_t has bits (CPU_SETSIZE, 1024), and the kernel then refuses so small a
// mask: the array has room for 16 times as many.
static int cores_in_affinity_mask(void) {
    enum { MASKS = 16 };
    cpu_set_t masks[MASKS];
    CPU_ZERO_S(sizeof masks, masks);
    if (sched_getaffinity(0, sizeof masks, masks) != 0) return 1;
    int cores = CPU_COUNT_S(sizeof masks, masks);
    return cores > 0 ? cores : 1;
}

// Slurm sets the number of cores of a step's task, or of the batch script, also where it does not bind processes to
// them.
static int cores_of_slurm_task(int cores) {
    const char *each = getenv("SLURM_STEP_NUM_TASKS") ? getenv("SLURM_CPUS_PER_TASK") : NULL;
    const char *text = each ? each : getenv("SLURM_CPUS_ON_NODE");
    const long allowed = text ? strtol(text, NULL, 10) : 0;
    return allowed > 0 && allowed < cores ? (int)allowed : cores;
}

int cores_usable(void) {
    return cgroup_cores(cores_of_slurm_task(cores_in_affinity_mask()), CGROUP_MEMBERSHIP, CGROUP_ROOT);
}

static size_t rounded_up(size_t bytes, size_t unit) {
    return (bytes + unit - 1) / unit * unit;
}

void *huge_allocate(size_t bytes) {
    enum { HUGE_PAGE = 2 << 20, LINE = 64 };
    if (bytes < HUGE_PAGE) return aligned_alloc(LINE, rounded_up(bytes, LINE));
    void *memory = aligned_alloc(HUGE_PAGE, rounded_up(bytes, HUGE_PAGE));
    if (memory) madvise(memory, bytes, MADV_HUGEPAGE); // if the kernel refuses, the pages stay small
    return memory;
}

#if defined(__x86_64__)
void subnormals_flush(void) {
    enum { SUBNORMALS_ARE_ZEROS = 1 << 6, FLUSH_TO_ZERO = 1 << 15 };
    _mm_setcsr(_mm_getcsr() | SUBNORMALS_ARE_ZEROS | FLUSH_TO_ZERO);
}
#elif defined(__aarch64__)
void subnormals_flush(void) {
    const uint64_t flush_to_zero = UINT64_C(1) << 24;
    uint64_t control;
    __asm__ volatile("mrs %0, fpcr" : "=r"(control));
    __asm__ volatile("msr fpcr, %0" : : "r"(control | flush_to_zero));
}
#else
void subnormals_flush(void) {}
#endif
