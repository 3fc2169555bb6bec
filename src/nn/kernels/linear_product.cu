// The products of linear layers: a weight, or its transpose, times the lanes of a batch.
#include "nn/cuda/cuda_ops.h"

#include "nn/cuda/cuda_product.h"

namespace {

// Adds the bias, if there is one, to the sums of a tile.
template <typename Tile>
__device__ void write_tile(float4 *out, const Tile &tile, const float *bias, bool relu, const ProductPlace &at,
                           const ProductSizes &of) {
    for (uint32_t i = threadIdx.x; i < Tile::rows * Tile::quads; i += PRODUCT_THREADS) {
        const uint32_t row = at.first_row + i / Tile::quads, quad = at.first_quad + i % Tile::quads;
        if (row >= of.rows || quad >= of.quads) continue;
        float4 sum = tile_sum(tile, i);
        if (bias) sum = plus(sum, make_float4(bias[row], bias[row], bias[row], bias[row]));
        out[(size_t)row * of.quads + quad] = relu ? rectified(sum) : sum;
    }
}

// out (models, places, rows,N) = weight * in (models, places, inner,N) + bias, rectified with `relu`; with TRANSPOSED
// out = weight^T * in, without bias. Large tiles of few columns wait for memory most: four blocks on a multiprocessor
// keep more of it on the way, though they leave a thread only 64 registers.
template <uint32_t THREAD_ROWS, uint32_t QUADS, bool TRANSPOSED>
__global__ void __launch_bounds__(PRODUCT_THREADS, THREAD_ROWS == MANY_ROWS && QUADS == FEW_QUADS ? 4 : 0)
    product(float4 *out, const float4 *in, const float *weight, const float *bias, size_t stride, bool relu,
            uint32_t places, ProductSizes of) {
    using Tile = ProductTile<THREAD_ROWS, QUADS, TRANSPOSED>;
    __shared__ Tile tile;
    const ProductPlace at = product_place<Tile>(of);
    const size_t model = at.lanes / places * stride;
    sum_products(tile, weight + model, in + (size_t)at.lanes * of.inner * of.quads, at.first_row, at.first_quad, of);
    write_tile(out + (size_t)at.lanes * of.rows * of.quads, tile, bias ? bias + model : nullptr, relu, at, of);
}

template <uint32_t QUADS, bool TRANSPOSED>
void multiply(float *out, const float *in, const float *weight, const float *bias, size_t stride, bool relu,
              uint32_t places, const ProductSizes &of, const CudaStep *step) {
    const size_t lanes = (size_t)step->models * places;
    const bool few = product_has_few_rows(QUADS, lanes, of);
    launch(few ? product<FEW_ROWS, QUADS, TRANSPOSED> : product<MANY_ROWS, QUADS, TRANSPOSED>,
           product_blocks(few ? FEW_ROWS : MANY_ROWS, QUADS, lanes, of), PRODUCT_THREADS, step->stream, (float4 *)out,
           (const float4 *)in, weight, bias, stride, relu, places, of);
}

} // namespace

void cuda_linear_product(float *out, const float *in, const float *weight, const float *bias, size_t stride, bool relu,
                         const Layer *layer, const CudaStep *step) {
    const ProductSizes of = {(uint32_t)linear_outs(layer), (uint32_t)linear_ins(layer), (uint32_t)step->samples / 4};
    (of.quads <= FEW_QUADS
         ? multiply<FEW_QUADS, false>
         : multiply<MANY_QUADS, false>)(out, in, weight, bias, stride, relu, (uint32_t)linear_places(layer), of, step);
}

void cuda_linear_product_back(float *in_gradient, const float *out_gradient, const float *weight, size_t stride,
                              const Layer *layer, const CudaStep *step) {
    const ProductSizes of = {(uint32_t)linear_ins(layer), (uint32_t)linear_outs(layer), (uint32_t)step->samples / 4};
    (of.quads <= FEW_QUADS ? multiply<FEW_QUADS, true>
                           : multiply<MANY_QUADS, true>)(in_gradient, out_gradient, weight, NULL, stride, false,
                                                         (uint32_t)linear_places(layer), of, step);
}
