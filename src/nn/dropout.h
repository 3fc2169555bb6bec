// Dropout (Srivastava et al., JMLR 2014) of elements or, as dropout2d, of whole channels. The masks come from Philox,
// so they depend on seed, round, client, layer, step, sample and feature alone. Contracts: kernels.h.
#ifndef SOUNDER_NN_DROPOUT_H
#define SOUNDER_NN_DROPOUT_H

#include "nn/kernels.h"
#include "nn/lanes.h"

void ISA_NAME(dropout_draw)(int8_t *keep, const DropoutNoise *noise, size_t features, int samples);
void ISA_NAME(dropout_apply)(float *values, const int8_t *keep, float rate, size_t features, size_t plane, int samples);

#endif
