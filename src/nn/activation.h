// Rectified linear units, in place. The contract of each function stands in kernels.h.
#ifndef SOUNDER_NN_ACTIVATION_H
#define SOUNDER_NN_ACTIVATION_H

#include "nn/kernels.h"
#include "nn/lanes.h"

void ISA_NAME(relu_forward)(float *values, size_t features, int samples);
void ISA_NAME(relu_backward)(float *gradient, const float *out, size_t features, int samples);

#endif
