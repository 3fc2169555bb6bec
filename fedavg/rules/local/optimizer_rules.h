// How a client steps: SGD, fused with the way back through the net (nn/net.h), or an optimizer with a loop of its own
// over the gradient (worker/stepper.h). What it remembers starts at zero in every round, unless clients keep it.
#ifndef SOUNDER_FEDAVG_RULES_LOCAL_OPTIMIZER_RULES_H
#define SOUNDER_FEDAVG_RULES_LOCAL_OPTIMIZER_RULES_H

#include <stdint.h>

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

#endif
