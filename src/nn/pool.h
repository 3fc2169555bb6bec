// Max pooling over square windows that do not overlap; rows and columns that do not fill a window are dropped.
// The contract of each function stands in kernels.h.
#ifndef SOUNDER_NN_POOL_H
#define SOUNDER_NN_POOL_H

#include "nn/kernels.h"
#include "nn/lanes.h"

void ISA_NAME(pool_forward)(float *out, const float *in, const Layer *layer, int samples);
void ISA_NAME(pool_backward)(float *in_gradient, const float *in, const float *out_gradient, const Layer *layer,
                             int samples);

#endif
