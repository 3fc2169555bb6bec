// How a client steps: SGD, fused with the way back through the net (nn/net.h), or an optimizer with a loop of its own
// over the gradient (worker/stepper.h). What it remembers starts at zero in every round, unless clients keep it.
#ifndef SOUNDER_FEDAVG_RULES_LOCAL_OPTIMIZER_RULES_H
#define SOUNDER_FEDAVG_RULES_LOCAL_OPTIMIZER_RULES_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/host_device.h"
#include "fedavg/rules/rule.h"
#include "nn/step.h"

enum { OPTIMIZER_SGD, OPTIMIZER_ADAM, OPTIMIZER_ADAMW, OPTIMIZER_COUNT };

typedef struct OptimizerRule {
    RuleText text;
    uint32_t states; // floats that it remembers of a weight
} OptimizerRule;

extern const OptimizerRule optimizer_rules[OPTIMIZER_COUNT];

// What was chosen of adam or adamw; means nothing with sgd.
Adam optimizer_adam(const Chosen *chosen);

// The learning rate of a round: a pure function of the options and the round, constant inside it. The parent of the
// first node computes it (powers and cosines may differ between C libraries) and gives it to everybody with the round's
// order.
//
//   float lr = lr_at(&training.schedule, training.sgd.lr, round);      // round 1, 2, ...

typedef enum LrKind { LR_CONSTANT, LR_STEP, LR_EXPONENTIAL, LR_COSINE } LrKind;

typedef struct LrSchedule {
    uint32_t kind;    // LrKind
    uint32_t warm_up; // rounds in which the rate rises to its first value; the schedule begins behind them
    uint32_t step;    // LR_STEP: rounds between two falls
    uint32_t rounds;  // LR_COSINE: the round in which it ends, counted with the warm-up
    double gamma;     // LR_STEP, LR_EXPONENTIAL: what the rate is multiplied by
    double minimum;   // LR_COSINE
} LrSchedule;

float lr_at(const LrSchedule *schedule, float lr, uint32_t round);

#endif
