// How conv_columns.c packs weights and stores their gradients, for the ways to convolve that end in its products.
#ifndef SOUNDER_NN_KERNELS_CONV_COLUMNS_H
#define SOUNDER_NN_KERNELS_CONV_COLUMNS_H

#include <stdbool.h>

#include "nn/kernels/product.h"

// Whether lanes of the gradients are output channels, for a group with `outs` of them. Its packed weight (outs, taps)
// is then followed by its transpose, (taps, outs).
static inline bool columns_transpose(int outs) {
    return outs >= SOUNDER_LANES;
}

// The index of weight (o, tap) in the packed gradient of a group.
static inline size_t columns_gradient_place(int o, int tap, int outs, int taps) {
    return columns_transpose(outs) ? (size_t)tap * in_vectors(outs) + (size_t)o : outer_place(o, tap, taps);
}

#endif
