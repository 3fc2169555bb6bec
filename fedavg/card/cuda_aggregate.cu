#include "cuda_aggregate.h"

#include <float.h>

#include "nn/cuda_launch.h"

// As aggregate.c: the same operations in the same order, each rounded on its own. The _rn functions are never fused
// with their neighbours, which the compiler would otherwise do.

namespace {

constexpr double UNIT = 0x1p40;     // one, in fixed point
constexpr float LIMIT = 1048576.0f; // 2^20: updates from here on are refused

__global__ void __launch_bounds__(ITEM_THREADS) expect_none(uint64_t *first_unfit, size_t count, int models) {
    int m = (int)(blockIdx.x * ITEM_THREADS + threadIdx.x);
    if (m < models) first_unfit[m] = count;
}

__global__ void __launch_bounds__(ITEM_THREADS)
    find_unfit(uint64_t *first_unfit, const float *trained, const float *global, uint32_t count, size_t stride) {
    ModelItem at = model_item(blockIdx.x, threadIdx.x, ITEM_THREADS, count);
    if (at.item >= count) return;
    // A comparison with a NaN is false, so this also finds what is not a number.
    bool fits = fabsf(trained[at.model * stride + at.item] - global[at.item]) < LIMIT;
    if (!fits) atomicMin((unsigned long long *)&first_unfit[at.model], (unsigned long long)at.item);
}

// One thread a weight: the models one after the other, all into one integer.
__global__ void __launch_bounds__(ITEM_THREADS)
    add_updates(int64_t *sum, const float *trained, const float *global, const double *shares, size_t count,
                size_t stride, int models) {
    size_t i = (size_t)blockIdx.x * ITEM_THREADS + threadIdx.x;
    if (i >= count) return;
    double from = (double)global[i];
    int64_t total = sum[i];
#pragma unroll 4
    for (int m = 0; m < models; m++) {
        double update = __dsub_rn((double)trained[(size_t)m * stride + i], from);
        int64_t fixed = __double2ll_rn(__dmul_rn(update, __dmul_rn(shares[m], UNIT)));
        if (shares[m] > 0) total += fixed;
    }
    sum[i] = total;
}

__global__ void __launch_bounds__(ITEM_THREADS)
    apply_sums(float *weights, float *host_view, uint32_t *not_finite, const int64_t *sums, size_t slot_stride,
               const uint8_t *used, int slots, double scale, size_t count) {
    size_t i = (size_t)blockIdx.x * ITEM_THREADS + threadIdx.x;
    if (i >= count) return;
    int64_t total = 0;
    for (int s = 0; s < slots; s++)
        if (used[s]) total += sums[(size_t)s * slot_stride + i];
    float weight = __double2float_rn(__dadd_rn((double)weights[i], __dmul_rn(__ll2double_rn(total), scale)));
    weights[i] = weight;
    host_view[i] = weight;
    if (!(fabsf(weight) <= FLT_MAX)) atomicAdd(not_finite, 1u);
}

size_t blocks_of(size_t count) {
    return (count + ITEM_THREADS - 1) / ITEM_THREADS;
}

} // namespace

void cuda_aggregate_first_unfit(uint64_t *first_unfit, const float *trained, const float *global, size_t count,
                                size_t stride, int models, cudaStream_t stream) {
    launch(expect_none, blocks_of((size_t)models), ITEM_THREADS, stream, first_unfit, count, models);
    launch(find_unfit, (size_t)models * blocks_of(count), ITEM_THREADS, stream, first_unfit, trained, global,
           (uint32_t)count, stride);
}

void cuda_aggregate_add(int64_t *sum, const float *trained, const float *global, const double *shares, size_t count,
                        size_t stride, int models, cudaStream_t stream) {
    launch(add_updates, blocks_of(count), ITEM_THREADS, stream, sum, trained, global, shares, count, stride, models);
}

void cuda_aggregate_apply(float *weights, float *host_view, uint32_t *not_finite, const int64_t *sums,
                          size_t slot_stride, const uint8_t *used, int slots, double arrived, size_t count,
                          cudaStream_t stream) {
    // What fails shows in cudaGetLastError, as with launches.
    (void)cudaMemsetAsync(not_finite, 0, sizeof *not_finite, stream);
    launch(apply_sums, blocks_of(count), ITEM_THREADS, stream, weights, host_view, not_finite, sums, slot_stride, used,
           slots, 1.0 / (UNIT * arrived), count);
}
