// Fully connected layers through BLAS. The contract of each function stands in kernels.h.
#ifndef SOUNDER_NN_LINEAR_H
#define SOUNDER_NN_LINEAR_H

#include "nn/kernels.h"
#include "nn/lanes.h"

void ISA_NAME(linear_forward)(float *out, const float *in, const float *weight, const float *bias, const Layer *layer,
                              int count, int samples);
void ISA_NAME(linear_backward)(float *weight_gradient, float *bias_gradient, float *in_gradient, const float *in,
                               const float *out_gradient, const float *weight, const Layer *layer, bool accumulate,
                               int count, int samples);

#endif
