// The settings of local training that all algorithms share: plain data, which the options fill in and workers read in
// the control segment.
#ifndef SOUNDER_FEDAVG_RULES_TRAINING_H
#define SOUNDER_FEDAVG_RULES_TRAINING_H

#include <stdbool.h>
#include <stdint.h>

#include "nn/augment.h"
#include "nn/step.h"

// The learning rate of a round: a pure function of the options and the round, constant within a round. The parent of
// node 0 computes it and sends it to all nodes and workers with the round's order: powers and cosines may differ
// between C libraries.
//
//   float lr = lr_at(&training.schedule, training.sgd.lr, round);      // round 1, 2, ...

typedef enum LrKind { LR_CONSTANT, LR_STEP, LR_EXPONENTIAL, LR_COSINE } LrKind;

typedef struct LrSchedule {
    uint32_t kind;    // LrKind
    uint32_t warm_up; // rounds in which the rate rises linearly to its first value; the schedule begins after them
    uint32_t step;    // LR_STEP: rounds between two falls
    uint32_t rounds;  // LR_COSINE: the round in which it ends, warm-up included
    double gamma;     // LR_STEP, LR_EXPONENTIAL: the factor of each fall
    double minimum;   // LR_COSINE: the rate at its end
} LrSchedule;

float lr_at(const LrSchedule *schedule, float lr, uint32_t round);

// How a client's optimizer starts its turn: from zeros, from its own last state, or from the mean state of the last
// cohort. Fresh is FedAvg's way. A kept state is client state and belongs to the client's row; an averaged one is
// summed beside the updates and is one vector for all clients.
enum { OPTIMIZER_FRESH, OPTIMIZER_KEPT, OPTIMIZER_AVERAGED };

// Steps that hide each single sample (rules/privacy/sample_privacy.h).
typedef struct SamplePrivacy {
    double clip;  // the largest length of one sample's gradient; 0: steps are not private
    double noise; // deviation of the noise on the sum of a batch's gradients, in clips
    double delta; // for which epsilon is reported
} SamplePrivacy;

// The settings of every local training.
typedef struct Training {
    Sgd sgd;             // with the rate of the options; run_memory_training sets the round's
    LrSchedule schedule; // of that rate
    bool nesterov;
    uint32_t optimizer_state; // OPTIMIZER_*
    double clip;              // the largest length of a gradient; 0: no limit
    SamplePrivacy privacy;
    uint32_t local_epochs, batch_size;
    bool global_batch;       // ssgd: the shards share one batch
    uint32_t hogwild_update; // HOGWILD_*
    Augment augment;         // how training changes images
    double label_smoothing;  // the share of a label that is spread over all classes
} Training;

#endif
