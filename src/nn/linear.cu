// The kernels of linear_cuda.c.
#include "nn/cuda_ops.h"

#include "nn/cuda_launch.h"

namespace {

// A row is summed by SUM_WIDTH neighbouring threads, each every SUM_WIDTH-th float4; then their sums are added in
// pairs.
enum { SUM_WIDTH = 8, SUM_ROWS = ITEM_THREADS / SUM_WIDTH };

// False for a NaN, which therefore stays: a diverged net must show in its loss.
__device__ float rectified(float value, bool relu) {
    return relu && value < 0 ? 0 : value;
}

// One thread for four samples of one feature.
__global__ void __launch_bounds__(ITEM_THREADS)
    add_bias(float4 *out, const float *bias, size_t stride, bool relu, uint32_t row, uint32_t items) {
    ModelItem at = model_item(blockIdx.x, threadIdx.x, ITEM_THREADS, items);
    if (at.item >= items) return;
    float shift = bias[at.model * stride + at.item / row];
    out += (size_t)at.model * items + at.item;
    float4 value = *out;
    *out = make_float4(rectified(value.x + shift, relu), rectified(value.y + shift, relu),
                       rectified(value.z + shift, relu), rectified(value.w + shift, relu));
}

__global__ void __launch_bounds__(ITEM_THREADS)
    sum_rows(float *sums, const float4 *values, size_t stride, uint32_t rows, uint32_t row) {
    __shared__ float parts[SUM_ROWS][SUM_WIDTH];
    uint32_t place = threadIdx.x / SUM_WIDTH, x = threadIdx.x % SUM_WIDTH;
    ModelItem at = model_item(blockIdx.x, place, SUM_ROWS, rows);
    float sum = 0;
    if (at.item < rows) {
        values += ((size_t)at.model * rows + at.item) * row;
        for (uint32_t i = x; i < row; i += SUM_WIDTH) {
            float4 four = values[i];
            sum += (four.x + four.y) + (four.z + four.w);
        }
    }
    parts[place][x] = sum;
    for (uint32_t half = SUM_WIDTH / 2; half > 0; half /= 2) {
        __syncthreads();
        if (x < half) parts[place][x] += parts[place][x + half];
    }
    if (x == 0 && at.item < rows) sums[at.model * stride + at.item] = parts[place][0];
}

} // namespace

void cuda_linear_add_bias(float *out, const float *bias, size_t stride, bool relu, int outs, const CudaStep *step) {
    uint32_t row = (uint32_t)step->samples / 4, items = (uint32_t)outs * row;
    launch_items(add_bias, items, step, (float4 *)out, bias, stride, relu, row, items);
}

void cuda_linear_sum_rows(float *bias_gradient, const float *out_gradient, size_t stride, int outs,
                          const CudaStep *step) {
    uint32_t rows = (uint32_t)outs;
    launch(sum_rows, (size_t)step->models * parts_of(rows, SUM_ROWS), ITEM_THREADS, step->stream, bias_gradient,
           (const float4 *)out_gradient, stride, rows, (uint32_t)step->samples / 4);
}
