// The extents of the axes that a swap exchanges, and of all that follows them.
#ifndef SOUNDER_NN_LAYERS_SWAP_H
#define SOUNDER_NN_LAYERS_SWAP_H

#include "nn/layers/layer.h"

typedef struct SwapSizes {
    size_t first, second, plane;
} SwapSizes;

SwapSizes swap_sizes(const Layer *layer);

#endif
