// What a step of training costs on the GPU, part by part: for tools.
//
//   CudaCost costs[CUDA_MOST_COSTS];
//   TRY(cuda_net_costs(net, costs, &count, err));      // trains a step: the tasks have one left
//
// Bytes and operations are counted, not measured: every tensor that a kernel reads or writes counts once, whatever
// caches do; a multiplication and an addition are two operations. Padded columns count as bytes and not as operations.
#ifndef SOUNDER_NN_CUDA_CUDA_COSTS_H
#define SOUNDER_NN_CUDA_CUDA_COSTS_H

#include "nn/cuda/cuda_net.h"

enum { CUDA_MOST_COSTS = 4 * SPEC_MAX_LAYERS + 3, CUDA_COST_NAME_BYTES = 40 };

typedef struct CudaCost {
    char name[CUDA_COST_NAME_BYTES]; // "conv2 gradients"
    double microseconds;             // alone and uncaptured, launches included
    double bytes, operations;
} CudaCost;

// The next step of all models, uncaptured, with an event behind each part. costs: (CUDA_MOST_COSTS).
Status cuda_net_costs(CudaNet *net, CudaCost *costs, int *count, Error *err);

// Kernels of a step as a graph has them.
Status cuda_net_kernels(CudaNet *net, size_t *kernels, Error *err);

#endif
