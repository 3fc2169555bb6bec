// Starts one worker process: this binary again, with the descriptors, signals and environment that supervisor.h
// promises to a worker.
#ifndef SOUNDER_SHM_SPAWN_H
#define SOUNDER_SHM_SPAWN_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

// Descriptors that a worker inherits: these two, then the parent's `fds` in their order from WORKER_FIRST_FD on, then
// the worker's own of `rank_fds`.
enum { WORKER_STARTUP_FD = 3, WORKER_ARRIVAL_FD = 4, WORKER_FIRST_FD = 5, WORKER_MAX_FDS = 9 };

// The memory that a process reads until it has become the worker.
typedef struct SpawnPlan SpawnPlan;

// The command of a worker, as in SupervisorConfig. Borrowed.
typedef struct SpawnCommand {
    char *const *arguments;
    const int *fds; // (fd_count)
    uint32_t fd_count;
    const int *rank_fds; // by rank; may be NULL
} SpawnCommand;

typedef struct WorkerProcess {
    pid_t pid;
    int pidfd;       // owned by the caller; readable when the process is dead
    int startup_fd;  // owned by the caller; read end of the start-up pipe, non-blocking
    SpawnPlan *plan; // owned by the caller; read by the process until it has become the worker: see spawn_settle
} WorkerProcess;

// Raises the soft limit of open files to the number that a parent of so many workers needs. Fails with OS, the limit
// and the need.
Status spawn_reserve_descriptors(uint32_t workers, Error *err);

// Starts the process of a rank and returns before it has become the worker, so that a process that is stopped on the
// way does not stop the parent. Fails with OS if the kernel refuses; no process and no descriptor is left then. Later
// failures show as the death of the process.
Status spawn_worker(WorkerProcess *process, const SpawnCommand *command, uint32_t rank, int arrival_fd, Error *err);

// If the dead process could not become the worker, writes the reason to `message` (of `bytes` bytes).
void spawn_explain(char *message, size_t bytes, const SpawnPlan *plan);

// Frees the plan (may be NULL) of a process that has reported ready or is dead.
void spawn_settle(SpawnPlan *plan);

#endif
