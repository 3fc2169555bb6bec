// The products of linear layers: a weight, or its transpose, times the lanes of a batch.
#include "nn/cuda/cuda_ops.h"

#include "nn/cuda/cuda_float4.h"
#include "nn/cuda/cuda_launch.h"

namespace {

// A block of PRODUCT_THREADS computes a tile of the result: THREAD_ROWS * ROW_GROUPS rows of QUADS float4 (four samples
// each). A thread sums THREAD_ROWS rows of one quad, over every `groups`-th of the inner numbers; then the groups' sums
// are added in order. So the bits depend on QUADS alone: neither on the number of models, nor on the tile's rows, nor
// on the GPU.
enum : uint32_t { PRODUCT_THREADS = 256, ROW_GROUPS = 8, FEW_QUADS = 4, MANY_QUADS = 16, FEW_ROWS = 2, MANY_ROWS = 8 };

// The result is (models, places, rows,N), the factor (models, places, inner,N), N being 4 * quads.
struct ProductSizes {
    uint32_t rows, inner, quads, places;
};

template <uint32_t THREAD_ROWS, uint32_t QUADS, bool TRANSPOSED> struct ProductTile {
    static const uint32_t rows = THREAD_ROWS * ROW_GROUPS, groups = PRODUCT_THREADS / (ROW_GROUPS * QUADS);
    // Inner numbers that are staged at once, with eight weights per thread, or four.
    static const uint32_t inner = THREAD_ROWS == MANY_ROWS ? 32 : QUADS == MANY_QUADS ? 64 : 128;
    // Floats from one row, and from one inner number, to the next; the gap spreads the rows over the banks.
    static const uint32_t to_row = TRANSPOSED ? 1 : inner + 1, to_k = TRANSPOSED ? rows : 1;
    union {
        struct {
            float weights[rows * (inner + 1)];
            float4 values[inner * QUADS];
        };
        float4 sums[groups][rows * QUADS];
    };
};

// A thread's part of the numbers that the block stages. Neighbouring threads fetch neighbouring weights: of a row, or
// with TRANSPOSED of a column of the factor, which is a row in memory.
template <typename Tile, uint32_t QUADS, bool TRANSPOSED> struct ProductFetch {
    static const uint32_t count = Tile::rows * Tile::inner / PRODUCT_THREADS, next_value = PRODUCT_THREADS / QUADS;
    static const uint32_t values = (Tile::inner + next_value - 1) / next_value;
    static const uint32_t next_row =
        TRANSPOSED ? 0 : PRODUCT_THREADS / Tile::inner; // from one of its weights to the next
    static const uint32_t next_k = TRANSPOSED ? PRODUCT_THREADS / Tile::rows : 0;
    float weight[count];
    float4 value[values];
    const float *from_weight;
    const float4 *from_value;
    uint32_t row, k, value_k, rows_left, quad;
    bool has_quad;

    // weight: of the block's model; in: of its model and place.
    __device__ ProductFetch(const float *weights, const float4 *in, uint32_t first_row, uint32_t first_quad,
                            const ProductSizes &of) {
        row = TRANSPOSED ? threadIdx.x % Tile::rows : threadIdx.x / Tile::inner;
        k = TRANSPOSED ? threadIdx.x / Tile::rows : threadIdx.x % Tile::inner;
        value_k = threadIdx.x / QUADS, quad = threadIdx.x % QUADS;
        rows_left = of.rows - first_row, has_quad = first_quad + quad < of.quads;
        from_weight =
            weights + (TRANSPOSED ? (size_t)k * of.rows + first_row + row : (size_t)(first_row + row) * of.inner + k);
        from_value = in + (size_t)value_k * of.quads + first_quad + quad;
    }

    // From global memory to registers; zeros where there is nothing.
    __device__ void fetch(uint32_t first, const ProductSizes &of) {
        const float *from = from_weight;
        const size_t next = TRANSPOSED ? (size_t)next_k * of.rows : (size_t)next_row * of.inner;
#pragma unroll
        for (uint32_t i = 0; i < count; i++, from += next)
            weight[i] = row + i * next_row < rows_left && first + k + i * next_k < of.inner ? *from : 0;
        from_weight += TRANSPOSED ? (size_t)Tile::inner * of.rows : Tile::inner;
#pragma unroll
        for (uint32_t i = 0; i < values; i++) {
            const uint32_t at = value_k + i * next_value;
            const bool is_there = at < Tile::inner && first + at < of.inner && has_quad;
            value[i] = is_there ? from_value[(size_t)(i * next_value) * of.quads] : make_float4(0, 0, 0, 0);
        }
        from_value += (size_t)Tile::inner * of.quads;
    }

    // From registers to the tile.
    __device__ void stage(Tile &tile) const {
#pragma unroll
        for (uint32_t i = 0; i < count; i++)
            tile.weights[(row + i * next_row) * Tile::to_row + (k + i * next_k) * Tile::to_k] = weight[i];
#pragma unroll
        for (uint32_t i = 0; i < values; i++)
            if (value_k + i * next_value < Tile::inner)
                tile.values[(value_k + i * next_value) * QUADS + quad] = value[i];
    }
};

template <typename Tile, uint32_t THREAD_ROWS, uint32_t QUADS>
__device__ void multiply_tile(float4 (&sums)[THREAD_ROWS], const Tile &tile, uint32_t row, uint32_t group,
                              uint32_t quad) {
    const float *weights = tile.weights + row * Tile::to_row + group * Tile::to_k;
    const float4 *values = tile.values + group * QUADS + quad;
#pragma unroll 4
    for (uint32_t k = 0; k < Tile::inner; k += Tile::groups)
#pragma unroll
        for (uint32_t r = 0; r < THREAD_ROWS; r++)
            sums[r] = plus(sums[r], scaled(values[k * QUADS], weights[r * ROW_GROUPS * Tile::to_row + k * Tile::to_k]));
}

// Adds the groups' sums and the bias, if there is one.
template <typename Tile, uint32_t QUADS>
__device__ void write_tile(float4 *out, const Tile &tile, const float *bias, bool relu, uint32_t first_row,
                           uint32_t first_quad, const ProductSizes &of) {
    for (uint32_t at = threadIdx.x; at < Tile::rows * QUADS; at += PRODUCT_THREADS) {
        const uint32_t row = first_row + at / QUADS, quad = first_quad + at % QUADS;
        if (row >= of.rows || quad >= of.quads) continue;
        float4 sum = tile.sums[0][at];
#pragma unroll
        for (uint32_t g = 1; g < Tile::groups; g++)
            sum = plus(sum, tile.sums[g][at]);
        if (bias) sum = plus(sum, make_float4(bias[row], bias[row], bias[row], bias[row]));
        out[(size_t)row * of.quads + quad] = relu ? rectified(sum) : sum;
    }
}

// out = weight * in + bias, rectified with `relu`; with TRANSPOSED out = weight^T * in, without bias. While the block
// multiplies the staged numbers, the next ones are on their way.
template <uint32_t THREAD_ROWS, uint32_t QUADS, bool TRANSPOSED>
__global__ void __launch_bounds__(PRODUCT_THREADS)
    product(float4 *out, const float4 *in, const float *weight, const float *bias, size_t stride, bool relu,
            ProductSizes of) {
    using Tile = ProductTile<THREAD_ROWS, QUADS, TRANSPOSED>;
    __shared__ Tile tile;
    const uint32_t column_tiles = parts_of(of.quads, QUADS), row_tiles = parts_of(of.rows, Tile::rows);
    const uint32_t number = blockIdx.x / column_tiles, lanes = number / row_tiles; // of a model's place
    const uint32_t first_row = (number - lanes * row_tiles) * Tile::rows;
    const uint32_t first_quad = (blockIdx.x - number * column_tiles) * QUADS;
    const uint32_t quad = threadIdx.x % QUADS, group = threadIdx.x / QUADS / ROW_GROUPS;
    const uint32_t row = threadIdx.x / QUADS % ROW_GROUPS;
    const size_t model = lanes / of.places * stride;
    ProductFetch<Tile, QUADS, TRANSPOSED> next(weight + model, in + (size_t)lanes * of.inner * of.quads, first_row,
                                               first_quad, of);
    float4 sums[THREAD_ROWS] = {};
    next.fetch(0, of);
    for (uint32_t first = 0; first < of.inner; first += Tile::inner) {
        __syncthreads(); // the tile has been used
        next.stage(tile);
        __syncthreads();
        if (first + Tile::inner < of.inner) next.fetch(first + Tile::inner, of);
        multiply_tile<Tile, THREAD_ROWS, QUADS>(sums, tile, row, group, quad);
    }
    __syncthreads();
#pragma unroll
    for (uint32_t r = 0; r < THREAD_ROWS; r++)
        tile.sums[group][(row + r * ROW_GROUPS) * QUADS + quad] = sums[r];
    __syncthreads();
    write_tile<Tile, QUADS>(out + (size_t)lanes * of.rows * of.quads, tile, bias ? bias + model : nullptr, relu,
                            first_row, first_quad, of);
}

// Tiles of few rows where large ones would leave multiprocessors idle.
enum { ENOUGH_BLOCKS = 256 };

size_t blocks_of(uint32_t rows, uint32_t quads, const ProductSizes &of, const CudaStep *step) {
    return (size_t)step->models * of.places * parts_of(of.rows, rows * ROW_GROUPS) * parts_of(of.quads, quads);
}

template <uint32_t QUADS, bool TRANSPOSED>
void multiply(float *out, const float *in, const float *weight, const float *bias, size_t stride, bool relu,
              const ProductSizes &of, const CudaStep *step) {
    size_t blocks = blocks_of(MANY_ROWS, QUADS, of, step);
    const bool few = blocks < ENOUGH_BLOCKS;
    if (few) blocks = blocks_of(FEW_ROWS, QUADS, of, step);
    launch(few ? product<FEW_ROWS, QUADS, TRANSPOSED> : product<MANY_ROWS, QUADS, TRANSPOSED>, blocks, PRODUCT_THREADS,
           step->stream, (float4 *)out, (const float4 *)in, weight, bias, stride, relu, of);
}

} // namespace

void cuda_linear_product(float *out, const float *in, const float *weight, const float *bias, size_t stride, bool relu,
                         const Layer *layer, const CudaStep *step) {
    const ProductSizes of = {(uint32_t)linear_outs(layer), (uint32_t)linear_ins(layer), (uint32_t)step->samples / 4,
                             (uint32_t)linear_places(layer)};
    (of.quads <= FEW_QUADS ? multiply<FEW_QUADS, false> : multiply<MANY_QUADS, false>)(out, in, weight, bias, stride,
                                                                                       relu, of, step);
}

void cuda_linear_product_back(float *in_gradient, const float *out_gradient, const float *weight, size_t stride,
                              const Layer *layer, const CudaStep *step) {
    const ProductSizes of = {(uint32_t)linear_ins(layer), (uint32_t)linear_outs(layer), (uint32_t)step->samples / 4,
                             (uint32_t)linear_places(layer)};
    (of.quads <= FEW_QUADS ? multiply<FEW_QUADS, true> : multiply<MANY_QUADS, true>)(in_gradient, out_gradient, weight,
                                                                                     NULL, stride, false, of, step);
}
