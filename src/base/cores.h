// How a process uses its cores: how many it may keep busy, how long it keeps one, huge pages, subnormal numbers.
#ifndef SOUNDER_BASE_CORES_H
#define SOUNDER_BASE_CORES_H

#include <stddef.h>

// Number of cores that this process may keep busy, the default of --workers: those of the affinity mask (taskset,
// cpusets), or fewer where a control group's CPU quota (base/cgroup.h) or the environment of a Slurm task
// (SLURM_CPUS_PER_TASK, SLURM_CPUS_ON_NODE) allows fewer; at least 1.
int cores_usable(void);

// Longer time slices on a core that several workers share.
//
// Each time the scheduler switches to a worker, the core's caches are full of another worker's data. The more often it
// switches, the slower all of them compute: by 5% with four lenet workers on one core and slices of 3 ms.

enum { SCHEDULER_SLICE_MILLISECONDS = 30 };

// Asks the scheduler for time slices of SCHEDULER_SLICE_MILLISECONDS for this process. Policy, priority and share of
// the core do not change. Linux 6.12 and later grant the request (sched_setattr(2)); on older kernels, and under a
// policy other than SCHED_NORMAL and SCHED_BATCH, the call changes nothing.
void scheduler_slice_request(void);

// Memory on huge pages, for blocks of at least one huge page and where the kernel grants them (madvise(2),
// MADV_HUGEPAGE).
//
// The processor translates the address of each page that it touches, and Winograd's transforms read from dozens of 4
// KiB pages at a time: with huge pages resnet20 trains 1.05 times as fast on a Zen 3. A huge page also covers the sets
// of the second-level cache evenly; with 4 KiB pages some processes had many pages that competed for the same sets, and
// stayed a third slower than the others.

// Returns `bytes` uninitialised bytes, aligned to at least 64, or NULL if there is no memory. The caller frees them
// with free().
void *huge_allocate(size_t bytes);

// Subnormal numbers (floats below 1.2e-38) as zeros.
//
// A sum or product of subnormal numbers costs a core some hundred cycles, and velocities decay to them: with momentum
// 0.5, 126 steps after the last nonzero gradient of a weight. A step of cnn took up to 1.5 times as long. On a GPU
// subnormal numbers cost nothing, so there they are kept.

// From this call on, this thread and the threads that it starts read subnormal numbers as zero and return zero instead
// of a subnormal result. On processors other than x86-64 and AArch64 the call changes nothing.
void subnormals_flush(void);

#endif
