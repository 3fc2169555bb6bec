// The optimizer of a client: SGD, fused with the backward pass (nn/net.h), or one with its own loop over the gradient
// (worker/stepper.h). Its state starts at zero in every round, unless clients keep it.
#ifndef SOUNDER_FEDAVG_RULES_LOCAL_OPTIMIZER_RULES_H
#define SOUNDER_FEDAVG_RULES_LOCAL_OPTIMIZER_RULES_H

#include <stdint.h>

#include "fedavg/rules/rule.h"
#include "nn/step.h"

enum { OPTIMIZER_SGD, OPTIMIZER_ADAM, OPTIMIZER_ADAMW, OPTIMIZER_COUNT };

typedef struct OptimizerRule {
    RuleText text;
    uint32_t states; // state floats per weight
} OptimizerRule;

extern const OptimizerRule optimizer_rules[OPTIMIZER_COUNT];

// The numbers of adam or adamw; meaningless for sgd.
Adam optimizer_adam(const Chosen *chosen);

#endif
