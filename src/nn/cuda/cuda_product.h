// A block's part of a matrix product: a tile of a weight, or of its transpose, times the lanes of a batch. C++ only.
//
//   using Tile = ProductTile<FEW_ROWS, FEW_QUADS, false>;
//   __shared__ Tile tile;
//   sum_products(tile, weights, in, first_row, first_quad, of);          // by all threads of the block
//   float4 sum = tile_sum(tile, row * FEW_QUADS + quad);                 // of any thread, for every row and quad
#ifndef SOUNDER_NN_CUDA_CUDA_PRODUCT_H
#define SOUNDER_NN_CUDA_CUDA_PRODUCT_H

#include "nn/cuda/cuda_float4.h"
#include "nn/cuda/cuda_launch.h"

// A block of PRODUCT_THREADS computes a tile of the result: THREAD_ROWS * ROW_GROUPS rows of QUADS float4 (four samples
// each). A thread sums THREAD_ROWS rows of one quad, over every `groups`-th of the inner numbers; then the groups' sums
// are added in order. So the bits depend on QUADS alone: neither on the number of models, nor on the tile's rows, nor
// on the GPU.
enum : uint32_t { PRODUCT_THREADS = 256, ROW_GROUPS = 8, FEW_QUADS = 4, MANY_QUADS = 16, FEW_ROWS = 2, MANY_ROWS = 8 };

// The sizes for one model and place: rows and quads of the result, and the inner numbers of a sum.
struct ProductSizes {
    uint32_t rows, inner, quads;
};

// PARTS: the weight has that many parts of equal numbers of rows, whose rows the result takes in turn, so that one tile
// holds all four gates of a unit. THERE: the weight has the first THERE of the parts alone; the other parts are zeros.
template <uint32_t THREAD_ROWS, uint32_t QUADS, bool TRANSPOSED, uint32_t PARTS = 1, uint32_t THERE = PARTS>
struct ProductTile {
    static const uint32_t thread_rows = THREAD_ROWS, quads = QUADS, parts = PARTS, there = THERE;
    static const bool transposed = TRANSPOSED;
    static const uint32_t rows = THREAD_ROWS * ROW_GROUPS, groups = PRODUCT_THREADS / (ROW_GROUPS * QUADS);
    // Inner numbers that are staged at once, with eight weights per thread, or four.
    static const uint32_t inner = THREAD_ROWS == MANY_ROWS ? 32 : QUADS == MANY_QUADS ? 64 : 128;
    // Inner numbers that a thread multiplies at once, as registers allow (linear_product.cu).
    static const uint32_t at_once = THREAD_ROWS == MANY_ROWS && QUADS == FEW_QUADS ? 2 : 4;
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
// of a transposed tile a column of the factor, which is a row in memory.
template <typename Tile> struct ProductFetch {
    static const uint32_t count = Tile::rows * Tile::inner / PRODUCT_THREADS;
    static const uint32_t next_value = PRODUCT_THREADS / Tile::quads;
    static const uint32_t values = (Tile::inner + next_value - 1) / next_value;
    // From one of its weights to the next.
    static const uint32_t next_row = Tile::transposed ? 0 : PRODUCT_THREADS / Tile::inner;
    static const uint32_t next_k = Tile::transposed ? PRODUCT_THREADS / Tile::rows : 0;
    float weight[count];
    float4 value[values];
    const float *from_weight;
    const float4 *from_value;
    uint32_t first_row, row, k, value_k, rows_left, quad;
    bool has_quad;

    // weights: of the block's model; in: of its model and place.
    __device__ ProductFetch(const float *weights, const float4 *in, uint32_t from_row, uint32_t first_quad,
                            const ProductSizes &of) {
        row = Tile::transposed ? threadIdx.x % Tile::rows : threadIdx.x / Tile::inner;
        k = Tile::transposed ? threadIdx.x / Tile::rows : threadIdx.x % Tile::inner;
        value_k = threadIdx.x / Tile::quads, quad = threadIdx.x % Tile::quads;
        first_row = from_row, rows_left = of.rows - first_row, has_quad = first_quad + quad < of.quads;
        from_weight = weights + k * (size_t)(Tile::transposed ? of.rows : 1);
        if (Tile::parts == 1) from_weight += (first_row + row) * (size_t)(Tile::transposed ? 1 : of.inner);
        from_value = in + (size_t)value_k * of.quads + first_quad + quad;
    }

    // The place of a row of the result among the weight's rows.
    static __device__ uint32_t weight_row(uint32_t at, const ProductSizes &of) {
        return at % Tile::parts * (of.rows / Tile::parts) + at / Tile::parts;
    }

    // From global memory to registers; zeros where there is nothing.
    __device__ void fetch(uint32_t first, const ProductSizes &of) {
        const float *from = from_weight;
        const uint32_t next = Tile::transposed ? next_k * of.rows : next_row * of.inner;
#pragma unroll
        for (uint32_t i = 0; i < count; i++, from += next) {
            bool is_there = row + i * next_row < rows_left && first + k + i * next_k < of.inner;
            if (Tile::there < Tile::parts) is_there &= (first_row + row + i * next_row) % Tile::parts < Tile::there;
            if (Tile::parts > 1) from = from_weight + (size_t)weight_row(first_row + row + i * next_row, of) * of.inner;
            weight[i] = is_there ? *from : 0;
        }
        from_weight += Tile::transposed ? Tile::inner * of.rows : Tile::inner;
#pragma unroll
        for (uint32_t i = 0; i < values; i++) {
            const uint32_t at = value_k + i * next_value;
            const bool is_there = at < Tile::inner && first + at < of.inner && has_quad;
            value[i] = is_there ? from_value[i * next_value * of.quads] : make_float4(0, 0, 0, 0);
        }
        from_value += Tile::inner * of.quads;
    }

    // From registers to the tile.
    __device__ void stage(Tile &tile) const {
#pragma unroll
        for (uint32_t i = 0; i < count; i++)
            tile.weights[(row + i * next_row) * Tile::to_row + (k + i * next_k) * Tile::to_k] = weight[i];
#pragma unroll
        for (uint32_t i = 0; i < values; i++)
            if (value_k + i * next_value < Tile::inner)
                tile.values[(value_k + i * next_value) * Tile::quads + quad] = value[i];
    }
};

template <typename Tile>
__device__ void multiply_tile(float4 (&sums)[Tile::thread_rows], const Tile &tile, uint32_t row, uint32_t group,
                              uint32_t quad) {
    const float *weights = tile.weights + row * Tile::to_row + group * Tile::to_k;
    const float4 *values = tile.values + group * Tile::quads + quad;
#pragma unroll(Tile::at_once)
    for (uint32_t k = 0; k < Tile::inner; k += Tile::groups)
#pragma unroll
        for (uint32_t r = 0; r < Tile::thread_rows; r++)
            sums[r] =
                plus(sums[r], scaled(values[k * Tile::quads], weights[r * ROW_GROUPS * Tile::to_row + k * Tile::to_k]));
}

// Leaves the sums of the block's rows and quads in the tile, one per group. While the block multiplies the staged
// numbers, the next ones are on their way.
template <typename Tile>
__device__ void sum_products(Tile &tile, const float *weights, const float4 *in, uint32_t first_row,
                             uint32_t first_quad, const ProductSizes &of) {
    const uint32_t quad = threadIdx.x % Tile::quads, group = threadIdx.x / Tile::quads / ROW_GROUPS;
    const uint32_t row = threadIdx.x / Tile::quads % ROW_GROUPS;
    ProductFetch<Tile> next(weights, in, first_row, first_quad, of);
    float4 sums[Tile::thread_rows] = {};
    next.fetch(0, of);
    for (uint32_t first = 0; first < of.inner; first += Tile::inner) {
        __syncthreads(); // the tile has been used
        next.stage(tile);
        __syncthreads();
        if (first + Tile::inner < of.inner) next.fetch(first + Tile::inner, of);
        multiply_tile(sums, tile, row, group, quad);
    }
    __syncthreads();
#pragma unroll
    for (uint32_t r = 0; r < Tile::thread_rows; r++)
        tile.sums[group][(row + r * ROW_GROUPS) * Tile::quads + quad] = sums[r];
    __syncthreads();
}

// Adds the groups' sums of one quad of one row, number row * quads + quad.
template <typename Tile> __device__ float4 tile_sum(const Tile &tile, uint32_t at) {
    float4 sum = tile.sums[0][at];
#pragma unroll
    for (uint32_t g = 1; g < Tile::groups; g++)
        sum = plus(sum, tile.sums[g][at]);
    return sum;
}

// The same for one row and sample.
template <typename Tile> __device__ float tile_sum(const Tile &tile, uint32_t row, uint32_t sample) {
    float sum = 0;
#pragma unroll
    for (uint32_t g = 0; g < Tile::groups; g++) {
        const float part = ((const float *)tile.sums[g])[row * 4 * Tile::quads + sample];
        sum = g == 0 ? part : sum + part;
    }
    return sum;
}

// A block's tile among those of a grid: first its place among the models' lanes, then its rows, then its quads.
struct ProductPlace {
    uint32_t lanes, first_row, first_quad;
};

template <typename Tile> __device__ ProductPlace product_place(const ProductSizes &of) {
    const uint32_t column_tiles = parts_of(of.quads, Tile::quads), row_tiles = parts_of(of.rows, Tile::rows);
    const uint32_t number = blockIdx.x / column_tiles, lanes = number / row_tiles;
    ProductPlace place = {lanes, (number - lanes * row_tiles) * Tile::rows,
                          (blockIdx.x - number * column_tiles) * Tile::quads};
    return place;
}

// Tiles of few rows where large ones would leave multiprocessors idle.
enum { ENOUGH_BLOCKS = 256 };

// Number of blocks. lanes: models times places.
inline size_t product_blocks(uint32_t thread_rows, uint32_t quads, size_t lanes, const ProductSizes &of) {
    return lanes * parts_of(of.rows, thread_rows * ROW_GROUPS) * parts_of(of.quads, quads);
}

inline bool product_has_few_rows(uint32_t quads, size_t lanes, const ProductSizes &of) {
    return product_blocks(MANY_ROWS, quads, lanes, of) < ENOUGH_BLOCKS;
}

#endif
