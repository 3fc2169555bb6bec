// Stochastic gradient descent with momentum and weight decay. The contract stands in kernels.h.
#ifndef SOUNDER_NN_OPTIMIZER_H
#define SOUNDER_NN_OPTIMIZER_H

#include "nn/kernels.h"
#include "nn/lanes.h"

void ISA_NAME(sgd_step)(float *weights, float *velocity, const float *gradient, float lr, float momentum,
                        float weight_decay, size_t count);

#endif
