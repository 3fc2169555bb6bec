// From bytes of a data set to normalised lanes. The contract stands in kernels.h.
#ifndef SOUNDER_NN_GATHER_H
#define SOUNDER_NN_GATHER_H

#include "nn/kernels.h"
#include "nn/lanes.h"

void ISA_NAME(gather)(float *out, const uint8_t *pixels, const uint32_t *indices, uint32_t first, const float *scale,
                      const float *shift, Shape shape, int count, int samples);
void ISA_NAME(gather_rows)(float *rows, const uint8_t *pixels, const uint32_t *indices, uint32_t first,
                           const float *scale, const float *shift, Shape shape, size_t row_floats, int count);

#endif
