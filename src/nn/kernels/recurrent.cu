// The GPU's side of an lstm and a gru. Products of the inputs need no earlier step, so that one launch computes them
// for all steps, before the steps or after them. A step's own product and its gates' functions are one launch for all
// models: a block's tile of the product has all gates of its units. For an lstm:
//
//   forward, step t:   gates = W in + b (all steps before) + U outputs(t - 1) + c, their functions, cell and output
//   backward, step t:  output gradient = U^T gate gradients(t + 1) + the next layer's part; then the gates' gradients
//
// The bits of a model depend neither on the number of models nor on the GPU (cuda_product.h): products whose sum could
// be rounded in two ways say in which.
#include "nn/cuda/cuda_ops.h"
#include "nn/cuda/cuda_product.h"
#include "nn/kernels/activation.h"

namespace {

// The tensors kept for the backward pass, for M models, T steps, G gates, H units and N columns. An argument of the
// kernels.
struct Kept {
    float *gates;   // (M, T, G H,N): sums of the inputs' products; then their functions' values; then gradients
    float *own;     // Lstm: cells (M, T, H,N); Gru: state gates (M, T, G H,N)
    float *states;  // (M, T, H,N): outputs of the step before, zeros at first
    float *carried; // (M, H,N): a gradient for the step before: Lstm: of its cell; Gru: a part of its output's
    uint32_t steps, units, samples;
    bool last; // only the last step's output is given
};

// A unit of a sample at one step, of which a thread computes what follows the product.
struct Cell {
    uint32_t row, column, unit;     // row: of the unit's first row in the tile; column: of its sample there
    bool is_there;                  // in the layer, too
    bool is_first, is_last;         // of the steps
    size_t own, place, gate, block; // offsets in (M, H,N), in (M, T, H,N), of the first gate; from gate to gate
};

// Input, forget, cell and output gate, in PyTorch's order.
struct Lstm {
    static const uint32_t gates = 4, tile_gates = 4;
    static const uint32_t own_values = 1; // of a unit, sample and step in Kept.own

    // Returns the output; from_state: the gates' sums of the state's products.
    static __device__ float forward(const Kept &kept, const Cell &at, const float (&from_state)[gates]) {
        float value[gates];
        for (uint32_t gate = 0; gate < gates; gate++) {
            float *sum = kept.gates + at.gate + gate * at.block;
            const float all = *sum + from_state[gate];
            *sum = value[gate] = gate == 2 ? tanh_value(all, 0) : sigmoid_value(all, 0);
        }
        const float before = at.is_first ? 0 : kept.own[at.place - at.block];
        const float cell = fmaf(value[1], before, __fmul_rn(value[0], value[2]));
        kept.own[at.place] = cell;
        return value[3] * tanh_value(cell, 0);
    }

    // The gradients of the products of a step's state.
    static float *state_gradients(const Kept &kept) { return kept.gates; }

    // From `product`, the next step's part of the output's gradient, and `given`, the next layer's, to the gates'
    // gradients, in the gates' place. With `gradient` that of the cell, which also takes output o (1 - tanh(cell)^2),
    // each gate's is its factor in the formulas of forward() times the derivative of its function, s (1 - s) for a
    // sigmoid and 1 - g^2 for tanh. All are computed from values, as the sums are gone.
    static __device__ void backward(const Kept &kept, const Cell &at, float product, float given) {
        float *gate = kept.gates + at.gate;
        const float output = product + given;
        const float i = gate[0], f = gate[at.block], g = gate[2 * at.block], o = gate[3 * at.block];
        const float flat = tanh_value(kept.own[at.place], 0), before = at.is_first ? 0 : kept.own[at.place - at.block];
        const float gradient = fmaf(output * o, 1 - flat * flat, at.is_last ? 0 : kept.carried[at.own]);
        gate[0] = gradient * g * i * (1 - i);
        gate[at.block] = gradient * before * f * (1 - f);
        gate[2 * at.block] = gradient * i * (1 - g * g);
        gate[3 * at.block] = output * flat * o * (1 - o);
        kept.carried[at.own] = gradient * f;
    }
};

// Reset, update and new gate, in PyTorch's order; the fourth of a unit's rows of the forward product's tile is empty.
// The state gates are: of the last one the sum of the state's products; then the gradients of the state's products.
struct Gru {
    static const uint32_t gates = 3, tile_gates = 4;
    static const uint32_t own_values = gates;

    static __device__ float forward(const Kept &kept, const Cell &at, const float (&from_state)[gates]) {
        float *gate = kept.gates + at.gate;
        const float reset = sigmoid_value(gate[0] + from_state[0], 0);
        const float update = sigmoid_value(gate[at.block] + from_state[1], 0);
        const float fresh = tanh_value(fmaf(reset, from_state[2], gate[2 * at.block]), 0);
        gate[0] = reset, gate[at.block] = update, gate[2 * at.block] = fresh;
        kept.own[at.gate + 2 * at.block] = from_state[2];
        const float before = at.is_first ? 0 : kept.states[at.place];
        return fmaf(update, before, __fmul_rn(1 - update, fresh));
    }

    static float *state_gradients(const Kept &kept) { return kept.own; }

    static __device__ void backward(const Kept &kept, const Cell &at, float product, float given) {
        float *gate = kept.gates + at.gate, *state_gate = kept.own + at.gate;
        const float output = product + (at.is_last ? 0 : kept.carried[at.own]) + given;
        const float reset = gate[0], update = gate[at.block], fresh = gate[2 * at.block];
        const float gradient = output * (1 - update) * (1 - fresh * fresh);
        gate[0] = state_gate[0] = gradient * state_gate[2 * at.block] * reset * (1 - reset);
        gate[at.block] = state_gate[at.block] = output * (kept.states[at.place] - fresh) * update * (1 - update);
        gate[2 * at.block] = gradient;
        state_gate[2 * at.block] = gradient * reset;
        kept.carried[at.own] = output * update;
    }
};

// The cell of a block's number `item`. Each unit has Tile::parts rows of the tile, and Kind::gates kept ones.
template <typename Kind, typename Tile>
__device__ Cell cell_of(uint32_t item, const ProductPlace &at, const Kept &kept, uint32_t t) {
    const uint32_t columns = 4 * Tile::quads, number = item / columns;
    Cell cell;
    cell.row = number * Tile::parts, cell.column = item - number * columns;
    cell.unit = at.first_row / Tile::parts + number;
    const uint32_t sample = 4 * at.first_quad + cell.column;
    cell.is_there = cell.unit < kept.units && sample < kept.samples;
    cell.is_first = t == 0, cell.is_last = t + 1 == kept.steps;
    cell.block = (size_t)kept.units * kept.samples;
    const size_t in_block = (size_t)cell.unit * kept.samples + sample, step = (size_t)at.lanes * kept.steps + t;
    cell.own = at.lanes * cell.block + in_block;
    cell.place = step * cell.block + in_block;
    cell.gate = Kind::gates * step * cell.block + in_block;
    return cell;
}

// Computes a step. A block has all gates of its units. out: of all steps, or of the last one alone.
template <typename Kind, uint32_t THREAD_ROWS, uint32_t QUADS>
__global__ void __launch_bounds__(PRODUCT_THREADS)
    recurrent_forward(Kept kept, float *out, const float *weight, const float *bias, size_t stride, uint32_t t,
                      ProductSizes of, const uint32_t *counts) {
    using Tile = ProductTile<THREAD_ROWS, QUADS, false, Kind::tile_gates, Kind::gates>;
    __shared__ Tile tile;
    const ProductPlace at = product_place<Tile>(of);
    if (counts[at.lanes] == 0) return; // the whole block
    const float4 *states = (const float4 *)kept.states + ((size_t)at.lanes * kept.steps + t) * kept.units * of.quads;
    sum_products(tile, weight + at.lanes * stride, states, at.first_row, at.first_quad, of);
    bias += at.lanes * stride;
    for (uint32_t item = threadIdx.x; item < Tile::rows / Tile::parts * 4 * QUADS; item += PRODUCT_THREADS) {
        const Cell to = cell_of<Kind, Tile>(item, at, kept, t);
        if (!to.is_there) continue;
        float from_state[Kind::gates];
        for (uint32_t gate = 0; gate < Kind::gates; gate++)
            from_state[gate] = tile_sum(tile, to.row + gate, to.column) + bias[gate * kept.units + to.unit];
        const float output = Kind::forward(kept, to, from_state);
        if (to.is_first) kept.states[to.place] = 0;
        if (!to.is_last) kept.states[to.place + to.block] = output;
        if (!kept.last)
            out[to.place] = output;
        else if (to.is_last)
            out[to.own] = output;
    }
}

// Turns the gradient of a step's output into those of its gates and into Kept.carried. The last step has no later one:
// it reads neither a product nor Kept.carried, which then need not be cleared.
template <typename Kind, uint32_t THREAD_ROWS, uint32_t QUADS>
__global__ void __launch_bounds__(PRODUCT_THREADS)
    recurrent_backward(Kept kept, const float *state_gradients, const float *out_gradient, const float *weight,
                       size_t stride, uint32_t t, ProductSizes of, const uint32_t *counts) {
    using Tile = ProductTile<THREAD_ROWS, QUADS, true>;
    __shared__ Tile tile;
    const ProductPlace at = product_place<Tile>(of);
    if (counts[at.lanes] == 0) return; // the whole block
    const size_t step = (size_t)at.lanes * kept.steps + t;
    const float4 *later = (const float4 *)state_gradients + (step + 1) * Kind::gates * kept.units * of.quads;
    sum_products(tile, weight + at.lanes * stride, later, at.first_row, at.first_quad, of);
    for (uint32_t item = threadIdx.x; item < Tile::rows * 4 * QUADS; item += PRODUCT_THREADS) {
        const Cell to = cell_of<Kind, Tile>(item, at, kept, t);
        if (!to.is_there) continue;
        const float given = !kept.last ? out_gradient[to.place] : to.is_last ? out_gradient[to.own] : 0;
        Kind::backward(kept, to, tile_sum(tile, to.row, to.column), given);
    }
}

// A linear layer of each step.
Layer each_step(uint32_t steps, int ins, size_t outs) {
    Layer each = {};
    each.kind = LAYER_LINEAR_EACH;
    each.in.channels = each.out.channels = 1;
    each.in.rows = each.out.rows = (int)steps;
    each.in.columns = ins, each.out.columns = (int)outs;
    return each;
}

// A layer, its parts among its parameters, and what it keeps.
struct Recurrent {
    Layer input, state;                          // its products as linear layers of each step
    size_t state_weight, input_bias, state_bias; // offsets from the first parameter
    Kept kept;
};

template <typename Kind> Recurrent recurrent_of(float *kept, const Layer *layer, const CudaStep *step) {
    const int units = lstm_units(layer), features = layer->in.columns;
    const size_t gates = Kind::gates * (size_t)units;
    Recurrent of = {};
    of.kept.steps = (uint32_t)lstm_steps(layer), of.kept.units = (uint32_t)units;
    of.kept.samples = (uint32_t)step->samples, of.kept.last = layer->last;
    const size_t block = (size_t)step->models * (size_t)units * (size_t)step->samples, all = of.kept.steps * block;
    of.kept.gates = kept, of.kept.own = kept + Kind::gates * all;
    of.kept.states = of.kept.own + Kind::own_values * all, of.kept.carried = of.kept.states + all;
    of.input = each_step(of.kept.steps, features, gates), of.state = each_step(of.kept.steps, units, gates);
    of.state_weight = gates * (size_t)features, of.input_bias = gates * (size_t)(features + units);
    of.state_bias = of.input_bias + gates;
    return of;
}

// The kernels by their tiles: of few or many quads, of few or many rows.
#define BY_TILE(kernel)                                                                                                \
    {                                                                                                                  \
        {kernel<Kind, FEW_ROWS, FEW_QUADS>, kernel<Kind, MANY_ROWS, FEW_QUADS>}, {                                     \
            kernel<Kind, FEW_ROWS, MANY_QUADS>, kernel<Kind, MANY_ROWS, MANY_QUADS>                                    \
        }                                                                                                              \
    }

// The tile is chosen as that of a linear layer.
template <typename Kernel, typename... Arguments>
void launch_step(const Kernel (&kernels)[2][2], const ProductSizes &of, const CudaStep *step, Arguments... arguments) {
    const bool many_quads = of.quads > FEW_QUADS;
    const uint32_t quads = many_quads ? MANY_QUADS : FEW_QUADS;
    const size_t models = (size_t)step->models;
    const bool many_rows = !product_has_few_rows(quads, models, of);
    launch(kernels[many_quads][many_rows], product_blocks(many_rows ? MANY_ROWS : FEW_ROWS, quads, models, of),
           PRODUCT_THREADS, step->stream, arguments..., of, step->counts);
}

template <typename Kind>
void forward(float *out, float *kept, const float *in, const float *weight, size_t stride, const Layer *layer,
             const CudaStep *step) {
    static void (*const kernels[2][2])(Kept, float *, const float *, const float *, size_t, uint32_t, ProductSizes,
                                       const uint32_t *) = BY_TILE(recurrent_forward);
    const Recurrent of = recurrent_of<Kind>(kept, layer, step);
    const uint32_t units = of.kept.units;
    cuda_linear_product(of.kept.gates, in, weight, weight + of.input_bias, stride, false, &of.input, step);
    for (uint32_t t = 0; t < of.kept.steps; t++) {
        const ProductSizes sizes = {Kind::tile_gates * units, t > 0 ? units : 0, of.kept.samples / 4};
        launch_step(kernels, sizes, step, of.kept, out, weight + of.state_weight, weight + of.state_bias, stride, t);
    }
}

// Backward through time. The gates' gradients of a step overwrite its gates; the weights' gradients, and the input's,
// wait until those of all steps are there.
template <typename Kind>
void backward(float *gradient, float *in_gradient, float *kept, const float *in, const float *out_gradient,
              const float *weight, size_t stride, size_t gradient_stride, const Layer *layer, const CudaStep *step) {
    static void (*const kernels[2][2])(Kept, const float *, const float *, const float *, size_t, uint32_t,
                                       ProductSizes, const uint32_t *) = BY_TILE(recurrent_backward);
    const Recurrent of = recurrent_of<Kind>(kept, layer, step);
    const uint32_t units = of.kept.units;
    const float *state_gradients = Kind::state_gradients(of.kept);
    for (uint32_t t = of.kept.steps; t-- > 0;) {
        const ProductSizes sizes = {units, t + 1 < of.kept.steps ? Kind::gates * units : 0, of.kept.samples / 4};
        launch_step(kernels, sizes, step, of.kept, state_gradients, out_gradient, weight + of.state_weight, stride, t);
    }
    if (in_gradient) cuda_linear_product_back(in_gradient, of.kept.gates, NULL, weight, stride, &of.input, step);
    if (!gradient) return;
    cuda_linear_gradient(gradient, gradient + of.input_bias, in, of.kept.gates, gradient_stride, &of.input, step);
    cuda_linear_gradient(gradient + of.state_weight, gradient + of.state_bias, of.kept.states, state_gradients,
                         gradient_stride, &of.state, step);
}

// Each kind has kernels of its own, so that no thread asks which it is; the host asks once per launch.
bool is_gru(const Layer *layer) {
    return lstm_gates(layer) == (int)Gru::gates;
}

} // namespace

// Per step the gates, Kept.own and a state; and the gradient that is carried from step to step.
size_t cuda_recurrent_kept_features(const Layer *layer) {
    const size_t own = is_gru(layer) ? Gru::own_values : Lstm::own_values;
    return ((size_t)lstm_steps(layer) * ((size_t)lstm_gates(layer) + own + 1) + 1) * (size_t)lstm_units(layer);
}

void cuda_recurrent_forward(float *out, float *kept, const float *in, const float *weight, size_t stride,
                            const Layer *layer, const CudaStep *step) {
    (is_gru(layer) ? forward<Gru> : forward<Lstm>)(out, kept, in, weight, stride, layer, step);
}

void cuda_recurrent_backward(float *gradient, float *in_gradient, float *kept, const float *in,
                             const float *out_gradient, const float *weight, size_t stride, size_t gradient_stride,
                             const Layer *layer, const CudaStep *step) {
    (is_gru(layer) ? backward<Gru> : backward<Lstm>)(gradient, in_gradient, kept, in, out_gradient, weight, stride,
                                                     gradient_stride, layer, step);
}
