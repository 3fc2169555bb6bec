#include "linear_cuda.h"

// One thread a float4 of out: four samples of one feature.
enum { BIAS_THREADS = 256 };

// A row is summed by SUM_WIDTH neighbouring threads, each every SUM_WIDTH-th float4; then their sums are added in
// pairs.
enum { SUM_WIDTH = 8, SUM_ROWS = 32 };

// False for a NaN, which therefore stays: a diverged net must show in its loss.
static __device__ float rectify(float value, bool relu) {
    return relu && value < 0 ? 0 : value;
}

static __global__ void __launch_bounds__(BIAS_THREADS)
    add_bias(float4 *out, const float *bias, size_t stride, bool relu, unsigned row, unsigned quads) {
    unsigned i = blockIdx.x * BIAS_THREADS + threadIdx.x;
    if (i >= quads) return;
    float slope = bias[blockIdx.y * stride + i / row];
    float4 *at = out + (size_t)blockIdx.y * quads + i;
    float4 value = *at;
    value.x = rectify(value.x + slope, relu);
    value.y = rectify(value.y + slope, relu);
    value.z = rectify(value.z + slope, relu);
    value.w = rectify(value.w + slope, relu);
    *at = value;
}

void cuda_linear_add_bias(float *out, const float *bias, size_t stride, bool relu, int outs, const CudaStep *step) {
    unsigned row = (unsigned)step->samples / 4, quads = (unsigned)outs * row;
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3((quads + BIAS_THREADS - 1) / BIAS_THREADS, (unsigned)step->models);
    config.blockDim = dim3(BIAS_THREADS);
    config.stream = step->stream;
    cudaLaunchKernelEx(&config, add_bias, (float4 *)out, bias, stride, relu, row, quads);
}

static __global__ void __launch_bounds__(SUM_WIDTH *SUM_ROWS)
    sum_rows(float *sums, const float4 *values, size_t stride, unsigned rows, unsigned row) {
    __shared__ float parts[SUM_ROWS][SUM_WIDTH];
    unsigned r = blockIdx.x * SUM_ROWS + threadIdx.y, x = threadIdx.x;
    float sum = 0;
    if (r < rows) {
        const float4 *from = values + ((size_t)blockIdx.y * rows + r) * row;
        for (unsigned i = x; i < row; i += SUM_WIDTH) {
            float4 four = from[i];
            sum += (four.x + four.y) + (four.z + four.w);
        }
    }
    parts[threadIdx.y][x] = sum;
    for (unsigned half = SUM_WIDTH / 2; half > 0; half /= 2) {
        __syncthreads();
        if (x < half) parts[threadIdx.y][x] += parts[threadIdx.y][x + half];
    }
    if (x == 0 && r < rows) sums[blockIdx.y * stride + r] = parts[threadIdx.y][0];
}

void cuda_linear_sum_rows(float *bias_gradient, const float *out_gradient, size_t stride, int outs,
                          const CudaStep *step) {
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(((unsigned)outs + SUM_ROWS - 1) / SUM_ROWS, (unsigned)step->models);
    config.blockDim = dim3(SUM_WIDTH, SUM_ROWS);
    config.stream = step->stream;
    cudaLaunchKernelEx(&config, sum_rows, bias_gradient, (const float4 *)out_gradient, stride, (unsigned)outs,
                       (unsigned)step->samples / 4);
}
