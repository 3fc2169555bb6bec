// The workers' arithmetic: one table of functions for each place where it can be done. trainer_on_cpu is made of
// client.h, hogwild.h and ssgd.h; the card's is in card.h.
//
//   void *trainer;
//   TRY(kind->init(&trainer, &memory, rank, err));
//   TRY(kind->train(trainer, round, err));      // what the parent's order says
//   kind->free(trainer);
#ifndef SOUNDER_FEDAVG_WORKER_TRAINER_H
#define SOUNDER_FEDAVG_WORKER_TRAINER_H

#include <sys/types.h>

#include "base/err.h"
#include "fedavg/memory/run_memory.h"

typedef struct TrainerKind {
    // memory is borrowed. Nothing to free on failure.
    Status (*init)(void **trainer, const RunMemory *memory, uint32_t rank, Error *err);
    void (*free)(void *trainer);

    // fedavg, hogwild: trains clients from the queue until it is empty. A failure is for the caller to die of: what it
    // had not finished is done again by others.
    Status (*train)(void *trainer, uint32_t round, Error *err);

    // ssgd: one round as the worker at order.position[rank] of order.members. CANCELLED when the step barrier was.
    Status (*train_in_step)(void *trainer, uint32_t round, pid_t parent, Error *err);

    // Evaluates chunks of the test set from the queue until it is empty. NULL where the parent does that itself.
    Status (*evaluate)(void *trainer, uint32_t round, Error *err);
} TrainerKind;

extern const TrainerKind trainer_on_cpu;

#endif
