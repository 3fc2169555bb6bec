// The GPU's side of gru.c, in the way of lstm.cu:
//
//   forward, step t:   gates = W in + b (all steps before) and U outputs(t - 1) + c, their functions, the output
//   backward, step t:  output gradient = U^T (dr, dz, dn r)(t + 1) + z dh (t + 1) + the next layer's part; then the
//                      gates' gradients
//
// A unit has four rows of a tile of the forward product, of which the last one is empty.
#include "nn/cuda/cuda_ops.h"
#include "nn/cuda/cuda_recurrent.h"
#include "nn/kernels/activation.h"

namespace {

enum : uint32_t { GATES = 3, TILE_GATES = 4 }; // reset, update and new, in PyTorch's order

// The tensors kept for the backward pass, for M models, T steps, H units and N columns. An argument of the kernels.
struct Kept {
    float *gates;       // (M, T, 3H,N): sums of the inputs' products; then their functions' values; then gradients
    float *state_gates; // (M, T, 3H,N): of the last one the state's sum; then the gradients of the state's products
    float *states;      // (M, T, H,N): outputs of the step before, zeros at first
    float *carried;     // (M, H,N): z dh of the step after, which is part of the gradient of the output
    uint32_t steps, units, samples;
    bool last; // only the last step's output is given
};

// Computes a step. A block has all gates of its units. out: of all steps, or of the last one alone.
template <uint32_t THREAD_ROWS, uint32_t QUADS>
__global__ void __launch_bounds__(PRODUCT_THREADS)
    gru_forward(Kept kept, float *out, const float *weight, const float *bias, size_t stride, uint32_t t,
                ProductSizes of) {
    using Tile = ProductTile<THREAD_ROWS, QUADS, false, TILE_GATES, GATES>;
    __shared__ Tile tile;
    const ProductPlace at = product_place<Tile>(of);
    const float4 *states = (const float4 *)kept.states + ((size_t)at.lanes * kept.steps + t) * kept.units * of.quads;
    sum_products(tile, weight + at.lanes * stride, states, at.first_row, at.first_quad, of);
    bias += at.lanes * stride;
    for (uint32_t item = threadIdx.x; item < Tile::rows / TILE_GATES * 4 * QUADS; item += PRODUCT_THREADS) {
        const Cell to = cell_of<Tile>(item, at, GATES, kept.units, kept.steps, kept.samples, t);
        if (!to.is_there) continue;
        float *gates = kept.gates + to.gate, from_state[GATES];
        for (uint32_t gate = 0; gate < GATES; gate++)
            from_state[gate] = tile_sum(tile, to.row + gate, to.column) + bias[gate * kept.units + to.unit];
        const float reset = sigmoid_value(gates[0] + from_state[0], 0);
        const float update = sigmoid_value(gates[to.block] + from_state[1], 0);
        const float fresh = tanh_value(fmaf(reset, from_state[2], gates[2 * to.block]), 0);
        const float before = t > 0 ? kept.states[to.place] : 0;
        const float output = fmaf(update, before, __fmul_rn(1 - update, fresh));
        gates[0] = reset, gates[to.block] = update, gates[2 * to.block] = fresh;
        kept.state_gates[to.gate + 2 * to.block] = from_state[2];
        if (t == 0) kept.states[to.place] = 0;
        if (t + 1 < kept.steps) kept.states[to.place + to.block] = output;
        if (!kept.last)
            out[to.place] = output;
        else if (t + 1 == kept.steps)
            out[to.own] = output;
    }
}

// Turns the gradient of a step's output into those of its gates, for both products, and into the part of the previous
// output's gradient that passes by the products. The last step has no later one: it reads neither a product nor
// what is carried.
template <uint32_t THREAD_ROWS, uint32_t QUADS>
__global__ void __launch_bounds__(PRODUCT_THREADS)
    gru_backward(Kept kept, const float *out_gradient, const float *weight, size_t stride, uint32_t t,
                 ProductSizes of) {
    using Tile = ProductTile<THREAD_ROWS, QUADS, true>;
    __shared__ Tile tile;
    const ProductPlace at = product_place<Tile>(of);
    const bool is_last = t + 1 == kept.steps;
    const float4 *later =
        (const float4 *)kept.state_gates + ((size_t)at.lanes * kept.steps + t + 1) * GATES * kept.units * of.quads;
    sum_products(tile, weight + at.lanes * stride, later, at.first_row, at.first_quad, of);
    for (uint32_t item = threadIdx.x; item < Tile::rows * 4 * QUADS; item += PRODUCT_THREADS) {
        const Cell to = cell_of<Tile>(item, at, GATES, kept.units, kept.steps, kept.samples, t);
        if (!to.is_there) continue;
        float given = tile_sum(tile, to.row, to.column) + (is_last ? 0 : kept.carried[to.own]);
        if (!kept.last)
            given += out_gradient[to.place];
        else if (is_last)
            given += out_gradient[to.own];
        float *gates = kept.gates + to.gate, *state_gates = kept.state_gates + to.gate;
        const float reset = gates[0], update = gates[to.block], fresh = gates[2 * to.block];
        const float gradient = given * (1 - update) * (1 - fresh * fresh);
        gates[0] = state_gates[0] = gradient * state_gates[2 * to.block] * reset * (1 - reset);
        gates[to.block] = state_gates[to.block] = given * (kept.states[to.place] - fresh) * update * (1 - update);
        gates[2 * to.block] = gradient;
        state_gates[2 * to.block] = gradient * reset;
        kept.carried[to.own] = given * update;
    }
}

// A layer, its parts among its parameters, and what it keeps.
struct Gru {
    Layer input, state;                          // its products as linear layers of each step
    size_t state_weight, input_bias, state_bias; // offsets from the first parameter
    Kept kept;
};

Gru gru_of(float *kept, const Layer *layer, const CudaStep *step) {
    const int units = lstm_units(layer), features = layer->in.columns;
    const size_t gates = GATES * (size_t)units;
    Gru of = {};
    of.kept.steps = (uint32_t)lstm_steps(layer), of.kept.units = (uint32_t)units;
    of.kept.samples = (uint32_t)step->samples, of.kept.last = layer->last;
    const size_t block = (size_t)step->models * (size_t)units * (size_t)step->samples, all = of.kept.steps * block;
    of.kept.gates = kept, of.kept.state_gates = kept + GATES * all;
    of.kept.states = of.kept.state_gates + GATES * all, of.kept.carried = of.kept.states + all;
    of.input = each_step(of.kept.steps, features, (int)gates), of.state = each_step(of.kept.steps, units, (int)gates);
    of.state_weight = gates * (size_t)features, of.input_bias = gates * (size_t)(features + units);
    of.state_bias = of.input_bias + gates;
    return of;
}

void (*const forward_kernels[2][2])(Kept, float *, const float *, const float *, size_t, uint32_t,
                                    ProductSizes) = BY_TILE(gru_forward);
void (*const backward_kernels[2][2])(Kept, const float *, const float *, size_t, uint32_t,
                                     ProductSizes) = BY_TILE(gru_backward);

} // namespace

// Per step twice three gates and a state; and the gradient that is carried from step to step.
size_t cuda_gru_kept_features(const Layer *layer) {
    return ((size_t)lstm_steps(layer) * (2 * GATES + 1) + 1) * (size_t)lstm_units(layer);
}

void cuda_gru_forward(float *out, float *kept, const float *in, const float *weight, size_t stride, const Layer *layer,
                      const CudaStep *step) {
    const Gru gru = gru_of(kept, layer, step);
    const uint32_t units = gru.kept.units;
    cuda_linear_product(gru.kept.gates, in, weight, weight + gru.input_bias, stride, false, &gru.input, step);
    for (uint32_t t = 0; t < gru.kept.steps; t++) {
        const ProductSizes of = {TILE_GATES * units, t > 0 ? units : 0, gru.kept.samples / 4};
        launch_step(forward_kernels, of, step, gru.kept, out, weight + gru.state_weight, weight + gru.state_bias,
                    stride, t);
    }
}

// Backward through time. The weights' gradients, and the input's, wait until those of all steps are there.
void cuda_gru_backward(float *gradient, float *in_gradient, float *kept, const float *in, const float *out_gradient,
                       const float *weight, size_t stride, size_t gradient_stride, const Layer *layer,
                       const CudaStep *step) {
    const Gru gru = gru_of(kept, layer, step);
    const uint32_t units = gru.kept.units;
    for (uint32_t t = gru.kept.steps; t-- > 0;) {
        const ProductSizes of = {units, t + 1 < gru.kept.steps ? GATES * units : 0, gru.kept.samples / 4};
        launch_step(backward_kernels, of, step, gru.kept, out_gradient, weight + gru.state_weight, stride, t);
    }
    if (in_gradient) cuda_linear_product_back(in_gradient, gru.kept.gates, NULL, weight, stride, &gru.input, step);
    if (!gradient) return;
    cuda_linear_gradient(gradient, gradient + gru.input_bias, in, gru.kept.gates, gradient_stride, &gru.input, step);
    cuda_linear_gradient(gradient + gru.state_weight, gradient + gru.state_bias, gru.kept.states, gru.kept.state_gates,
                         gradient_stride, &gru.state, step);
}
