#include "cores.h"

#include <limits.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#ifdef __x86_64__
#include <xmmintrin.h>
#endif

// The affinity mask of a machine with more than CPU_SETSIZE (1024) cores does not fit a cpu_set_t, so room is made for
// 16 of them.
static int cores_in_affinity_mask(void) {
    enum { MASKS = 16 };
    cpu_set_t masks[MASKS];
    CPU_ZERO_S(sizeof masks, masks);
    if (sched_getaffinity(0, sizeof masks, masks) != 0) return 1;
    int cores = CPU_COUNT_S(sizeof masks, masks);
    return cores > 0 ? cores : 1;
}

// Finds this process's group in the unified hierarchy: the line "0::/path". False when there is none.
static int read_group(char *group, int bytes, const char *membership) {
    FILE *file = fopen(membership, "re");
    if (!file) return 0;
    int found = 0;
    while (!found && fgets(group, bytes, file))
        found = strncmp(group, "0::/", 4) == 0;
    fclose(file);
    if (!found) return 0;
    group[strcspn(group, "\n")] = '\0';
    memmove(group, group + 3, strlen(group + 3) + 1);
    return 1;
}

static int cores_allowed_by(const char *cpu_max_path, int cores) {
    FILE *file = fopen(cpu_max_path, "re");
    if (!file) return cores;
    long long quota = 0, period = 0; // microseconds; "max" is no number, so nothing limits then
    int limited = fscanf(file, "%lld %lld", &quota, &period) == 2 && period > 0 && quota / period < cores;
    fclose(file);
    return limited ? (int)(quota / period) : cores;
}

int cores_within_quota(int cores, const char *membership, const char *root) {
    char group[PATH_MAX];
    if (!read_group(group, sizeof group, membership)) return cores;
    for (;;) {
        char path[2 * PATH_MAX];
        snprintf(path, sizeof path, "%s%s/cpu.max", root, group);
        cores = cores_allowed_by(path, cores);
        char *slash = strrchr(group, '/');
        if (!slash) break;
        *slash = '\0'; // the parent group; at last "", the root of what is mounted
    }
    return cores > 0 ? cores : 1;
}

int cores_usable(void) {
    return cores_within_quota(cores_in_affinity_mask(), "/proc/self/cgroup", "/sys/fs/cgroup");
}

static size_t rounded_up(size_t bytes, size_t unit) {
    return (bytes + unit - 1) / unit * unit;
}

void *huge_allocate(size_t bytes) {
    enum { HUGE_PAGE = 2 << 20, LINE = 64 };
    if (bytes < HUGE_PAGE) return aligned_alloc(LINE, rounded_up(bytes, LINE));
    void *memory = aligned_alloc(HUGE_PAGE, rounded_up(bytes, HUGE_PAGE));
    if (memory) madvise(memory, bytes, MADV_HUGEPAGE); // refused: the pages are small
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
