#include "cuda_aggregate.h"

#include <cuda_runtime.h>
#include <float.h>

// As aggregate.c: the same operations in the same order, each rounded on its own. The _rn functions are never fused
// with their neighbours, which the compiler would otherwise do.

enum { THREADS = 256 };

static const double UNIT = 0x1p40;     // one, in fixed point
static const float LIMIT = 1048576.0f; // 2^20: updates from here on are refused

static cudaLaunchConfig_t launch_of(size_t count, int rows, cudaStream_t stream) {
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3((unsigned)((count + THREADS - 1) / THREADS), (unsigned)rows);
    config.blockDim = dim3(THREADS);
    config.stream = stream;
    return config;
}

static __global__ void __launch_bounds__(THREADS) expect_none(uint64_t *first_unfit, size_t count, int models) {
    int m = (int)(blockIdx.x * THREADS + threadIdx.x);
    if (m < models) first_unfit[m] = count;
}

static __global__ void __launch_bounds__(THREADS)
    find_unfit(uint64_t *first_unfit, const float *trained, const float *global, size_t count, size_t stride,
               float limit) {
    size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x;
    if (i >= count) return;
    // A comparison with a NaN is false, so this also finds what is not a number.
    bool fits = fabsf(trained[blockIdx.y * stride + i] - global[i]) < limit;
    if (!fits) atomicMin((unsigned long long *)&first_unfit[blockIdx.y], (unsigned long long)i);
}

void cuda_aggregate_first_unfit(uint64_t *first_unfit, const float *trained, const float *global, size_t count,
                                size_t stride, int models, cudaStream_t stream) {
    cudaLaunchConfig_t all = launch_of((size_t)models, 1, stream), each = launch_of(count, models, stream);
    cudaLaunchKernelEx(&all, expect_none, first_unfit, count, models);
    cudaLaunchKernelEx(&each, find_unfit, first_unfit, trained, global, count, stride, LIMIT);
}

// One thread a weight: the models one after the other, all into one integer.
static __global__ void __launch_bounds__(THREADS)
    add_updates(int64_t *sum, const float *trained, const float *global, const double *shares, size_t count,
                size_t stride, int models, double unit) {
    size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x;
    if (i >= count) return;
    double from = (double)global[i];
    int64_t total = sum[i];
#pragma unroll 4
    for (int m = 0; m < models; m++) {
        double update = __dsub_rn((double)trained[(size_t)m * stride + i], from);
        int64_t fixed = __double2ll_rn(__dmul_rn(update, __dmul_rn(shares[m], unit)));
        if (shares[m] > 0) total += fixed;
    }
    sum[i] = total;
}

void cuda_aggregate_add(int64_t *sum, const float *trained, const float *global, const double *shares, size_t count,
                        size_t stride, int models, cudaStream_t stream) {
    cudaLaunchConfig_t config = launch_of(count, 1, stream);
    cudaLaunchKernelEx(&config, add_updates, sum, trained, global, shares, count, stride, models, UNIT);
}

static __global__ void __launch_bounds__(THREADS)
    apply_sums(float *weights, float *host_view, uint32_t *not_finite, const int64_t *sums, size_t slot_stride,
               const uint8_t *used, int slots, double scale, size_t count) {
    size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x;
    if (i >= count) return;
    int64_t total = 0;
    for (int s = 0; s < slots; s++)
        if (used[s]) total += sums[(size_t)s * slot_stride + i];
    float weight = __double2float_rn(__dadd_rn((double)weights[i], __dmul_rn(__ll2double_rn(total), scale)));
    weights[i] = weight;
    host_view[i] = weight;
    if (!(fabsf(weight) <= FLT_MAX)) atomicAdd(not_finite, 1u);
}

void cuda_aggregate_apply(float *weights, float *host_view, uint32_t *not_finite, const int64_t *sums,
                          size_t slot_stride, const uint8_t *used, int slots, double arrived, size_t count,
                          cudaStream_t stream) {
    cudaLaunchConfig_t config = launch_of(count, 1, stream);
    // What fails shows in cudaGetLastError, as with launches.
    (void)cudaMemsetAsync(not_finite, 0, sizeof *not_finite, stream);
    cudaLaunchKernelEx(&config, apply_sums, weights, host_view, not_finite, sums, slot_stride, used, slots,
                       1.0 / (UNIT * arrived), count);
}
