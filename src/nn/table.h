// The tables of the builds; kernels.c chooses among those that exist on this architecture.
#ifndef SOUNDER_NN_TABLE_H
#define SOUNDER_NN_TABLE_H

#include "nn/kernels.h"

extern const Kernels kernels_avx512, kernels_avx2, kernels_baseline;

#endif
