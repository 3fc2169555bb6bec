// The workers' arithmetic: one table of functions for each place where it can be done. worker_on_cpu is made of
// client.h, hogwild.h and ssgd.h; the GPU's is in gpu/gpu.h.
//
//   void *state;
//   TRY(math->init(&state, &memory, rank, err));
//   TRY(math->train[config->engine](state, round, parent, err));      // what the parent's order says
//   math->free(state);
#ifndef SOUNDER_FEDAVG_WORKER_WORKER_BACKEND_H
#define SOUNDER_FEDAVG_WORKER_WORKER_BACKEND_H

#include <sys/types.h>

#include "base/err.h"
#include "fedavg/memory/run_memory.h"

typedef struct WorkerBackend {
    // memory is borrowed. Nothing to free on failure.
    Status (*init)(void **state, const RunMemory *memory, uint32_t rank, Error *err);
    void (*free)(void *state);

    // One round of each kind of engine. fedavg, hogwild: trains clients from the queue until it is empty; ssgd: as the
    // worker at order.position[rank] of order.members, CANCELLED when the step barrier was. After another failure the
    // caller dies of it, and others do the unfinished work again.
    Status (*train[ENGINE_COUNT])(void *state, uint32_t round, pid_t parent, Error *err);

    // Evaluates what the jobs of the queue say (EvaluationTask) until it is empty; on the GPU no chunks of the test
    // set, for there the parent does that itself.
    Status (*evaluate)(void *state, uint32_t round, Error *err);
} WorkerBackend;

extern const WorkerBackend worker_on_cpu;

#endif
