// The parent's arithmetic: the one shared model, the mean of the clients' updates, what a failed round is put back to.
// One table of functions for each place where it can be done: parent_on_cpu works in the run's shared memory itself;
// the GPU's (gpu/gpu.h) in blocks of the GPU's memory, and copies weights and velocities into the shared memory
// whenever a round is done, so that checkpoints, the final model and live/ read it there on either.
//
//   Parent parent = {.backend = &parent_on_cpu, .memory = &memory};
//   TRY(parent.backend->init(&parent, err));              // the shared memory is filled, no worker has started yet
//   TRY(parent.backend->begin(&parent, err));             // each round, while all workers wait
//   ... they train ...
//   TRY(parent.backend->average(&parent, &finite, used, &mean, &turn, err)); // fedavg
//   TRY(parent.backend->adopt(&parent, &finite, err));                       // hogwild, ssgd
//   parent.backend->free(&parent);                        // when no worker lives any more
#ifndef SOUNDER_FEDAVG_PARENT_PARENT_BACKEND_H
#define SOUNDER_FEDAVG_PARENT_PARENT_BACKEND_H

#include <stdbool.h>

#include "base/err.h"
#include "fedavg/memory/run_memory.h"
#include "fedavg/nodes/nodes.h"
#include "fedavg/rules/server/server_rules.h"
#include "nn/step.h"

// The functions of a backend get the Parent and keep what is theirs in Parent.state.
typedef struct Parent Parent;

// The sum of the cohort's updates, and what it is divided by and multiplied with: as in rules/server/server_rules.h.
typedef struct Mean {
    double arrived, factor;
    double noise;               // deviation of what joins every weight of it; 0: nothing does
    const int64_t *total;       // (parameters), of all nodes; NULL: it is in the workers' slots
    const int64_t *changes;     // likewise, beside a total
    const int64_t *const *late; // (late_count), (parameters) each: what joins them; of this node alone
    uint32_t late_count;
    uint32_t round;                            // whose fragment of the model is stepped (rules/local/fragments.h)
    double arrived_of[PERSONAL_MOST_CLUSTERS]; // of each model, where there are several; 0: it stays
} Mean;

typedef struct ParentBackend {
    // Nothing to free on failure.
    Status (*init)(Parent *parent, Error *err);
    void (*free)(Parent *parent);

    // A worker has died, and nothing of what it began may be written any more. NULL: its work died with it.
    Status (*bury)(Parent *parent, uint32_t rank, Error *err);

    // Remembers, for restore, the weights where workers write them, and the vectors that the plan restores (SlotPlan);
    // starts the count of updates at 0.
    Status (*begin)(Parent *parent, Error *err);
    Status (*restore)(Parent *parent, Error *err);

    // fedavg: one step of the server rule on the exact mean: of the sums of the ranks with used (workers) and of those
    // of the other nodes, or of what the mean has for their sum. Weights that are no longer finite are not put back:
    // the run ends there.
    Status (*average)(Parent *parent, bool *finite, const bool *used, const Mean *mean, const ServerTurn *turn,
                      Error *err);

    // hogwild, ssgd: takes what the workers made of the weights for the model, unless it is not finite.
    Status (*adopt)(Parent *parent, bool *finite, Error *err);

    // Loss and hits on the whole test set, as the round sees it: of the model, or of other weights (parameters), unless
    // these are NULL. answers (test samples): NULL if unused. NULL: the workers do it, in chunks.
    Status (*evaluate)(Parent *parent, BatchResult *result, Answer *answers, const float *weights, uint32_t round,
                       Error *err);
} ParentBackend;

struct Parent {
    const ParentBackend *backend;
    RunMemory *memory;     // borrowed
    Nodes *nodes;          // borrowed
    void *state;           // owned by the backend
    double squared_length; // of the last mean update; NaN where the backend does not measure it
};

extern const ParentBackend parent_on_cpu;

// The noise of a release joins the sum of updates (parameters), on the first node alone; noise: Mean.noise.
void parent_add_noise(int64_t *total, const Parent *parent, double noise, uint32_t round);

#endif
