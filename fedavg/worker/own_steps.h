// Steps of a client's own, second model beside those of the shared one (rules/local/personal_rules.h), and what stays
// where it is in any step.
#ifndef SOUNDER_FEDAVG_WORKER_OWN_STEPS_H
#define SOUNDER_FEDAVG_WORKER_OWN_STEPS_H

#include "fedavg/worker/local_model.h"

// One batch: the second model makes its steps, and the first follows it. result: of the last of them.
void own_step(LocalModel *model, BatchResult *result, const Batch *batch, const Noise *noise);

// One batch, before the model's own step on it: the second model and alpha make a step each, at their mixture.
void own_mix(LocalModel *model, const Batch *batch, const Noise *noise);

// mixed (count) = alpha own + (1 - alpha) shared. mixed may be own. alpha: 0 to 1.
void own_mixture(float *mixed, const float *own, const float *shared, float alpha, size_t count);

// Frozen parameters become those of the global weights again in `weights` (parameters): whatever moved them, decay or a
// rule.
void frozen_restore(float *weights, const RunMemory *memory);

#endif
