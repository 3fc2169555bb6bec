// The steps of an lstm or a gru on a GPU: a block's tile of a step's product has all gates of its units, so that what
// follows the product is part of the launch. C++ only.
#ifndef SOUNDER_NN_CUDA_CUDA_RECURRENT_H
#define SOUNDER_NN_CUDA_CUDA_RECURRENT_H

#include "nn/cuda/cuda_product.h"

// A unit of a sample at one step, of which a thread computes what follows the product.
struct Cell {
    uint32_t row, column, unit;     // row: of the unit's first row in the tile; column: of its sample there
    bool is_there;                  // in the layer, too
    size_t own, place, gate, block; // offsets in (M, H,N), in (M, T, H,N), of the first gate; from gate to gate
};

// The cell of a block's number `item`. Each unit has Tile::parts rows of the tile, and `gates` kept ones.
template <typename Tile>
__device__ Cell cell_of(uint32_t item, const ProductPlace &at, uint32_t gates, uint32_t units, uint32_t steps,
                        uint32_t samples, uint32_t t) {
    const uint32_t columns = 4 * Tile::quads, number = item / columns;
    Cell cell;
    cell.row = number * Tile::parts, cell.column = item - number * columns;
    cell.unit = at.first_row / Tile::parts + number;
    const uint32_t sample = 4 * at.first_quad + cell.column;
    cell.is_there = cell.unit < units && sample < samples;
    cell.block = (size_t)units * samples;
    const size_t in_block = (size_t)cell.unit * samples + sample, step = (size_t)at.lanes * steps + t;
    cell.own = at.lanes * cell.block + in_block;
    cell.place = step * cell.block + in_block;
    cell.gate = gates * step * cell.block + in_block;
    return cell;
}

// A linear layer of each step.
inline Layer each_step(uint32_t steps, int ins, int outs) {
    Layer each = {};
    each.kind = LAYER_LINEAR_EACH;
    each.in.channels = each.out.channels = 1;
    each.in.rows = each.out.rows = (int)steps;
    each.in.columns = ins, each.out.columns = outs;
    return each;
}

// The kernels by their tiles: of few or many quads, of few or many rows.
#define BY_TILE(kernel)                                                                                                \
    {                                                                                                                  \
        {kernel<FEW_ROWS, FEW_QUADS>, kernel<MANY_ROWS, FEW_QUADS>}, {                                                 \
            kernel<FEW_ROWS, MANY_QUADS>, kernel<MANY_ROWS, MANY_QUADS>                                                \
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
           PRODUCT_THREADS, step->stream, arguments..., of);
}

#endif
