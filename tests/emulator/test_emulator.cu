// Kernels for test_emulator.c: what the emulated GPU must run, and what it must refuse.
#include "test_emulator.h"

static cudaLaunchConfig_t configuration(unsigned int blocks, unsigned int threads, cudaStream_t stream) {
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(blocks);
    config.blockDim = dim3(threads);
    config.stream = stream;
    return config;
}

static __global__ void __launch_bounds__(256) scale(float *values, float factor, size_t count) {
    size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) values[i] *= factor;
}

cudaError_t launch_scale(float *values, float factor, size_t count, cudaStream_t stream) {
    cudaLaunchConfig_t config = configuration((unsigned int)((count + 255) / 256), 256, stream);
    return cudaLaunchKernelEx(&config, scale, values, factor, count);
}

// Sums each block's 128 values in a tree.
static __global__ void __launch_bounds__(128) block_sums(float *sums, const float *values) {
    __shared__ float tree[128];
    unsigned int thread = threadIdx.x;
    tree[thread] = values[blockIdx.x * 128 + thread];
    for (unsigned int half = 64; half > 0; half /= 2) {
        __syncthreads();
        if (thread < half) tree[thread] += tree[thread + half];
    }
    if (thread == 0) sums[blockIdx.x] = tree[0];
}

cudaError_t launch_block_sums(float *sums, const float *values, unsigned int blocks, cudaStream_t stream) {
    cudaLaunchConfig_t config = configuration(blocks, 128, stream);
    return cudaLaunchKernelEx(&config, block_sums, sums, values);
}

// Each block leaves the sum of its 32 thread numbers in sums[block]; `mistake` says what it does wrong.
static __global__ void __launch_bounds__(32) mistaken(float *sums, Mistake mistake) {
    __shared__ float total;
    unsigned int thread = threadIdx.x;
    if (thread == 0 && mistake != READS_UNWRITTEN_SHARED) total = 0;
    if (mistake == SOME_LEAVE_BEFORE_BARRIER && thread == 7) return;
    if (mistake == BARRIERS_DIFFER && thread < 16)
        __syncthreads();
    else
        __syncthreads();
    atomicAdd(&total, (float)thread);
    if (mistake != NO_SECOND_BARRIER) __syncthreads();
    if (thread == (mistake == NO_SECOND_BARRIER ? 16 : 0)) sums[blockIdx.x] = total;
    if (mistake == WRITES_BEHIND_THE_END && thread == 5 && blockIdx.x == 1) sums[gridDim.x + 5000] = 1;
    if (mistake == WRITES_JUST_BEHIND_THE_END && thread == 5) sums[gridDim.x] = 1;
}

cudaError_t launch_mistaken(float *sums, Mistake mistake, unsigned int blocks, cudaStream_t stream) {
    cudaLaunchConfig_t config = configuration(blocks, 32, stream);
    return cudaLaunchKernelEx(&config, mistaken, sums, mistake);
}

cudaError_t launch_threads(float *values, unsigned int threads, cudaStream_t stream) {
    cudaLaunchConfig_t config = configuration(1, threads, stream);
    return cudaLaunchKernelEx(&config, scale, values, 1.0f, (size_t)0);
}
