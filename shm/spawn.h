// Starts one worker process: this same binary again, with the descriptors, signals and environment that supervisor.h
// promises to a worker.
#ifndef SOUNDER_SHM_SPAWN_H
#define SOUNDER_SHM_SPAWN_H

#include <stddef.h>
#include <sys/types.h>

#include "base/err.h"
#include "shm/supervisor.h"

typedef struct WorkerProcess {
    pid_t pid;
    int pidfd;       // owned by the caller; readable once the process is dead
    int startup_fd;  // owned by the caller; read end of the start-up pipe, non-blocking
    SpawnPlan *plan; // owned by the caller; what the process reads until it is the worker: see spawn_settle
} WorkerProcess;

// Makes room for the descriptors that the parent of so many workers holds: raises the soft limit to what is needed, or
// returns OS with the limit and the need.
Status spawn_reserve_descriptors(uint32_t workers, Error *err);

// Starts the worker of a rank and returns before it has become one: who is stopped on the way stops nobody else. OS
// when the kernel refuses; then no process and no descriptor is left. What goes wrong later is the death of that
// process.
Status spawn_worker(WorkerProcess *process, const SupervisorConfig *config, uint32_t rank, int arrival_fd, Error *err);

// Writes into the message (bytes) of a dead process what kept it from becoming the worker, if anything did.
void spawn_explain(char *message, size_t bytes, const SpawnPlan *plan);

// Frees the plan of a process that has reported that it is ready, or is dead. NULL: nothing to do.
void spawn_settle(SpawnPlan *plan);

#endif
