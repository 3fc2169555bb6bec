// The GPU's side of sequence.c: an embedding and positions.
#include "nn/cuda/cuda_launch.h"
#include "nn/cuda/cuda_ops.h"

namespace {

// An embedding's sizes. Plain data, an argument of the kernels.
struct Table {
    uint32_t vocabulary, width, steps, samples;
};

// As on the CPU, a value that is no row's number becomes the nearest one (NaN: the first).
__device__ uint32_t row_of(float value, uint32_t vocabulary) {
    const float last = (float)(vocabulary - 1);
    return value >= last ? vocabulary - 1 : value > 0 ? (uint32_t)(value + 0.5f) : 0;
}

// A thread per value of a step of a sample.
__global__ void __launch_bounds__(ITEM_THREADS)
    embedding_forward(float *out, const float *in, const float *weight, size_t stride, Table table, uint32_t items,
                      const uint32_t *counts) {
    const ModelItem at = model_item(blockIdx.x, threadIdx.x, ITEM_THREADS, items);
    if (!has_work(at, items, counts)) return;
    const uint32_t place = at.item / table.samples, sample = at.item - place * table.samples;
    const uint32_t step = place / table.width, column = place - step * table.width;
    in += (size_t)at.model * table.steps * table.samples;
    const uint32_t row = row_of(in[step * table.samples + sample], table.vocabulary);
    out[(size_t)at.model * items + at.item] = weight[at.model * stride + (size_t)row * table.width + column];
}

// A thread per parameter, which looks for its row at every step of every sample. So no parameter is added up by several
// threads. The price is that all numbers are read once per row of the table. Tables of characters are small; atomic
// additions would be faster for words, but their order, and so the bits, would change from run to run.
__global__ void __launch_bounds__(ITEM_THREADS)
    embedding_backward(float *weight_gradient, const float *in, const float *out_gradient, size_t stride, Table table,
                       uint32_t items, const uint32_t *counts) {
    const ModelItem at = model_item(blockIdx.x, threadIdx.x, ITEM_THREADS, items);
    if (!has_work(at, items, counts)) return;
    const uint32_t row = at.item / table.width, column = at.item - row * table.width;
    in += (size_t)at.model * table.steps * table.samples;
    out_gradient += ((size_t)at.model * table.steps * table.width + column) * table.samples;
    float sum = 0;
    for (uint32_t step = 0; step < table.steps; step++)
        for (uint32_t s = 0; s < table.samples; s++)
            if (row_of(in[step * table.samples + s], table.vocabulary) == row)
                sum += out_gradient[(size_t)step * table.width * table.samples + s];
    weight_gradient[at.model * stride + at.item] = sum;
}

// The output's shape is (1, T, E): a row of the table for each number.
Table table_of(const Layer *layer, const CudaStep *step) {
    Table table = {(uint32_t)layer->vocabulary, (uint32_t)layer->out.columns, (uint32_t)layer->out.rows,
                   (uint32_t)step->samples};
    return table;
}

// A thread per value of a step of a sample.
__global__ void __launch_bounds__(ITEM_THREADS)
    positions_forward(float *out, const float *in, const float *weight, size_t stride, uint32_t samples, uint32_t items,
                      const uint32_t *counts) {
    const ModelItem at = model_item(blockIdx.x, threadIdx.x, ITEM_THREADS, items);
    if (!has_work(at, items, counts)) return;
    const size_t place = (size_t)at.model * items + at.item;
    out[place] = in[place] + weight[at.model * stride + at.item / samples];
}

} // namespace

void cuda_embedding_forward(float *out, const float *in, const float *weight, size_t stride, const Layer *layer,
                            const CudaStep *step) {
    const Table table = table_of(layer, step);
    const uint32_t items = table.steps * table.width * table.samples;
    launch_items(embedding_forward, items, step, out, in, weight, stride, table, items);
}

void cuda_embedding_backward(float *weight_gradient, const float *in, const float *out_gradient, size_t stride,
                             const Layer *layer, const CudaStep *step) {
    const Table table = table_of(layer, step);
    const uint32_t items = table.vocabulary * table.width;
    launch_items(embedding_backward, items, step, weight_gradient, in, out_gradient, stride, table, items);
}

void cuda_positions_forward(float *out, const float *in, const float *weight, size_t stride, const Layer *layer,
                            const CudaStep *step) {
    const uint32_t samples = (uint32_t)step->samples, items = (uint32_t)shape_size(layer->in) * samples;
    launch_items(positions_forward, items, step, out, in, weight, stride, samples, items);
}

// As on the CPU: the gradient is that of the bias of a linear layer with as many outputs as values.
void cuda_positions_backward(float *weight_gradient, const float *out_gradient, size_t stride, const Layer *layer,
                             const CudaStep *step) {
    cuda_linear_sum_rows(weight_gradient, out_gradient, stride, (int)shape_size(layer->in), step);
}
