// Softmax and cross-entropy in one, numerically stable. The contract stands in kernels.h.
#ifndef SOUNDER_NN_LOSS_H
#define SOUNDER_NN_LOSS_H

#include "nn/kernels.h"
#include "nn/lanes.h"

double ISA_NAME(softmax_cross_entropy)(float *gradient, uint32_t *hits, const float *logits, const uint8_t *labels,
                                       float scale, int classes, int count, int samples);

#endif
