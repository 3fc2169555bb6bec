// Starts one worker process: this same binary again, with the descriptors, signals and environment that supervisor.h
// promises to a worker.
#ifndef SOUNDER_SHM_SPAWN_H
#define SOUNDER_SHM_SPAWN_H

#include <sys/types.h>

#include "base/err.h"
#include "shm/supervisor.h"

typedef struct WorkerProcess {
    pid_t pid;
    int pidfd;      // owned by the caller; readable once the process is dead
    int startup_fd; // owned by the caller; read end of the start-up pipe, non-blocking
} WorkerProcess;

// Makes room for the descriptors that the parent of so many workers holds: raises the soft limit to what is needed, or
// returns OS with the limit and the need.
Status spawn_reserve_descriptors(uint32_t workers, Error *err);

// Starts the worker of a rank. OS when the kernel refuses; then no process and no descriptor is left.
Status spawn_worker(WorkerProcess *process, const SupervisorConfig *config, uint32_t rank, int arrival_fd, Error *err);

#endif
