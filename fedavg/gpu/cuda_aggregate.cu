#include "cuda_aggregate.h"

#include "fedavg/rules/sum/shard_sum.h"
#include "nn/cuda/cuda_launch.h"

// As aggregate.c: the same operations in the same order, each rounded on its own. The _rn functions are never fused
// with their neighbours, which the compiler would otherwise do.

namespace {

constexpr double UNIT = 0x1p40;     // one, in fixed point
constexpr float LIMIT = 1048576.0f; // 2^20: updates from here on are refused

// Runs before find_unfit in its stream: atomicMin then finds the least index for each model, whatever the order of the
// threads, so that the log names the weight that a worker on the CPU would name.
__global__ void __launch_bounds__(ITEM_THREADS) expect_none(uint64_t *first_unfit, size_t count, int models) {
    int m = (int)(blockIdx.x * ITEM_THREADS + threadIdx.x);
    if (m < models) first_unfit[m] = count;
}

__global__ void __launch_bounds__(ITEM_THREADS)
    find_unfit(uint64_t *first_unfit, const float *trained, const float *global, uint32_t count, size_t stride) {
    ModelItem at = model_item(blockIdx.x, threadIdx.x, ITEM_THREADS, count);
    if (at.item >= count) return;
    // A comparison with a NaN is false, so this also finds what is not a number.
    bool fits = fabsf(trained[at.model * stride + at.item] - (global ? global[at.item] : 0)) < LIMIT;
    if (!fits) atomicMin((unsigned long long *)&first_unfit[at.model], (unsigned long long)at.item);
}

enum {
    SUM_LANES = 16,
    SQUARES = 2048,
    SUMMING_THREADS = 32
}; // lanes of aggregate.c; a tile's elements; the first warp

// The squared length of a model's update, one block per model. The elements of one lane are SUM_LANES apart and are
// added one after the other, then the lanes in pairs, as in aggregate.c. The first warp sums a tile while the others
// fill the next one.
__global__ void __launch_bounds__(ITEM_THREADS)
    sum_squares(double *lengths, const float *trained, const float *global, size_t count, size_t stride) {
    __shared__ double squares[2][SQUARES];
    double lane = 0;
    trained += blockIdx.x * stride;
    for (size_t tile = 0; tile * SQUARES < count + SQUARES; tile++) {
        double *next = squares[tile % 2];
        const double *full = squares[(tile + 1) % 2];
        for (size_t i = threadIdx.x - SUMMING_THREADS; threadIdx.x >= SUMMING_THREADS && i < SQUARES;
             i += ITEM_THREADS - SUMMING_THREADS) {
            const size_t at = tile * SQUARES + i;
            const double change = at < count ? __dsub_rn((double)trained[at], (double)global[at]) : 0;
            next[i] = __dmul_rn(change, change);
        }
        for (size_t i = threadIdx.x; threadIdx.x < SUM_LANES && tile > 0 && i < SQUARES; i += SUM_LANES)
            lane = __dadd_rn(lane, full[i]);
        __syncthreads();
    }
    double *lanes = squares[0];
    if (threadIdx.x < SUM_LANES) lanes[threadIdx.x] = lane;
    for (uint32_t half = SUM_LANES / 2; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) lanes[threadIdx.x] = __dadd_rn(lanes[threadIdx.x], lanes[threadIdx.x + half]);
    }
    if (threadIdx.x == 0) lengths[blockIdx.x] = lanes[0];
}

// One thread per weight adds the models one after the other, all into one integer: integer sums are exact, so that
// neither the number of models in a launch nor the order of the workers changes a bit. A refused model has share 0; its
// numbers, which need not be finite, are computed and dropped. One read and one write of the sum serve all models of
// the launch.
__global__ void __launch_bounds__(ITEM_THREADS)
    add_updates(int64_t *sum, const float *trained, const float *global, const double *shares, size_t count,
                size_t stride, int models, CudaFence fence) {
    size_t i = (size_t)blockIdx.x * ITEM_THREADS + threadIdx.x;
    if (i >= count || !is_open(fence)) return;
    double from = global ? (double)global[i] : 0;
    int64_t total = sum[i];
#pragma unroll 4
    for (int m = 0; m < models; m++) {
        double update = __dsub_rn((double)trained[(size_t)m * stride + i], from);
        int64_t fixed = __double2ll_rn(__dmul_rn(update, __dmul_rn(shares[m], UNIT)));
        if (shares[m] > 0) total += fixed;
    }
    sum[i] = total;
}

// One block of threads per ITEM_THREADS items; the threads after the last item return at once.
size_t blocks_of(size_t count) {
    return (count + ITEM_THREADS - 1) / ITEM_THREADS;
}

// One thread per weight of a model.
__global__ void __launch_bounds__(ITEM_THREADS)
    broadcast(float *__restrict__ weights, const float *__restrict__ global, uint32_t count, size_t stride) {
    ModelItem at = model_item(blockIdx.x, threadIdx.x, ITEM_THREADS, count);
    if (at.item < count) weights[at.model * stride + at.item] = global[at.item];
}

// One thread per float of a client's row, which belongs to the parameter at `places`.
__global__ void __launch_bounds__(ITEM_THREADS)
    join_own(float *weights, const float *rows, const uint32_t *places, uint32_t floats, size_t stride) {
    const ModelItem at = model_item(blockIdx.x, threadIdx.x, ITEM_THREADS, floats);
    if (at.item < floats) weights[at.model * stride + places[at.item]] += rows[(size_t)at.model * floats + at.item];
}

__global__ void __launch_bounds__(ITEM_THREADS)
    take_own(float *rows, float *weights, const float *global, const uint32_t *places, uint32_t floats, size_t stride) {
    const ModelItem at = model_item(blockIdx.x, threadIdx.x, ITEM_THREADS, floats);
    if (at.item >= floats) return;
    const uint32_t place = places[at.item];
    float *own = weights + at.model * stride + place;
    rows[(size_t)at.model * floats + at.item] = *own - global[place];
    *own = global[place];
}

enum { TREE_LEVELS = 20 }; // for up to 2^20 - 1 shards

// Sums the leaves of shard_sum.h's tree in their order: level l holds the sum of a whole block of 2^l shards while bit
// l of the number of leaves so far is set. The loops are unrolled, so that the levels stay in registers.
struct ShardTree {
    float level[TREE_LEVELS];

    __device__ void add(uint32_t leaves_so_far, float leaf) {
        bool carries = true;
#pragma unroll
        for (int l = 0; l < TREE_LEVELS; l++) {
            bool full = (leaves_so_far >> l & 1) != 0;
            if (carries && full) leaf = __fadd_rn(level[l], leaf);
            if (carries && !full) level[l] = leaf, carries = false;
        }
    }

    __device__ float sum(uint32_t leaves) const {
        float total = 0;
        bool any = false;
#pragma unroll
        for (int l = 0; l < TREE_LEVELS; l++) {
            if ((leaves >> l & 1) == 0) continue;
            total = any ? __fadd_rn(level[l], total) : level[l];
            any = true;
        }
        return total;
    }
};

// One thread per weight computes the mean over all shards and makes the step. Each weight has one writer, the worker of
// its slice, so that no atomic operation is needed; the fence stops the kernel of a worker that has died.
__global__ void __launch_bounds__(ITEM_THREADS)
    ssgd_step(float *weights, float *velocity, CudaShards shards, Sgd sgd, size_t count, CudaFence fence) {
    size_t i = (size_t)blockIdx.x * ITEM_THREADS + threadIdx.x;
    if (i >= count || !is_open(fence)) return;
    ShardTree tree = {};
    for (uint32_t s = 0; s < shards.shards; s++) {
        uint32_t samples = shard_batch_samples(shards.counts[s], shards.number, shards.batch_size);
        float share = (float)samples / (float)shards.total;
        // A shard without samples in this step has left an old gradient in its slot.
        tree.add(s, samples > 0 ? __fmul_rn(share, shards.gradients[s * shards.stride + i]) : 0.0f);
    }
    velocity[i] = sgd_velocity(velocity[i], tree.sum(shards.shards), weights[i], &sgd);
    weights[i] -= sgd.lr * velocity[i];
}

// A kernel instead of a copy by the driver: only a kernel can look at the fence at the moment when it runs.
__global__ void __launch_bounds__(ITEM_THREADS)
    copy_words(uint32_t *to, const uint32_t *from, size_t words, CudaFence fence) {
    size_t i = (size_t)blockIdx.x * ITEM_THREADS + threadIdx.x;
    if (i < words && is_open(fence)) to[i] = from ? from[i] : 0;
}

} // namespace

void cuda_aggregate_first_unfit(uint64_t *first_unfit, const float *trained, const float *global, size_t count,
                                size_t stride, int models, cudaStream_t stream) {
    launch(expect_none, blocks_of((size_t)models), ITEM_THREADS, stream, first_unfit, count, models);
    launch(find_unfit, (size_t)models * blocks_of(count), ITEM_THREADS, stream, first_unfit, trained, global,
           (uint32_t)count, stride);
}

void cuda_aggregate_squared_updates(double *lengths, const float *trained, const float *global, size_t count,
                                    size_t stride, int models, cudaStream_t stream) {
    launch(sum_squares, (size_t)models, ITEM_THREADS, stream, lengths, trained, global, count, stride);
}

void cuda_aggregate_add(int64_t *sum, const float *trained, const float *global, const double *shares, size_t count,
                        size_t stride, int models, const CudaFence *fence, cudaStream_t stream) {
    launch(add_updates, blocks_of(count), ITEM_THREADS, stream, sum, trained, global, shares, count, stride, models,
           *fence);
}

void cuda_broadcast(float *weights, const float *global, size_t count, size_t stride, int models, cudaStream_t stream) {
    launch(broadcast, (size_t)models * blocks_of(count), ITEM_THREADS, stream, weights, global, (uint32_t)count,
           stride);
}

void cuda_join_own(float *weights, const float *rows, const uint32_t *places, uint32_t floats, size_t stride,
                   int models, cudaStream_t stream) {
    launch(join_own, (size_t)models * blocks_of(floats), ITEM_THREADS, stream, weights, rows, places, floats, stride);
}

void cuda_take_own(float *rows, float *weights, const float *global, const uint32_t *places, uint32_t floats,
                   size_t stride, int models, cudaStream_t stream) {
    launch(take_own, (size_t)models * blocks_of(floats), ITEM_THREADS, stream, rows, weights, global, places, floats,
           stride);
}

void cuda_ssgd_step(float *weights, float *velocity, const CudaShards *shards, const Sgd *sgd, size_t count,
                    const CudaFence *fence, cudaStream_t stream) {
    if (count > 0)
        launch(ssgd_step, blocks_of(count), ITEM_THREADS, stream, weights, velocity, *shards, *sgd, count, *fence);
}

void cuda_copy_shared(void *to, const void *from, size_t bytes, const CudaFence *fence, cudaStream_t stream) {
    size_t words = bytes / sizeof(uint32_t);
    launch(copy_words, blocks_of(words), ITEM_THREADS, stream, (uint32_t *)to, (const uint32_t *)from, words, *fence);
}
