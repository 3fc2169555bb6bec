// How many cores this process may keep busy: the default of --workers.
#ifndef SOUNDER_BASE_CORES_H
#define SOUNDER_BASE_CORES_H

// The cores of the affinity mask (taskset, cpusets), or fewer where a cgroup's CPU quota allows fewer; at least 1.
int cores_usable(void);

// `cores`, or the whole cores that the tightest cpu.max (cgroup v2: "QUOTA PERIOD" or "max PERIOD", microseconds) from
// this process's group up to the root allows; at least 1. membership: a file as /proc/self/cgroup; root: where the
// hierarchy is mounted. What is missing or unreadable limits nothing.
int cores_within_quota(int cores, const char *membership, const char *root);

#endif
