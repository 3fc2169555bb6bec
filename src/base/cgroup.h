// Reads the limits of this process's control groups: containers, batch systems and systemd set their limits there.
//
//   uint64_t left = cgroup_memory_left(CGROUP_MEMBERSHIP, CGROUP_ROOT);    // bytes; UINT64_MAX: no limit
//
// Both versions of the kernel's interface are read (Documentation/admin-guide/cgroup-v1 and cgroup-v2.rst), also on
// machines that have both: each line of the membership file names a group, whose folder is below the root in version 2
// and below ROOT/CONTROLLER in version 1. The tightest limit between the process's own group and the root counts. A
// file that is missing or unreadable sets no limit.
#ifndef SOUNDER_BASE_CGROUP_H
#define SOUNDER_BASE_CGROUP_H

#include <stdbool.h>
#include <stdint.h>

#define CGROUP_MEMBERSHIP "/proc/self/cgroup" // one line per hierarchy: "4:memory:/job"; version 2: "0::/job"
#define CGROUP_ROOT       "/sys/fs/cgroup"

// Returns `cores`, or the whole cores that the tightest CPU quota allows (cpu.max; cpu.cfs_quota_us); at least 1.
int cgroup_cores(int cores, const char *membership, const char *root);

// Bytes that the process may still fill before the kernel kills it: limit less usage (memory.max; in version 1
// memory.limit_in_bytes). Files in the page cache count as free, since the kernel drops them first.
uint64_t cgroup_memory_left(const char *membership, const char *root);

// Number of processes in this process's group that the kernel has killed so far because memory ran out (memory.events;
// in version 1 memory.oom_control). If the group has no such counter: of the whole machine (/proc/vmstat).
uint64_t cgroup_memory_kills(const char *membership, const char *root);

// Asks the kernel to kill this process, which can be replaced, rather than its parent if memory runs out. Without the
// right to ask nothing changes.
void memory_offer_to_die_first(void);

// Says whether the kernel probably killed a process that died of this signal because memory ran out: SIGKILL, and the
// counter (cgroup_memory_kills) has grown since `kills_before`.
bool memory_killed(int signal_number, uint64_t kills_before);

#endif
