// The gradient of a batch that hides each of its samples (rules/privacy/sample_privacy.h).
//
//   private_gradient(model, &result, &batch, size, &noise);     // into model->steps.gradient
#ifndef SOUNDER_FEDAVG_WORKER_PRIVATE_GRADIENT_H
#define SOUNDER_FEDAVG_WORKER_PRIVATE_GRADIENT_H

#include "fedavg/worker/local_model.h"

// steps.gradient = (sum of the samples' gradients, each clipped, + noise) / size. batch: the drawn samples as the data
// set has them, possibly none; the client's view is applied here. size: of a batch in the mean. Frozen tensors and
// still layers are left out of the gradients before these are clipped.
void private_gradient(LocalModel *model, BatchResult *result, const Batch *batch, uint32_t size, const Noise *noise);

#endif
