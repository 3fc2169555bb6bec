// The products of linear layers: a weight, or its transpose, times the lanes of a batch.
#include "nn/cuda/cuda_ops.h"

#include "nn/cuda/cuda_product.h"

namespace {

// The rest of the op, on each sum: a bias is added and a relu applied on the forward pass; on the backward pass the
// relu before the layer lets the gradient through where its output is positive.
struct ProductEnd {
    const float *bias;      // (models strided; rows), or NULL
    const float4 *relu_out; // as the result, or NULL
    bool relu;
};

// Ends the op on the sums of a tile. end: of the block's model and place.
template <typename Tile>
__device__ void write_tile(float4 *out, const Tile &tile, const ProductEnd &end, const ProductPlace &at,
                           const ProductSizes &of) {
    for (uint32_t i = threadIdx.x; i < Tile::rows * Tile::quads; i += PRODUCT_THREADS) {
        const uint32_t row = at.first_row + i / Tile::quads, quad = at.first_quad + i % Tile::quads;
        if (row >= of.rows || quad >= of.quads) continue;
        float4 sum = tile_sum(tile, i);
        const size_t to = (size_t)row * of.quads + quad;
        if (end.bias) sum = plus(sum, make_float4(end.bias[row], end.bias[row], end.bias[row], end.bias[row]));
        if (end.relu_out) sum = rectified_gradient(sum, end.relu_out[to]);
        out[to] = end.relu ? rectified(sum) : sum;
    }
}

// Large tiles of few columns wait for memory most: four blocks on a multiprocessor keep more of it on the way, though
// they leave a thread only 64 registers. For Blackwell nvcc 13.0 does not make do with 64.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 1000
enum { RESIDENT = 3 };
#else
enum { RESIDENT = 4 };
#endif

// out (models, places, rows,N) = weight * in (models, places, inner,N), or with TRANSPOSED weight^T * in, and the op's
// end.
template <uint32_t THREAD_ROWS, uint32_t QUADS, bool TRANSPOSED>
__global__ void __launch_bounds__(PRODUCT_THREADS, THREAD_ROWS == MANY_ROWS && QUADS == FEW_QUADS ? RESIDENT : 0)
    product(float4 *out, const float4 *in, const float *weight, ProductEnd end, size_t stride, uint32_t places,
            ProductSizes of, const uint32_t *counts) {
    using Tile = ProductTile<THREAD_ROWS, QUADS, TRANSPOSED>;
    __shared__ Tile tile;
    const ProductPlace at = product_place<Tile>(of);
    if (counts[at.lanes / places] == 0) return; // the whole block
    const size_t model = at.lanes / places * stride, result = (size_t)at.lanes * of.rows * of.quads;
    sum_products(tile, weight + model, in + (size_t)at.lanes * of.inner * of.quads, at.first_row, at.first_quad, of);
    if (end.bias) end.bias += model;
    if (end.relu_out) end.relu_out += result;
    write_tile(out + result, tile, end, at, of);
}

template <uint32_t QUADS, bool TRANSPOSED>
void multiply(float *out, const float *in, const float *weight, const ProductEnd &end, size_t stride, uint32_t places,
              const ProductSizes &of, const CudaStep *step) {
    const size_t lanes = (size_t)step->models * places;
    const bool few = product_has_few_rows(QUADS, lanes, of);
    launch(few ? product<FEW_ROWS, QUADS, TRANSPOSED> : product<MANY_ROWS, QUADS, TRANSPOSED>,
           product_blocks(few ? FEW_ROWS : MANY_ROWS, QUADS, lanes, of), PRODUCT_THREADS, step->stream, (float4 *)out,
           (const float4 *)in, weight, end, stride, places, of, step->counts);
}

} // namespace

void cuda_linear_product(float *out, const float *in, const float *weight, const float *bias, size_t stride, bool relu,
                         const Layer *layer, const CudaStep *step) {
    const ProductSizes of = {(uint32_t)linear_outs(layer), (uint32_t)linear_ins(layer), (uint32_t)step->samples / 4};
    (of.quads <= FEW_QUADS ? multiply<FEW_QUADS, false>
                           : multiply<MANY_QUADS, false>)(out, in, weight, {bias, NULL, relu}, stride,
                                                          (uint32_t)linear_places(layer), of, step);
}

void cuda_linear_product_back(float *in_gradient, const float *out_gradient, const float *relu_out, const float *weight,
                              size_t stride, const Layer *layer, const CudaStep *step) {
    const ProductSizes of = {(uint32_t)linear_ins(layer), (uint32_t)linear_outs(layer), (uint32_t)step->samples / 4};
    (of.quads <= FEW_QUADS ? multiply<FEW_QUADS, true>
                           : multiply<MANY_QUADS, true>)(in_gradient, out_gradient, weight,
                                                         {NULL, (const float4 *)relu_out, false}, stride,
                                                         (uint32_t)linear_places(layer), of, step);
}
