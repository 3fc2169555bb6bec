// The GPU's side of layers/swap.c: a thread moves four samples of one value. Neighbouring threads write side by side;
// their reads are in blocks of at least a batch, so that no tile in shared memory is needed.
#include "nn/cuda/cuda_launch.h"

namespace {

__global__ void __launch_bounds__(ITEM_THREADS)
    swap_axes(float4 *out, const float4 *in, uint32_t first, uint32_t second, uint32_t block, uint32_t items,
              const uint32_t *counts) {
    const ModelItem at = model_item(blockIdx.x, threadIdx.x, ITEM_THREADS, items);
    if (!has_work(at, items, counts)) return;
    const uint32_t number = at.item / block, b = number / first, a = number - b * first;
    const uint32_t from = (a * second + b) * block + (at.item - number * block);
    out[(size_t)at.model * items + at.item] = in[(size_t)at.model * items + from];
}

} // namespace

void cuda_swap(float *out, const float *in, size_t first, size_t second, size_t plane, const CudaStep *step) {
    const uint32_t block = (uint32_t)(plane * (size_t)step->samples / 4), items = (uint32_t)(first * second) * block;
    launch_items(swap_axes, items, step, (float4 *)out, (const float4 *)in, (uint32_t)first, (uint32_t)second, block,
                 items);
}
