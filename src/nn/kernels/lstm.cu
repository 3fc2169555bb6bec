// The GPU's side of an lstm. Products of the inputs need no earlier step, so that one launch computes them for all
// steps, before the steps or after them. A step's own product and what follows it are one launch for all models:
//
//   forward, step t:   gates = W in + b (all steps before) + U outputs(t - 1) + c, their functions, cell and output
//   backward, step t:  output gradient = U^T gate gradients(t + 1) + what comes from above; then the gates' gradients
//
// The bits of a model depend neither on the number of models nor on the GPU (cuda_product.h): products whose sum could
// be rounded in two ways say in which.
#include "nn/cuda/cuda_ops.h"
#include "nn/cuda/cuda_recurrent.h"
#include "nn/kernels/activation.h"

namespace {

enum : uint32_t { GATES = 4 }; // input, forget, cell and output gate, in PyTorch's order

// The tensors kept for the backward pass, for M models, T steps, H units and N columns. An argument of the kernels.
struct Kept {
    float *gates;         // (M, T, 4H,N): sums of the inputs' products; then their functions' values; then gradients
    float *cells;         // (M, T, H,N)
    float *states;        // (M, T, H,N): outputs of the step before, zeros at first
    float *cell_gradient; // (M, H,N): of the step before
    uint32_t steps, units, samples;
    bool last; // only the last step's output is given
};

// Computes a step. A block has all four gates of its units. out: of all steps, or of the last one alone.
template <uint32_t THREAD_ROWS, uint32_t QUADS>
__global__ void __launch_bounds__(PRODUCT_THREADS)
    step_forward(Kept kept, float *out, const float *weight, const float *bias, size_t stride, uint32_t t,
                 ProductSizes of) {
    using Tile = ProductTile<THREAD_ROWS, QUADS, false, GATES>;
    __shared__ Tile tile;
    const ProductPlace at = product_place<Tile>(of);
    const float4 *states = (const float4 *)kept.states + ((size_t)at.lanes * kept.steps + t) * kept.units * of.quads;
    sum_products(tile, weight + at.lanes * stride, states, at.first_row, at.first_quad, of);
    bias += at.lanes * stride;
    for (uint32_t item = threadIdx.x; item < Tile::rows / GATES * 4 * QUADS; item += PRODUCT_THREADS) {
        const Cell to = cell_of<Tile>(item, at, GATES, kept.units, kept.steps, kept.samples, t);
        if (!to.is_there) continue;
        float value[GATES];
        for (uint32_t gate = 0; gate < GATES; gate++) {
            float *sum = kept.gates + to.gate + gate * to.block;
            const float from_state = tile_sum(tile, to.row + gate, to.column) + bias[gate * kept.units + to.unit];
            const float all = *sum + from_state;
            *sum = value[gate] = gate == 2 ? tanh_value(all, 0) : sigmoid_value(all, 0);
        }
        const float before = t > 0 ? kept.cells[to.place - to.block] : 0;
        const float cell = fmaf(value[1], before, __fmul_rn(value[0], value[2]));
        const float output = value[3] * tanh_value(cell, 0);
        kept.cells[to.place] = cell;
        if (t == 0) kept.states[to.place] = 0;
        if (t + 1 < kept.steps) kept.states[to.place + to.block] = output;
        if (!kept.last)
            out[to.place] = output;
        else if (t + 1 == kept.steps)
            out[to.own] = output;
    }
}

// Turns the gradients of a step's output and cell into those of its gates, in their place, and of the cell before. The
// last step has no later one: it reads no product and no cell_gradient, which then need not be cleared. With `given`
// the gradient of the output and `gradient` that of the cell, which also takes given o (1 - tanh(cell)^2): each gate's
// gradient is its factor in the formulas of step_forward times the derivative of its function, s (1 - s) for a sigmoid
// and 1 - g^2 for tanh. All are computed from values, as the sums are gone.
template <uint32_t THREAD_ROWS, uint32_t QUADS>
__global__ void __launch_bounds__(PRODUCT_THREADS)
    step_backward(Kept kept, const float *out_gradient, const float *weight, size_t stride, uint32_t t,
                  ProductSizes of) {
    using Tile = ProductTile<THREAD_ROWS, QUADS, true>;
    __shared__ Tile tile;
    const ProductPlace at = product_place<Tile>(of);
    const bool is_last = t + 1 == kept.steps;
    const float4 *later =
        (const float4 *)kept.gates + ((size_t)at.lanes * kept.steps + t + 1) * GATES * kept.units * of.quads;
    sum_products(tile, weight + at.lanes * stride, later, at.first_row, at.first_quad, of);
    for (uint32_t item = threadIdx.x; item < Tile::rows * 4 * QUADS; item += PRODUCT_THREADS) {
        const Cell to = cell_of<Tile>(item, at, GATES, kept.units, kept.steps, kept.samples, t);
        if (!to.is_there) continue;
        float given = tile_sum(tile, to.row, to.column);
        if (!kept.last)
            given += out_gradient[to.place];
        else if (is_last)
            given += out_gradient[to.own];
        float *gates = kept.gates + to.gate;
        const float i = gates[0], f = gates[to.block], g = gates[2 * to.block], o = gates[3 * to.block];
        const float flat = tanh_value(kept.cells[to.place], 0), before = t > 0 ? kept.cells[to.place - to.block] : 0;
        const float gradient = fmaf(given * o, 1 - flat * flat, is_last ? 0 : kept.cell_gradient[to.own]);
        gates[0] = gradient * g * i * (1 - i);
        gates[to.block] = gradient * before * f * (1 - f);
        gates[2 * to.block] = gradient * i * (1 - g * g);
        gates[3 * to.block] = given * flat * o * (1 - o);
        kept.cell_gradient[to.own] = gradient * f;
    }
}

// A layer, its parts among its parameters, and what it keeps.
struct Lstm {
    Layer input, state;                          // its products as linear layers of each step
    size_t state_weight, input_bias, state_bias; // offsets from the first parameter
    Kept kept;
};

Lstm lstm_of(float *kept, const Layer *layer, const CudaStep *step) {
    const int units = lstm_units(layer), features = layer->in.columns;
    const size_t gates = GATES * (size_t)units;
    Lstm of = {};
    of.kept.steps = (uint32_t)lstm_steps(layer), of.kept.units = (uint32_t)units;
    of.kept.samples = (uint32_t)step->samples, of.kept.last = layer->last;
    const size_t block = (size_t)step->models * (size_t)units * (size_t)step->samples, all = of.kept.steps * block;
    of.kept.gates = kept, of.kept.cells = kept + GATES * all;
    of.kept.states = of.kept.cells + all, of.kept.cell_gradient = of.kept.states + all;
    of.input = each_step(of.kept.steps, features, (int)gates), of.state = each_step(of.kept.steps, units, (int)gates);
    of.state_weight = gates * (size_t)features, of.input_bias = gates * (size_t)(features + units);
    of.state_bias = of.input_bias + gates;
    return of;
}

void (*const forward_kernels[2][2])(Kept, float *, const float *, const float *, size_t, uint32_t,
                                    ProductSizes) = BY_TILE(step_forward);
void (*const backward_kernels[2][2])(Kept, const float *, const float *, size_t, uint32_t,
                                     ProductSizes) = BY_TILE(step_backward);

} // namespace

// Per step four gates, a cell and a state; and the gradient that is carried from cell to cell.
size_t cuda_lstm_kept_features(const Layer *layer) {
    return ((size_t)lstm_steps(layer) * (GATES + 2) + 1) * (size_t)lstm_units(layer);
}

void cuda_lstm_forward(float *out, float *kept, const float *in, const float *weight, size_t stride, const Layer *layer,
                       const CudaStep *step) {
    const Lstm lstm = lstm_of(kept, layer, step);
    const uint32_t units = lstm.kept.units;
    cuda_linear_product(lstm.kept.gates, in, weight, weight + lstm.input_bias, stride, false, &lstm.input, step);
    for (uint32_t t = 0; t < lstm.kept.steps; t++) {
        const ProductSizes of = {GATES * units, t > 0 ? units : 0, lstm.kept.samples / 4};
        launch_step(forward_kernels, of, step, lstm.kept, out, weight + lstm.state_weight, weight + lstm.state_bias,
                    stride, t);
    }
}

// Backward through time. The gates' gradients of a step overwrite its gates; the weights' gradients, and the input's,
// wait until those of all steps are there.
void cuda_lstm_backward(float *gradient, float *in_gradient, float *kept, const float *in, const float *out_gradient,
                        const float *weight, size_t stride, size_t gradient_stride, const Layer *layer,
                        const CudaStep *step) {
    const Lstm lstm = lstm_of(kept, layer, step);
    const uint32_t units = lstm.kept.units;
    for (uint32_t t = lstm.kept.steps; t-- > 0;) {
        const ProductSizes of = {units, t + 1 < lstm.kept.steps ? GATES * units : 0, lstm.kept.samples / 4};
        launch_step(backward_kernels, of, step, lstm.kept, out_gradient, weight + lstm.state_weight, stride, t);
    }
    if (in_gradient) cuda_linear_product_back(in_gradient, lstm.kept.gates, NULL, weight, stride, &lstm.input, step);
    if (!gradient) return;
    cuda_linear_gradient(gradient, gradient + lstm.input_bias, in, lstm.kept.gates, gradient_stride, &lstm.input, step);
    cuda_linear_gradient(gradient + lstm.state_weight, gradient + lstm.state_bias, lstm.kept.states, lstm.kept.gates,
                         gradient_stride, &lstm.state, step);
}
