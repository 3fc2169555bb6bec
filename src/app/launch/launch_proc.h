// The state of a rank's processes in /proc: how much they have computed and read, and where they wait.
#ifndef SOUNDER_APP_LAUNCH_LAUNCH_PROC_H
#define SOUNDER_APP_LAUNCH_LAUNCH_PROC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

typedef struct ProcessList {
    pid_t *pids; // owned
    size_t count, room;
} ProcessList;

void process_list_add(ProcessList *list, pid_t pid);

// Lists the children of all threads of a process; empty if the kernel does not tell (no CONFIG_PROC_CHILDREN). The
// caller frees list.pids.
ProcessList process_children(pid_t pid);

// Totals since the processes began. Bytes that the kernel does not tell (another user's process) count as 0.
typedef struct ProcessUse {
    double cpu_seconds;
    uint64_t bytes; // read and written, through any descriptor or by page faults
} ProcessUse;

// The totals of a process and all of its descendants.
ProcessUse process_use(pid_t pid);

// The process that does a rank's work: its child, in place of a shell that waits for it.
pid_t process_at_work(pid_t pid);

enum { PROCESS_WAIT_BYTES = 256, PROCESS_NAME_BYTES = 32 };

typedef struct ProcessWait {
    char text[PROCESS_WAIT_BYTES]; // "sleeps in clock_nanosleep", "waits in futex"
    bool may_be_freed; // another process may end it: a wait for a socket, memory, or one of several descriptors
} ProcessWait;

// Tells where the main thread waits; false if it does not wait. A wait that a debugger has interrupted
// (restart_syscall) leaves `wait` unchanged, if that tells of one.
bool process_wait(ProcessWait *wait, pid_t pid);

// Writes the name of its program, "python3"; "?" if unknown.
void process_name(char name[PROCESS_NAME_BYTES], pid_t pid);

#endif
