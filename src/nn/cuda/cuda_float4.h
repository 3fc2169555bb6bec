// Arithmetic on four neighbouring samples, which kernels read and write as one float4, and sums over the threads of a
// block: C++ only.
//
//   __shared__ float shared[THREADS];
//   const float total = sum_block(shared, own);     // for all threads of the block, all of which must call it
#ifndef SOUNDER_NN_CUDA_CUDA_FLOAT4_H
#define SOUNDER_NN_CUDA_CUDA_FLOAT4_H

#include "nn/cuda/cuda_launch.h"

__device__ inline float4 plus(float4 a, float4 b) {
    return make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w);
}

__device__ inline float4 minus(float4 a, float4 b) {
    return make_float4(a.x - b.x, a.y - b.y, a.z - b.z, a.w - b.w);
}

__device__ inline float4 times(float4 a, float4 b) {
    return make_float4(a.x * b.x, a.y * b.y, a.z * b.z, a.w * b.w);
}

__device__ inline float4 scaled(float4 a, float factor) {
    return make_float4(a.x * factor, a.y * factor, a.z * factor, a.w * factor);
}

__device__ inline float4 shifted(float4 a, float shift) {
    return make_float4(a.x + shift, a.y + shift, a.z + shift, a.w + shift);
}

__device__ inline float sum_of(float4 value) {
    return (value.x + value.y) + (value.z + value.w);
}

// False for a NaN, which therefore stays: a diverged net must show in its loss.
__device__ inline float rectified(float value) {
    return value < 0 ? 0 : value;
}

__device__ inline float4 rectified(float4 value) {
    return make_float4(rectified(value.x), rectified(value.y), rectified(value.z), rectified(value.w));
}

// The gradient of a relu's input; `out` is the relu's output or its input. False for a NaN, whose gradient therefore
// stays.
__device__ inline float rectified_gradient(float gradient, float out) {
    return out <= 0 ? 0 : gradient;
}

__device__ inline float4 rectified_gradient(float4 gradient, float4 out) {
    return make_float4(rectified_gradient(gradient.x, out.x), rectified_gradient(gradient.y, out.y),
                       rectified_gradient(gradient.z, out.z), rectified_gradient(gradient.w, out.w));
}

// The sum of all threads' values, which are added in pairs: a fixed order, so that every run has the same bits.
// `shared` can be used again at once. THREADS is a power of two.
template <typename Number, int THREADS> __device__ Number sum_block(Number (&shared)[THREADS], Number value) {
    __syncthreads(); // a former sum has been read
    shared[threadIdx.x] = value;
    for (uint32_t left = THREADS / 2; left > 0; left /= 2) {
        __syncthreads();
        if (threadIdx.x < left) shared[threadIdx.x] += shared[threadIdx.x + left];
    }
    __syncthreads();
    return shared[0];
}

#endif
