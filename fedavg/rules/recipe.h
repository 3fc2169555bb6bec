// What a run does, whoever does it: which engine drives its rounds, and how every local training goes. Plain data: the
// options fill it in, and workers read the same struct in the control segment.
#ifndef SOUNDER_FEDAVG_RULES_RECIPE_H
#define SOUNDER_FEDAVG_RULES_RECIPE_H

#include <stdbool.h>
#include <stdint.h>

#include "nn/step.h"

// What --algorithm chooses: how the processes of a run work together.
typedef enum EngineKind {
    ENGINE_ROUNDS,   // fedavg: clients train on their own from the global weights, then come together
    ENGINE_WILD,     // hogwild: workers write the global weights as they train, without locks
    ENGINE_LOCKSTEP, // ssgd: all meet at every step
} EngineKind;

enum { ENGINE_COUNT = ENGINE_LOCKSTEP + 1 };

// What those who set a run up have to know of an engine.
typedef struct EngineFacts {
    const char *name;         // of its algorithm
    bool whole_cohort;        // every client takes part in every round
    bool client_is_worker;    // there are as many clients as workers
    bool worker_needs_client; // ... at least as many
    bool writes_weights;      // workers write the global weights; otherwise they only read them
    bool in_lockstep;         // a worker's death ends the round for all, which start it over
} EngineFacts;

extern const EngineFacts engine_facts[ENGINE_COUNT];

enum { HOGWILD_PLAIN, HOGWILD_ATOMIC }; // how steps are written: plain stores, or one compare-and-swap a weight

// The numbers of every local training.
typedef struct Training {
    Sgd sgd;
    uint32_t local_epochs, batch_size;
    bool global_batch;       // ssgd: the shards share one batch
    uint32_t hogwild_update; // HOGWILD_*
} Training;

#endif
