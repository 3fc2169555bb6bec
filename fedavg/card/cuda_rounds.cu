#include "fedavg/card/cuda_rounds.h"

#include <cuda_runtime.h>

#include "fedavg/rules/ssgd_index.h"

enum { BLOCK_THREADS = 256 };

static __global__ void __launch_bounds__(BLOCK_THREADS)
    broadcast(float *__restrict__ weights, const float *__restrict__ global, size_t count) {
    size_t i = (size_t)blockIdx.x * BLOCK_THREADS + threadIdx.x;
    if (i < count) weights[blockIdx.y * count + i] = global[i];
}

static __global__ void __launch_bounds__(BLOCK_THREADS)
    ssgd_step(float *weights, float *velocity, CudaShards shards, Sgd sgd, size_t count) {
    size_t i = (size_t)blockIdx.x * BLOCK_THREADS + threadIdx.x;
    if (i >= count) return;
    float mean = 0;
    for (uint32_t s = 0; s < shards.shards; s++) {
        uint32_t samples = ssgd_batch_samples(shards.counts[s], shards.number, shards.batch_size);
        // A shard without samples in this step has left an old gradient in its slot.
        if (samples > 0) mean += (float)samples / (float)shards.total * shards.gradients[s * shards.stride + i];
    }
    velocity[i] = sgd_velocity(velocity[i], mean, weights[i], &sgd);
    weights[i] -= sgd.lr * velocity[i];
}

static unsigned blocks_of(size_t count) {
    return (unsigned)((count + BLOCK_THREADS - 1) / BLOCK_THREADS);
}

extern "C" void cuda_broadcast(float *weights, const float *global, size_t count, int models, cudaStream_t stream) {
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(blocks_of(count), (unsigned)models);
    config.blockDim = dim3(BLOCK_THREADS);
    config.stream = stream;
    cudaLaunchKernelEx(&config, broadcast, weights, global, count);
}

extern "C" void cuda_ssgd_step(float *weights, float *velocity, const CudaShards *shards, const Sgd *sgd, size_t count,
                               cudaStream_t stream) {
    if (count == 0) return;
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(blocks_of(count));
    config.blockDim = dim3(BLOCK_THREADS);
    config.stream = stream;
    cudaLaunchKernelEx(&config, ssgd_step, weights, velocity, *shards, *sgd, count);
}
