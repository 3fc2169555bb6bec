// How many cores this process may keep busy: the default of --workers.
#ifndef SOUNDER_BASE_CORES_H
#define SOUNDER_BASE_CORES_H

// The cores of the affinity mask (taskset, cpusets), or fewer where a cgroup's CPU quota allows fewer; at least 1.
int cores_usable(void);

// `cores`, or the whole cores that the tightest cpu.max (cgroup v2: "QUOTA PERIOD" or "max PERIOD", microseconds) from
// this process's group up to the root allows; at least 1. membership: a file as /proc/self/cgroup; root: where the
// hierarchy is mounted. What is missing or unreadable limits nothing.
int cores_within_quota(int cores, const char *membership, const char *root);

// Longer turns on a core that has to be shared.
//
// Of several workers on one core, each finds the core's caches full of another's data whenever its turn comes, and
// computes the slower the oftener they change places: by 5% with four lenet workers on a core and turns of 3 ms.

enum { LONG_TURN_MILLISECONDS = 30 };

// Asks the scheduler for turns of that length for this process. Policy, priority and share of the core stay as they
// are. Linux 6.12 and later grant it (sched_setattr(2)); elsewhere, or under another policy than the usual, nothing
// changes.
void long_turns_request(void);

#endif
