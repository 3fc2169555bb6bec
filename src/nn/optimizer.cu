#include "nn/cuda_kernels.h"

enum { THREADS = 256 };

// One thread a parameter, one row of blocks a model.
template <bool ATOMIC>
static __global__ void __launch_bounds__(THREADS)
    sgd_step(float *weights, float *velocity, const float *gradient, Sgd sgd, size_t count, size_t stride,
             const uint32_t *counts) {
    size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x;
    if (i >= count || counts[blockIdx.y] == 0) return;
    float *weight = weights + blockIdx.y * stride + i;
    size_t place = blockIdx.y * count + i;
    float speed = sgd.momentum * velocity[place] + (gradient[place] + sgd.weight_decay * *weight);
    velocity[place] = speed;
    if (ATOMIC)
        atomicAdd(weight, -sgd.lr * speed);
    else
        *weight -= sgd.lr * speed;
}

static cudaLaunchConfig_t launch_of(size_t count, const CudaStep *step) {
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3((unsigned)((count + THREADS - 1) / THREADS), (unsigned)step->models);
    config.blockDim = dim3(THREADS);
    config.stream = step->stream;
    return config;
}

void cuda_sgd_step(float *weights, float *velocity, const float *gradient, const Sgd *sgd, size_t count, size_t stride,
                   const CudaStep *step) {
    cudaLaunchConfig_t config = launch_of(count, step);
    cudaLaunchKernelEx(&config, sgd_step<false>, weights, velocity, gradient, *sgd, count, stride, step->counts);
}

void cuda_sgd_step_atomically(float *weights, float *velocity, const float *gradient, const Sgd *sgd, size_t count,
                              size_t stride, const CudaStep *step) {
    cudaLaunchConfig_t config = launch_of(count, step);
    cudaLaunchKernelEx(&config, sgd_step<true>, weights, velocity, gradient, *sgd, count, stride, step->counts);
}
