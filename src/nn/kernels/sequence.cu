// The GPU's side of sequence.c: an embedding, positions, and what an lstm does between its products (cuda_lstm.c).
#include "nn/cuda/cuda_launch.h"
#include "nn/cuda/cuda_ops.h"
#include "nn/cuda/cuda_sequence.h"
#include "nn/kernels/activation.h"

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
    embedding_forward(float *out, const float *in, const float *weight, size_t stride, Table table, uint32_t items) {
    const ModelItem at = model_item(blockIdx.x, threadIdx.x, ITEM_THREADS, items);
    if (at.item >= items) return;
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
                       uint32_t items) {
    const ModelItem at = model_item(blockIdx.x, threadIdx.x, ITEM_THREADS, items);
    if (at.item >= items) return;
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
__global__ void __launch_bounds__(ITEM_THREADS) positions_forward(float *out, const float *in, const float *weight,
                                                                  size_t stride, uint32_t samples, uint32_t items) {
    const ModelItem at = model_item(blockIdx.x, threadIdx.x, ITEM_THREADS, items);
    if (at.item >= items) return;
    const size_t place = (size_t)at.model * items + at.item;
    out[place] = in[place] + weight[at.model * stride + at.item / samples];
}

// The four gates of one unit and sample, `block` floats apart. They are the input, forget, cell and output gate, in
// PyTorch's order.
struct Gates {
    float *at;
    size_t block;
    __device__ float &operator[](uint32_t gate) const { return at[gate * block]; }
};

__device__ Gates gates_of(const LstmKept &kept, ModelItem at, uint32_t block, uint32_t t) {
    Gates gates = {kept.gates + 4 * ((size_t)at.model * kept.steps + t) * block + at.item, block};
    return gates;
}

// Computes a step's output from the sums of its products. A thread per unit of a sample. The gates are overwritten by
// their functions' values, which the backward pass needs instead of the sums. With the gates i, f, g, o: cell = f
// before + i g, output = o tanh(cell). Steps depend on each other, so each is a launch, which all units, samples and
// models share.
__global__ void __launch_bounds__(ITEM_THREADS)
    lstm_step_forward(LstmKept kept, float *out, const float *bias, size_t stride, uint32_t t, uint32_t items) {
    const ModelItem at = model_item(blockIdx.x, threadIdx.x, ITEM_THREADS, items);
    if (at.item >= items) return;
    const uint32_t unit = at.item / kept.samples, units = items / kept.samples;
    const Gates gates = gates_of(kept, at, items, t);
    const size_t place = ((size_t)at.model * kept.steps + t) * items + at.item;
    float value[4];
    bias += at.model * stride;
    for (uint32_t gate = 0; gate < 4; gate++) {
        const uint32_t row = gate * units + unit;
        const float sum = gates[gate] + (bias[row] + bias[4 * units + row]);
        value[gate] = gate == 2 ? tanh_value(sum, 0) : sigmoid_value(sum, 0);
        gates[gate] = value[gate];
    }
    const float before = t > 0 ? kept.cells[place - items] : 0;
    const float cell = value[1] * before + value[0] * value[2], output = value[3] * tanh_value(cell, 0);
    kept.cells[place] = cell;
    kept.outputs[place] = output;
    if (!kept.last)
        out[place] = output;
    else if (t + 1 == kept.steps)
        out[(size_t)at.model * items + at.item] = output;
}

// Turns the gradients of a step's output and cell into those of its gates, in their place, and of the previous cell.
// The last step has no gradient from a later one, and reads zeros instead of the arrays, which then need not be
// cleared. With `given` the gradient of the output and `gradient` that of the cell, which also takes given o (1 -
// tanh(cell)^2): each gate's gradient is its factor in the formulas of lstm_step_forward times the derivative of its
// function, s (1 - s) for a sigmoid and 1 - g^2 for tanh. All are computed from values, as the sums are gone.
__global__ void __launch_bounds__(ITEM_THREADS)
    lstm_step_backward(LstmKept kept, const float *out_gradient, uint32_t t, uint32_t items) {
    const ModelItem at = model_item(blockIdx.x, threadIdx.x, ITEM_THREADS, items);
    if (at.item >= items) return;
    const bool is_last = t + 1 == kept.steps;
    const Gates gates = gates_of(kept, at, items, t);
    const size_t own = (size_t)at.model * items + at.item;
    const size_t place = ((size_t)at.model * kept.steps + t) * items + at.item;
    float given = is_last ? 0 : kept.output_gradient[own];
    if (!kept.last)
        given += out_gradient[place];
    else if (is_last)
        given += out_gradient[own];
    const float flat = tanh_value(kept.cells[place], 0), before = t > 0 ? kept.cells[place - items] : 0;
    const float i = gates[0], f = gates[1], g = gates[2], o = gates[3];
    const float gradient = (is_last ? 0 : kept.cell_gradient[own]) + given * o * (1 - flat * flat);
    gates[0] = gradient * g * i * (1 - i);
    gates[1] = gradient * before * f * (1 - f);
    gates[2] = gradient * i * (1 - g * g);
    gates[3] = given * flat * o * (1 - o);
    kept.cell_gradient[own] = gradient * f;
}

// SUM_WIDTH neighbouring threads sum a row's gradients over all steps, each every SUM_WIDTH-th sample; then their sums
// are added in pairs. Both biases have the same gradient.
enum { SUM_WIDTH = 8, SUM_ROWS = ITEM_THREADS / SUM_WIDTH };

__global__ void __launch_bounds__(ITEM_THREADS)
    lstm_bias_sums(float *bias_gradient, LstmKept kept, size_t stride, uint32_t rows) {
    __shared__ float parts[SUM_ROWS][SUM_WIDTH];
    const uint32_t place = threadIdx.x / SUM_WIDTH, x = threadIdx.x % SUM_WIDTH;
    const ModelItem at = model_item(blockIdx.x, place, SUM_ROWS, rows);
    float sum = 0;
    if (at.item < rows)
        for (uint32_t t = 0; t < kept.steps; t++) {
            const float *gates = kept.gates + (((size_t)at.model * kept.steps + t) * rows + at.item) * kept.samples;
            for (uint32_t s = x; s < kept.samples; s += SUM_WIDTH)
                sum += gates[s];
        }
    parts[place][x] = sum;
    for (uint32_t half = SUM_WIDTH / 2; half > 0; half /= 2) {
        __syncthreads();
        if (x < half) parts[place][x] += parts[place][x + half];
    }
    if (x > 0 || at.item >= rows) return;
    bias_gradient[at.model * stride + at.item] = parts[place][0];
    bias_gradient[at.model * stride + rows + at.item] = parts[place][0];
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
    cuda_linear_sum_rows(weight_gradient, out_gradient, stride, 1, (int)shape_size(layer->in), step);
}

void cuda_lstm_step_forward(const LstmKept *kept, float *out, const float *bias, size_t stride, uint32_t t,
                            const CudaStep *step) {
    const uint32_t items = kept->units * kept->samples;
    launch_items(lstm_step_forward, items, step, *kept, out, bias, stride, t, items);
}

void cuda_lstm_step_backward(const LstmKept *kept, const float *out_gradient, uint32_t t, const CudaStep *step) {
    const uint32_t items = kept->units * kept->samples;
    launch_items(lstm_step_backward, items, step, *kept, out_gradient, t, items);
}

void cuda_lstm_bias_gradient(float *bias_gradient, const LstmKept *kept, size_t stride, const CudaStep *step) {
    const uint32_t rows = 4 * kept->units;
    launch(lstm_bias_sums, (size_t)step->models * parts_of(rows, SUM_ROWS), ITEM_THREADS, step->stream, bias_gradient,
           *kept, stride, rows);
}
