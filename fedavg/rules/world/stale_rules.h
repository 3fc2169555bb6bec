// The weight of a stale update: a part of a recipe, for the buffered schedule (schedule.h). Staleness is the number of
// versions of the model between the one that an update began from and the one that it moves.
//
// Delay compensation (DC-ASGD: Zheng, Meng, Wang, Chen, Yu, Ma, Liu, ICML 2017, Algorithm 2) extrapolates the gradient
// to the current weights, with g g in place of the Hessian's diagonal:
//
//   g + lambda g g (now - begun),   g = -update / lr
//
// It needs the update and the weights that it began with at the time of its step, so these wait beside it
// (memory/layout.h).
//
// With mixes=models (FedAsync, schedule.h) the step goes towards the client's weights instead of adding its update:
//
//   begun + update - now
//
// It is added in two parts, the update and the difference begun - now, because fixed point holds differences of
// weights, not weights.
#ifndef SOUNDER_FEDAVG_RULES_WORLD_STALE_RULES_H
#define SOUNDER_FEDAVG_RULES_WORLD_STALE_RULES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fedavg/rules/rule.h"

enum { STALE_CONSTANT, STALE_POLYNOMIAL, STALE_HINGE, STALE_INVERSE, STALE_COMPENSATED, STALE_COUNT };
extern const RuleText stale_rules[STALE_COUNT];

// The factor of the weight, in (0, 1].
double stale_weight(const Chosen *rule, uint32_t staleness);

// Whether late updates are compensated; false for lambda = 0.
bool stale_compensates(const Chosen *rule);

// Whether the weights that a late update began with are kept with it: for compensation, or for mixing models.
bool stale_wants_begun(const Chosen *rule, const Chosen *schedule);

// update (count), in units of 2^-40, += share * (begun - now). Returns false and adds nothing if an element reaches
// 2^22: together with an update (aggregate.h) it would not fit into 64 bits, so the update must be refused.
bool stale_mix(int64_t *update, const float *begun, const float *now, double share, size_t count);

// Compensates update (count), in units of 2^-40, of a client that began with these weights, at this learning rate.
// Returns false if an element no longer fits an update (aggregate.h), which must then be refused.
bool stale_compensate(int64_t *update, const float *begun, const float *now, const Chosen *rule, double lr,
                      size_t count);

#endif
