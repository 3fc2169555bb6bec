// The private memory of processes, from /proc: what one more of them would cost. Pages that processes share (data set,
// program, pages of the program that they are forks of) do not count.
//
//   uint64_t bytes = process_private_bytes(getpid());         // 0: unknown
#ifndef SOUNDER_APP_TRAIN_PROCESS_MEMORY_H
#define SOUNDER_APP_TRAIN_PROCESS_MEMORY_H

#include <stdint.h>
#include <sys/types.h>

#include "fedavg/memory/run_memory.h"
#include "shm/supervisor.h"

uint64_t process_private_bytes(pid_t pid);

// That of the process's first child.
uint64_t process_child_bytes(pid_t pid);

// That of the largest living worker; of the largest living trainer, 0 if trainers do not tell their pid.
uint64_t worker_private_bytes(const Supervisor *supervisor);
uint64_t trainer_private_bytes(const Control *control);

#endif
