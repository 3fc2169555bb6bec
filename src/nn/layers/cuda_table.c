// The layers of a GPU, by their kind: cuda_layer.h.
#include "cuda_layer.h"

#define CUDA_LAYER_ROW(kind, row) [kind] = &cuda_##row,
const CudaLayer *const cuda_layers[] = {LAYER_TYPES(CUDA_LAYER_ROW)};
