// What fedavg and ssgd do with whole models on the card, besides the sums of cuda_aggregate.h. All pointers are device
// memory; everything is asynchronous on `stream`.
#ifndef SOUNDER_FEDAVG_CARD_CUDA_ROUNDS_H
#define SOUNDER_FEDAVG_CARD_CUDA_ROUNDS_H

#include <cuda_runtime_api.h>
#include <stddef.h>
#include <stdint.h>

#include "nn/step.h"

#ifdef __cplusplus
extern "C" {
#endif

// weights (models, count) = global (count), for each model.
void cuda_broadcast(float *weights, const float *global, size_t count, int models, cudaStream_t stream);

// The shards of a step of synchronous SGD.
typedef struct CudaShards {
    const float *gradients; // shard s: (count) from gradients + s * stride on
    size_t stride;          // floats
    const uint32_t *counts; // (shards): samples of each in an epoch
    uint32_t shards, batch_size;
    uint32_t number, total; // of the batch; samples of all shards in it
} CudaShards;

// weights (count), velocity (count): one step of SGD on the mean of the shards' gradients, weighted by their samples
// and summed in the order of the shards. A caller of a slice moves all pointers on by as much.
void cuda_ssgd_step(float *weights, float *velocity, const CudaShards *shards, const Sgd *sgd, size_t count,
                    cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
