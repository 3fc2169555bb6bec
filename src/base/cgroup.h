// Reads the limits of this process's control groups: containers, batch systems and systemd set their limits there.
//
//   uint64_t left = cgroup_memory_left(CGROUP_MEMBERSHIP, CGROUP_ROOT);    // bytes; UINT64_MAX: no limit
//
// Both versions of the kernel's interface are read (Documentation/admin-guide/cgroup-v1 and cgroup-v2.rst), also where
// a machine has both: each line of the membership file names a group, whose folder is below the root in version 2 and
// below ROOT/CONTROLLER in version 1. From the process's own group up to the root, the tightest limit counts. A file
// that is missing or unreadable limits nothing.
#ifndef SOUNDER_BASE_CGROUP_H
#define SOUNDER_BASE_CGROUP_H

#include <stdbool.h>
#include <stdint.h>

#define CGROUP_MEMBERSHIP "/proc/self/cgroup" // a line per hierarchy: "4:memory:/job"; version 2: "0::/job"
#define CGROUP_ROOT       "/sys/fs/cgroup"

// `cores`, or the whole cores that the tightest CPU quota allows (cpu.max; cpu.cfs_quota_us); at least 1.
int cgroup_cores(int cores, const char *membership, const char *root);

// Bytes that the process may still fill before the kernel kills it: limit less usage (memory.max; in version 1
// memory.limit_in_bytes). Files in the page cache count as free, since the kernel drops them first.
uint64_t cgroup_memory_left(const char *membership, const char *root);

// How many processes of this process's group the kernel has killed for want of memory so far (memory.events; in
// version 1 memory.oom_control); of the whole machine (/proc/vmstat) where the group has no such count.
uint64_t cgroup_memory_kills(const char *membership, const char *root);

// Whether a process that died of this signal probably died of that: the count of its own group has grown since.
bool memory_killed(int signal_number, uint64_t kills_before);

#endif
