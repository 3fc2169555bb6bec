// What an update counts that has become stale: a part of a recipe, for a schedule in which nobody waits (schedule.h).
// Its staleness is the number of versions of the model between the one it began from and the one that it moves.
//
// Delay compensation (DC-ASGD: Zheng, Meng, Wang, Chen, Yu, Ma, Liu, ICML 2017, Algorithm 2) takes the gradient to
// where the weights are now, with g g for the Hessian's diagonal:
//
//   g + lambda g g (now - begun),   g = -update / lr
//
// which needs the update and the weights that it began with when it comes: those wait with it (memory/layout.h).
//
// With mixes=models (FedAsync, schedule.h) the step goes to the client's weights instead of by its update:
//
//   begun + update - now
//
// It is added as the update and the difference begun - now, for fixed point holds differences of weights, not weights.
#ifndef SOUNDER_FEDAVG_RULES_WORLD_STALE_RULES_H
#define SOUNDER_FEDAVG_RULES_WORLD_STALE_RULES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fedavg/rules/rule.h"

enum { STALE_CONSTANT, STALE_POLYNOMIAL, STALE_HINGE, STALE_INVERSE, STALE_COMPENSATED, STALE_COUNT };
extern const RuleText stale_rules[STALE_COUNT];

// In (0, 1].
double stale_weight(const Chosen *rule, uint32_t staleness);

// Whether late updates are compensated: not where lambda is 0.
bool stale_compensates(const Chosen *rule);

// Whether the weights that a late update began with wait beside it: to compensate it, or to mix models.
bool stale_wants_begun(const Chosen *rule, const Chosen *schedule);

// update (count), in units of 2^-40, += share * (begun - now). False, and nothing is added, where that is 2^22 or more
// for a weight, so that with an update (aggregate.h) it would not fit into 64 bits: the update has to be refused.
bool stale_mix(int64_t *update, const float *begun, const float *now, double share, size_t count);

// update (count), in units of 2^-40: of a client that began with these weights, at this learning rate. False when an
// element no longer fits an update (aggregate.h), and the update has to be refused.
bool stale_compensate(int64_t *update, const float *begun, const float *now, const Chosen *rule, double lr,
                      size_t count);

#endif
