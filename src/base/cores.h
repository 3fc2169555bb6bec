// How a process uses its cores. First, how many it may keep busy: the default of --workers.
#ifndef SOUNDER_BASE_CORES_H
#define SOUNDER_BASE_CORES_H

#include <stddef.h>

// The cores of the affinity mask (taskset, cpusets), or fewer where a control group's CPU quota (base/cgroup.h) or the
// environment of a Slurm task (SLURM_CPUS_PER_TASK, SLURM_CPUS_ON_NODE) allows fewer; at least 1.
int cores_usable(void);

// Longer turns on a core that has to be shared.
//
// Of several workers on one core, each finds the core's caches full of another's data whenever its turn comes, and
// computes the slower the oftener they change places: by 5% with four lenet workers on a core and turns of 3 ms.

enum { LONG_TURN_MILLISECONDS = 30 };

// Asks the scheduler for turns of that length for this process. Policy, priority and share of the core stay as they
// are. Linux 6.12 and later grant it (sched_setattr(2)); elsewhere, or under another policy than the usual, nothing
// changes.
void long_turns_request(void);

// Memory on huge pages, where it fills some and the kernel gives them (madvise(2), MADV_HUGEPAGE).
//
// A core looks up each 4 KiB of a tensor, and Winograd's transforms go to dozens of pages at a time: with huge pages
// resnet20 trains 1.05 times as fast on a Zen 3. Huge pages also lie in one piece in the second-level cache: with pages
// of 4 KiB some processes had many that compete for the same sets, and stayed a third slower than others.

// Of so many bytes, aligned to 64 at least; they mean nothing. The caller frees it with free(). NULL: there is none.
void *huge_allocate(size_t bytes);

// Subnormal numbers (floats below 1.2e-38) as zeros.
//
// A core takes some hundred cycles for a sum or product of subnormal numbers, and velocities decay to them: with
// momentum 0.5, 126 steps after the last slope of a unit that rests. A step of cnn took up to 1.5 times as long.
// On a GPU they cost nothing, and are kept.

// From now on this thread, and those that it starts, take a subnormal number for zero and give zero instead of one.
// Where the processor has no such mode that is known here (neither x86-64 nor AArch64), nothing changes.
void subnormals_flush(void);

#endif
