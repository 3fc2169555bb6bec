// Part of cuda_layer.h: the layers of a GPU, by their kind.
#include "cuda_layer.h"

#define CUDA_LAYER_ROW(kind, row) [kind] = &cuda_##row,
const CudaLayer *const cuda_layers[] = {LAYER_TYPES(CUDA_LAYER_ROW)};
