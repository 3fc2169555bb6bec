// aggregate.h and shard_sum.h on the GPU: the same sums, the same bits; and what else is done with whole models.
#ifndef SOUNDER_FEDAVG_GPU_CUDA_AGGREGATE_H
#define SOUNDER_FEDAVG_GPU_CUDA_AGGREGATE_H

#include <cuda_runtime_api.h>
#include <stddef.h>
#include <stdint.h>

#include "base/host_device.h"
#include "nn/cuda/cuda_net.h"
#include "nn/step.h"

C_BEGIN

// All pointers are device memory; everything is asynchronous on `stream`, and what goes wrong shows in
// cudaGetLastError. Model m of `trained` begins m * stride floats after it. Memory that workers write with a fence
// is left as it is once the fence is closed.

// first_unfit (models): the first element for which the update of that model must be refused, count when there is none.
// global: NULL for zeros, here and in the sum.
void cuda_aggregate_first_unfit(uint64_t *first_unfit, const float *trained, const float *global, size_t count,
                                size_t stride, int models, cudaStream_t stream);

// lengths (models): the squared length of each update trained[m] - global, with the bits of aggregate_squared_update.
void cuda_aggregate_squared_updates(double *lengths, const float *trained, const float *global, size_t count,
                                    size_t stride, int models, cudaStream_t stream);

// sum (count) += fixed point of shares[m] * (trained[m] - global), model by model. Share 0: not added.
void cuda_aggregate_add(int64_t *sum, const float *trained, const float *global, const double *shares, size_t count,
                        size_t stride, int models, const CudaFence *fence, cudaStream_t stream);

// weights (models strided; count) = global (count), for each model.
void cuda_broadcast(float *weights, const float *global, size_t count, size_t stride, int models, cudaStream_t stream);

// Parameters that stay with a client: rows (models, floats) hold their difference from the global ones, and float j of
// a row belongs to parameter places[j] of its model. The first call adds the rows to the weights; the second one writes
// the rows and leaves the global parameters in the weights.
void cuda_join_own(float *weights, const float *rows, const uint32_t *places, uint32_t floats, size_t stride,
                   int models, cudaStream_t stream);
void cuda_take_own(float *rows, float *weights, const float *global, const uint32_t *places, uint32_t floats,
                   size_t stride, int models, cudaStream_t stream);

// The shards of a step of synchronous SGD. Passed to the kernel by value: the counts alone are an array in device
// memory, which does not change during a run.
typedef struct CudaShards {
    const float *gradients; // shard s: (count) from gradients + s * stride on
    size_t stride;          // floats
    const uint32_t *counts; // (shards): samples of each in an epoch
    uint32_t shards, batch_size;
    uint32_t number, total; // of the batch; samples of all shards in it
} CudaShards;

// weights (count), velocity (count): one step of SGD on the mean of the shards' gradients, weighted by their samples
// and summed along the tree of shard_sum.h: the sum has the bits of the CPU, the step need not have them (the compiler
// fuses its products and sums). A caller of a slice moves all pointers on by as much.
void cuda_ssgd_step(float *weights, float *velocity, const CudaShards *shards, const Sgd *sgd, size_t count,
                    const CudaFence *fence, cudaStream_t stream);

// to (bytes, a multiple of 4) = from, or zeros if that is NULL: into memory that processes share. A kernel does it,
// since a plain copy could not look at the fence when it begins.
void cuda_copy_shared(void *to, const void *from, size_t bytes, const CudaFence *fence, cudaStream_t stream);

C_END

#endif
