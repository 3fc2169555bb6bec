// The kernels of linear_cuda.c, and a linear layer's step of SGD.
#include "nn/cuda/cuda_ops.h"

#include "nn/cuda/cuda_float4.h"
#include "nn/cuda/cuda_launch.h"
#include "nn/cuda/cuda_sgd_update.h"

namespace {

// SUM_WIDTH neighbouring threads sum a row, each every SUM_WIDTH-th float4; then their sums are added in pairs.
enum { SUM_WIDTH = 8, SUM_ROWS = ITEM_THREADS / SUM_WIDTH };

// Adds the bias. One thread computes four samples of one feature. cuBLAS could start from the bias only if it were
// copied to every column before.
__global__ void __launch_bounds__(ITEM_THREADS) add_bias(float4 *out, const float *bias, size_t stride, bool relu,
                                                         uint32_t row, uint32_t items, const uint32_t *counts) {
    ModelItem at = model_item(blockIdx.x, threadIdx.x, ITEM_THREADS, items);
    if (!has_work(at, items, counts)) return;
    float shift = bias[at.model * stride + at.item / row];
    out += (size_t)at.model * items + at.item;
    const float4 value = plus(*out, make_float4(shift, shift, shift, shift));
    *out = relu ? rectified(value) : value;
}

// Sums each row over its samples. SUM_WIDTH threads per row keep reads of neighbouring threads
// together, and leave enough rows for a block.
__global__ void __launch_bounds__(ITEM_THREADS)
    sum_rows(float *sums, const float4 *values, size_t stride, uint32_t rows, uint32_t row, const uint32_t *counts) {
    __shared__ float parts[SUM_ROWS][SUM_WIDTH];
    uint32_t place = threadIdx.x / SUM_WIDTH, x = threadIdx.x % SUM_WIDTH;
    ModelItem at = model_item(blockIdx.x, place, SUM_ROWS, rows);
    if (counts[at.model] == 0) return; // the whole block
    float sum = 0;
    if (at.item < rows) {
        values += ((size_t)at.model * rows + at.item) * row;
        for (uint32_t i = x; i < row; i += SUM_WIDTH)
            sum += sum_of(values[i]);
    }
    parts[place][x] = sum;
    for (uint32_t half = SUM_WIDTH / 2; half > 0; half /= 2) {
        __syncthreads();
        if (x < half) parts[place][x] += parts[place][x + half];
    }
    if (x == 0 && at.item < rows) sums[at.model * stride + at.item] = parts[place][0];
}

// A block steps a tile of the weight, TILE outputs times TILE inputs; a thread steps THREAD_OUTS neighbouring outputs
// of the inputs x and x + 32. Products are added in the samples' order, a few samples at a time.
enum { TILE = 64, TILE_SAMPLES = 16, THREAD_OUTS = 8, THREAD_INS = 2, TILE_INS = TILE / THREAD_INS };
static_assert(TILE / THREAD_OUTS * TILE_INS == ITEM_THREADS, "the threads cover the tile");

struct alignas(16) Tile {
    // Rows of samples; the gap spreads the four samples that a thread stores over the banks.
    float gradients[TILE_SAMPLES][TILE + 4], values[TILE_SAMPLES][TILE + 4];
};

// Stages four samples of one row of lanes, transposed. They are zero beyond the last sample; in the row after the last
// (`ones`, the input of the bias) they are one.
__device__ void stage_row(float (*to)[TILE + 4], const float4 *lanes, uint32_t row, uint32_t rows, uint32_t quad,
                          uint32_t quads, bool ones) {
    uint32_t x = threadIdx.x / (TILE_SAMPLES / 4), y = threadIdx.x % (TILE_SAMPLES / 4) * 4;
    float4 four = make_float4(0, 0, 0, 0);
    if (quad < quads && row < rows) four = lanes[(size_t)row * quads + quad];
    if (quad < quads && row == rows && ones) four = make_float4(1, 1, 1, 1);
    to[y][x] = four.x;
    to[y + 1][x] = four.y;
    to[y + 2][x] = four.z;
    to[y + 3][x] = four.w;
}

// Ten floats are read from shared memory for sixteen products: eight neighbouring outputs as two float4, and two
// inputs.
__device__ void add_products(float (&sums)[THREAD_OUTS][THREAD_INS], const Tile &tile, uint32_t x, uint32_t y) {
#pragma unroll 4
    for (int s = 0; s < TILE_SAMPLES; s++) {
        float value[THREAD_INS] = {tile.values[s][x], tile.values[s][x + TILE_INS]};
        const float4 *gradients = (const float4 *)&tile.gradients[s][y];
        float4 low = gradients[0], high = gradients[1];
        float gradient[THREAD_OUTS] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
#pragma unroll
        for (int o = 0; o < THREAD_OUTS; o++)
#pragma unroll
            for (int i = 0; i < THREAD_INS; i++)
                sums[o][i] += gradient[o] * value[i];
    }
}

// The products are stored, or their weights make a step of SGD at once, which saves writing the gradient and reading it
// again.
enum Ending { STORES, STEPS, STEPS_WITH_MOMENTUM };

// The parameters of a thread's products, and their velocities.
struct Held {
    float weights[THREAD_OUTS][THREAD_INS], velocities[THREAD_OUTS][THREAD_INS];
};

// One layer of a launch.
struct LinearPart {
    const float4 *in, *out_gradient;
    uint32_t weight, bias; // among the parameters of a model
    uint32_t ins, outs, places;
    uint32_t columns;    // ins, and one for the bias if there is one
    uint32_t first_tile; // among the tiles of a model
};

// The layers of a launch, whose tiles are numbered one layer after the other.
struct LinearParts {
    LinearPart of[CUDA_MOST_LINEAR];
    uint32_t count, tiles; // tiles: of all layers of one model
    __device__ const LinearPart &with(uint32_t tile) const {
        uint32_t layer = 0;
        while (layer + 1 < count && tile >= of[layer + 1].first_tile)
            layer++;
        return of[layer];
    }
};

// The places of a thread's products among the parameters of a model. The bias is the weight of one more input, which is
// always one.
struct Places {
    uint32_t first[THREAD_INS], next[THREAD_INS]; // of each input: the first output's, and floats to the next output's
    int outs;                                     // outputs from the first one on
    bool has[THREAD_INS];                         // the input is there
    __device__ Places(const LinearPart &part, uint32_t in, uint32_t out) {
        outs = (int)part.outs - (int)out;
#pragma unroll
        for (int i = 0; i < THREAD_INS; i++, in += TILE_INS) {
            has[i] = in < part.columns;
            first[i] = in == part.ins ? part.bias + out : part.weight + out * part.ins + in;
            next[i] = in == part.ins ? 1 : part.ins;
        }
    }
    __device__ bool is_there(int o, int i) const {
        return o < outs && has[i];
    }
    __device__ size_t at(int o, int i) const {
        return first[i] + (size_t)o * next[i];
    }
};

// All loads before the first store: the compiler may not change their order, and each would wait for the memory. Shifts
// join the gradient, which the sums are.
template <Ending ENDING, bool SHIFTS>
__device__ void hold(Held &held, float (&sums)[THREAD_OUTS][THREAD_INS], const CudaSgdUpdate &descent, uint32_t model,
                     const Places &to) {
#pragma unroll
    for (int o = 0; o < THREAD_OUTS; o++)
#pragma unroll
        for (int i = 0; i < THREAD_INS; i++) {
            if (!to.is_there(o, i)) continue;
            held.weights[o][i] = descent.weights[model * descent.stride + to.at(o, i)];
            if (ENDING == STEPS_WITH_MOMENTUM)
                held.velocities[o][i] = descent.velocity[model * descent.state_stride + to.at(o, i)];
            if (SHIFTS) sums[o][i] += descent.shifts[model * descent.state_stride + to.at(o, i)];
        }
}

template <Ending ENDING, bool SHIFTS>
__device__ void end_products(const float (&sums)[THREAD_OUTS][THREAD_INS], const Held &held,
                             const CudaSgdUpdate &descent, uint32_t model, const Places &to) {
    const float lr = ENDING == STORES ? 0 : *descent.lr;
    Sgd sgd = descent.sgd;
    if (SHIFTS) sgd.weight_decay += descent.pulls[model];
#pragma unroll
    for (int o = 0; o < THREAD_OUTS; o++)
#pragma unroll
        for (int i = 0; i < THREAD_INS; i++) {
            if (!to.is_there(o, i)) continue;
            float *weight = descent.weights + model * descent.stride + to.at(o, i);
            if (ENDING == STORES) {
                *weight = sums[o][i];
                continue;
            }
            const float now = held.weights[o][i], before = ENDING == STEPS_WITH_MOMENTUM ? held.velocities[o][i] : 0;
            const float speed = sgd_velocity(before, sums[o][i], now, &sgd);
            if (ENDING == STEPS_WITH_MOMENTUM) descent.velocity[model * descent.state_stride + to.at(o, i)] = speed;
            *weight = now - lr * speed;
        }
}

// The products of a tile are summed in registers, from samples that are staged in shared memory. EARLY: there is one
// place, whose samples are staged at once; meanwhile the parameters are on their way, too. Not with shifts, which join
// complete sums.
template <Ending ENDING, bool SHIFTS = false, bool EARLY = false>
__global__ void __launch_bounds__(ITEM_THREADS, ENDING == STEPS_WITH_MOMENTUM ? 3 : 0)
    linear_gradient(const __grid_constant__ CudaSgdUpdate descent, const __grid_constant__ LinearParts parts,
                    uint32_t quads, const uint32_t *counts) {
    __shared__ Tile tile;
    const uint32_t model = blockIdx.x / parts.tiles, number = blockIdx.x - model * parts.tiles;
    if (counts[model] == 0) return; // the whole block
    const LinearPart &part = parts.with(number);
    const uint32_t columns = parts_of(part.columns, TILE), at = number - part.first_tile;
    const uint32_t first_out = at / columns * TILE, first_in = at % columns * TILE;
    const uint32_t ins = part.ins, outs = part.outs, places = part.places;
    const float4 *in = part.in + (size_t)model * places * ins * quads;
    const float4 *out_gradient = part.out_gradient + (size_t)model * places * outs * quads;
    uint32_t x = threadIdx.x % TILE_INS, y = threadIdx.x / TILE_INS * THREAD_OUTS;
    uint32_t row = threadIdx.x / (TILE_SAMPLES / 4);
    float sums[THREAD_OUTS][THREAD_INS] = {};
    const Places to(part, first_in + x, first_out + y);
    Held held;
    if (EARLY) hold<ENDING, SHIFTS>(held, sums, descent, model, to);
    for (uint32_t p = 0; p < (EARLY ? 1 : places); p++, in += (size_t)ins * quads, out_gradient += (size_t)outs * quads)
        for (uint32_t first = 0; first < (EARLY ? 1 : quads); first += TILE_SAMPLES / 4) {
            uint32_t quad = first + threadIdx.x % (TILE_SAMPLES / 4);
            __syncthreads(); // the former samples have been used
            stage_row(tile.gradients, out_gradient, first_out + row, outs, quad, quads, false);
            stage_row(tile.values, in, first_in + row, ins, quad, quads, true);
            __syncthreads();
            add_products(sums, tile, x, y);
        }
    if (ENDING != STORES && !EARLY) hold<ENDING, SHIFTS>(held, sums, descent, model, to);
    end_products<ENDING, SHIFTS>(sums, held, descent, model, to);
}

} // namespace

// weight, bias: where the layer's are among the parameters that the launch writes.
static void add_part(LinearParts *parts, const float *in, const float *out_gradient, size_t weight, size_t bias,
                     const Layer *layer) {
    const LinearPart part = {(const float4 *)in,
                             (const float4 *)out_gradient,
                             (uint32_t)weight,
                             (uint32_t)bias,
                             (uint32_t)linear_ins(layer),
                             (uint32_t)linear_outs(layer),
                             (uint32_t)linear_places(layer),
                             (uint32_t)linear_ins(layer) + !layer->nobias,
                             parts->tiles};
    parts->of[parts->count++] = part;
    parts->tiles += parts_of(part.columns, TILE) * parts_of(part.outs, TILE);
}

static void launch_gradient(void (*kernel)(CudaSgdUpdate, LinearParts, uint32_t, const uint32_t *),
                            const CudaSgdUpdate *descent, const LinearParts &parts, const CudaStep *step) {
    launch(kernel, (size_t)step->models * parts.tiles, ITEM_THREADS, step->stream, *descent, parts,
           (uint32_t)step->samples / 4, step->counts);
}

void cuda_linear_step(const CudaSgdUpdate *descent, const CudaLinear *layers, int count, const CudaStep *step) {
    const auto with_momentum = descent->shifts                 ? linear_gradient<STEPS_WITH_MOMENTUM, true>
                               : step->samples <= TILE_SAMPLES ? linear_gradient<STEPS_WITH_MOMENTUM, false, true>
                                                               : linear_gradient<STEPS_WITH_MOMENTUM>;
    const auto without = descent->shifts ? linear_gradient<STEPS, true> : linear_gradient<STEPS>;
    LinearParts parts = {};
    for (int i = 0; i < count; i++)
        add_part(&parts, layers[i].in, layers[i].out_gradient, layers[i].layer->weight, layers[i].layer->bias,
                 layers[i].layer);
    launch_gradient(descent->sgd.momentum > 0 ? with_momentum : without, descent, parts, step);
}

void cuda_linear_gradient(float *weight_gradient, float *bias_gradient, const float *in, const float *out_gradient,
                          size_t stride, const Layer *layer, const CudaStep *step) {
    CudaSgdUpdate to = {};
    to.weights = weight_gradient;
    to.stride = stride;
    LinearParts parts = {};
    add_part(&parts, in, out_gradient, 0, layer->nobias ? 0 : (size_t)(bias_gradient - weight_gradient), layer);
    launch_gradient(linear_gradient<STORES>, &to, parts, step);
}

void cuda_linear_add_bias(float *out, const float *bias, size_t stride, bool relu, int outs, const CudaStep *step) {
    uint32_t row = (uint32_t)step->samples / 4, items = (uint32_t)outs * row;
    launch_items(add_bias, items, step, (float4 *)out, bias, stride, relu, row, items);
}

void cuda_linear_sum_rows(float *bias_gradient, const float *out_gradient, size_t stride, int outs,
                          const CudaStep *step) {
    uint32_t rows = (uint32_t)outs;
    launch(sum_rows, (size_t)step->models * parts_of(rows, SUM_ROWS), ITEM_THREADS, step->stream, bias_gradient,
           (const float4 *)out_gradient, stride, rows, (uint32_t)step->samples / 4, step->counts);
}
