// Fully connected layers. Vectors run along the inputs: no lane is wasted however small the batch, and the weight is
// read where it lies. The contract of each function stands in kernels.h.
#ifndef SOUNDER_NN_LINEAR_H
#define SOUNDER_NN_LINEAR_H

#include "nn/kernels.h"
#include "nn/lanes.h"

void ISA_NAME(linear_forward)(float *out, float *rows, const float *in, const float *weight, const float *bias,
                              const Layer *layer, int count, int samples);
void ISA_NAME(linear_backward_input)(float *in_gradient, float *scratch, const float *out_gradient, const float *weight,
                                     const Layer *layer, int count, int samples);
void ISA_NAME(linear_backward_weight)(float *weight_gradient, float *bias_gradient, float *weight, float *bias,
                                      const float *rows, const float *out_gradient, const Descent *descent,
                                      const Layer *layer, int count, int samples);

#endif
