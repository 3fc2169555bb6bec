// The gradient of a convolution's bias, by the last blocks of the launch that computes the weight's gradient: C++ only.
// They have little to do, beside others that have much, and so cost no launch of their own.
//
//   __shared__ float shared[CONV_BIAS_FLOATS];
//   if (conv_bias_block(shared, bias, gradient, counts)) return; // first, in a kernel of any number of threads
#ifndef SOUNDER_NN_KERNELS_CONV_BIAS_H
#define SOUNDER_NN_KERNELS_CONV_BIAS_H

#include "nn/cuda/cuda_float4.h"

enum { CONV_BIAS_FLOATS = 256 };

// Plain data, an argument of the kernels.
struct ConvBias {
    float *gradient; // (M strided; channels); NULL if the layer has no bias
    size_t stride;
    uint32_t first, channels, quads; // the first of its blocks; quads x 4 floats are a plane of the output's gradient
};

inline ConvBias conv_bias_of(float *gradient, size_t stride, size_t first, const Layer *layer, const CudaStep *step) {
    const uint32_t plane = (uint32_t)(layer->out.rows * layer->out.columns * step->samples);
    return {gradient, stride, (uint32_t)first, (uint32_t)layer->out.channels, plane / 4};
}

// Blocks of a launch whose first bias.first blocks are the weight's: one more for each model and channel.
inline size_t conv_bias_blocks(const ConvBias &bias, const CudaStep *step) {
    return bias.first + (bias.gradient ? (size_t)step->models * bias.channels : 0);
}

// Whether this block is the bias's; if so, it writes the sum of its plane, unless its model is idle. The sum has
// CONV_BIAS_FLOATS parts, added in pairs, so that its bits do not depend on the number of threads.
__device__ inline bool conv_bias_block(float *shared, const ConvBias &bias, const float4 *gradient,
                                       const uint32_t *counts) {
    if (blockIdx.x < bias.first) return false;
    const uint32_t plane = blockIdx.x - bias.first, model = plane / bias.channels;
    if (counts[model] == 0) return true;
    gradient += (size_t)plane * bias.quads;
    for (uint32_t part = threadIdx.x; part < CONV_BIAS_FLOATS; part += blockDim.x) {
        float sum = 0;
        for (uint32_t i = part; i < bias.quads; i += CONV_BIAS_FLOATS)
            sum += sum_of(gradient[i]);
        shared[part] = sum;
    }
    for (uint32_t left = CONV_BIAS_FLOATS / 2; left > 0; left /= 2) {
        __syncthreads();
        for (uint32_t part = threadIdx.x; part < left; part += blockDim.x)
            shared[part] += shared[part + left];
    }
    if (threadIdx.x == 0) bias.gradient[model * bias.stride + (plane - model * bias.channels)] = shared[0];
    return true;
}

#endif
