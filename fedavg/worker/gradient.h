// Changes a gradient before a step is made of it: still parts are cleared, long ones are clipped.
#ifndef SOUNDER_FEDAVG_WORKER_GRADIENT_H
#define SOUNDER_FEDAVG_WORKER_GRADIENT_H

#include "fedavg/worker/local_model.h"

// Clears model->steps.gradient of layers in the still range, and of tensors that are frozen or follow batches.
void gradient_zero_still(LocalModel *model);

// Scales the gradient (count) down to the length `most`, unless that is 0 or it is no longer.
void clip_gradient(float *gradient, double most, size_t count);

#endif
