// The costs of a training step on the GPU, part by part.
//
//   CudaCost costs[CUDA_MOST_COSTS];
//   TRY(cuda_net_costs(net, costs, &count, err));      // trains a step: a task must have one left
//
// Bytes and operations are counted, not measured: every tensor that a kernel reads or writes counts once, regardless of
// caches; a multiplication and an addition are two operations. Padded columns count as bytes and not as operations.
#ifndef SOUNDER_TOOLS_BENCH_GPU_CUDA_COSTS_H
#define SOUNDER_TOOLS_BENCH_GPU_CUDA_COSTS_H

#include "nn/cuda/cuda_net.h"

enum { CUDA_MOST_COSTS = 4 * SPEC_MAX_LAYERS + 3, CUDA_COST_NAME_BYTES = 40 };

typedef struct CudaCost {
    char name[CUDA_COST_NAME_BYTES]; // "conv 2 gradient": that of its parameters
    double microseconds;             // alone and uncaptured, launches included
    double bytes, operations;
} CudaCost;

// Makes the next step of all models, uncaptured, with an event after each part. costs: (CUDA_MOST_COSTS).
Status cuda_net_costs(CudaNet *net, CudaCost *costs, int *count, Error *err);

// The number of kernels in the graph of a step.
Status cuda_net_kernels(CudaNet *net, size_t *kernels, Error *err);

#endif
