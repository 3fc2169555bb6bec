// The kernels of linear_cuda.c, and a linear layer's step of SGD.
#include "nn/cuda/cuda_ops.h"

#include "nn/cuda/cuda_float4.h"
#include "nn/cuda/cuda_launch.h"
#include "nn/cuda/cuda_sgd_update.h"

namespace {

// SUM_WIDTH neighbouring threads sum a row, each every SUM_WIDTH-th float4; then their sums are added in pairs.
enum { SUM_WIDTH = 8, SUM_ROWS = ITEM_THREADS / SUM_WIDTH };

// Adds the bias. A thread per four samples of one feature. cuBLAS could start from the bias only if it were copied to
// every column before.
__global__ void __launch_bounds__(ITEM_THREADS)
    add_bias(float4 *out, const float *bias, size_t stride, bool relu, uint32_t outs, uint32_t row, uint32_t items) {
    ModelItem at = model_item(blockIdx.x, threadIdx.x, ITEM_THREADS, items);
    if (at.item >= items) return;
    float shift = bias[at.model * stride + at.item / row % outs];
    out += (size_t)at.model * items + at.item;
    const float4 value = plus(*out, make_float4(shift, shift, shift, shift));
    *out = relu ? rectified(value) : value;
}

// Sums each row over its samples and over all places. SUM_WIDTH threads per row keep reads of neighbouring threads
// together, and leave enough rows for a block.
__global__ void __launch_bounds__(ITEM_THREADS)
    sum_rows(float *sums, const float4 *values, size_t stride, uint32_t places, uint32_t rows, uint32_t row) {
    __shared__ float parts[SUM_ROWS][SUM_WIDTH];
    uint32_t place = threadIdx.x / SUM_WIDTH, x = threadIdx.x % SUM_WIDTH;
    ModelItem at = model_item(blockIdx.x, place, SUM_ROWS, rows);
    float sum = 0;
    if (at.item < rows) {
        values += ((size_t)at.model * places * rows + at.item) * row;
        for (uint32_t p = 0; p < places; p++, values += (size_t)rows * row)
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

// The bias is the weight of one more input, which is always one. weight, bias: offsets among the parameters. The
// products of a tile are summed in registers, from samples that are staged in shared memory; then each thread steps
// its weights at once. That saves
// writing the gradient and reading it again.
template <bool MOMENTUM>
__global__ void __launch_bounds__(ITEM_THREADS)
    linear_step(const __grid_constant__ CudaSgdUpdate descent, const float4 *in, const float4 *out_gradient,
                size_t weight, size_t bias, uint32_t ins, uint32_t outs, uint32_t quads, const uint32_t *counts) {
    __shared__ Tile tile;
    uint32_t columns = parts_of(ins + 1, TILE), tiles = columns * parts_of(outs, TILE), model = blockIdx.x / tiles;
    uint32_t first_out = (blockIdx.x - model * tiles) / columns * TILE, first_in = blockIdx.x % columns * TILE;
    if (counts[model] == 0) return; // the whole block
    in += (size_t)model * ins * quads;
    out_gradient += (size_t)model * outs * quads;
    uint32_t x = threadIdx.x % TILE_INS, y = threadIdx.x / TILE_INS * THREAD_OUTS;
    uint32_t row = threadIdx.x / (TILE_SAMPLES / 4);
    float sums[THREAD_OUTS][THREAD_INS] = {};
    for (uint32_t first = 0; first < quads; first += TILE_SAMPLES / 4) {
        uint32_t quad = first + threadIdx.x % (TILE_SAMPLES / 4);
        __syncthreads(); // the former samples have been used
        stage_row(tile.gradients, out_gradient, first_out + row, outs, quad, quads, false);
        stage_row(tile.values, in, first_in + row, ins, quad, quads, true);
        __syncthreads();
        add_products(sums, tile, x, y);
    }
#pragma unroll
    for (uint32_t o = 0; o < THREAD_OUTS; o++)
#pragma unroll
        for (uint32_t i = 0; i < THREAD_INS; i++) {
            uint32_t out = first_out + y + o, column = first_in + x + i * TILE_INS;
            if (out >= outs || column > ins) continue;
            size_t parameter = column == ins ? bias + out : weight + (size_t)out * ins + column;
            descend<MOMENTUM, false>(descent, model, parameter, sums[o][i]);
        }
}

} // namespace

void cuda_linear_step(const CudaSgdUpdate *descent, const float *in, const float *out_gradient, const Layer *layer,
                      const CudaStep *step) {
    uint32_t ins = (uint32_t)shape_size(layer->in), outs = (uint32_t)shape_size(layer->out);
    size_t tiles = (size_t)parts_of(ins + 1, TILE) * parts_of(outs, TILE);
    launch(descent->sgd.momentum > 0 ? linear_step<true> : linear_step<false>, (size_t)step->models * tiles,
           ITEM_THREADS, step->stream, *descent, (const float4 *)in, (const float4 *)out_gradient, layer->weight,
           layer->bias, ins, outs, (uint32_t)step->samples / 4, step->counts);
}

void cuda_linear_add_bias(float *out, const float *bias, size_t stride, bool relu, int places, int outs,
                          const CudaStep *step) {
    uint32_t row = (uint32_t)step->samples / 4, items = (uint32_t)places * (uint32_t)outs * row;
    launch_items(add_bias, items, step, (float4 *)out, bias, stride, relu, (uint32_t)outs, row, items);
}

void cuda_linear_sum_rows(float *bias_gradient, const float *out_gradient, size_t stride, int places, int outs,
                          const CudaStep *step) {
    uint32_t rows = (uint32_t)outs;
    launch(sum_rows, (size_t)step->models * parts_of(rows, SUM_ROWS), ITEM_THREADS, step->stream, bias_gradient,
           (const float4 *)out_gradient, stride, (uint32_t)places, rows, (uint32_t)step->samples / 4);
}
