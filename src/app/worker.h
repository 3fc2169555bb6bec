// A worker's life: attach to the parent and its memory, then do what each phase orders until the parent is gone.
#ifndef SOUNDER_APP_WORKER_H
#define SOUNDER_APP_WORKER_H

// The argv with which the parent starts workers: `sounder:wRANK worker RANK PARENT_PID` (see shm/supervisor.h).
extern char *const worker_arguments[];

#endif
