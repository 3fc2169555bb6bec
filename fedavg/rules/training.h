// How every local training goes, whatever the algorithm: plain data, which the options fill in and workers read in the
// control segment.
#ifndef SOUNDER_FEDAVG_RULES_TRAINING_H
#define SOUNDER_FEDAVG_RULES_TRAINING_H

#include <stdbool.h>
#include <stdint.h>

#include "fedavg/rules/local/optimizer_rules.h"
#include "nn/augment.h"
#include "nn/step.h"

// What a client's optimizer begins its turn with: zeros, what it had, or the mean of what the last cohort had.
enum { OPTIMIZER_FRESH, OPTIMIZER_KEPT, OPTIMIZER_AVERAGED };

// The numbers of every local training.
typedef struct Training {
    Sgd sgd;             // with the rate of the options; run_memory_training has the round's
    LrSchedule schedule; // of that rate
    bool nesterov;
    uint32_t optimizer_state; // OPTIMIZER_*
    double clip;              // of a gradient: its length is at most that; 0: no limit
    uint32_t local_epochs, batch_size;
    bool global_batch;       // ssgd: the shards share one batch
    uint32_t hogwild_update; // HOGWILD_*
    Augment augment;         // what training makes of images
    double label_smoothing;  // the share of a label that all classes get alike
} Training;

#endif
