#include "winograd.h"

#include <string.h>

#include "nn/conv.h"
#include "nn/points.h"
#include "nn/product.h"

// Tiles worked on together: many enough to feed the products' register tiles, few enough for their transforms
// (36 vectors a tile and channel) to stay in the cache.
enum { BLOCK_TILES = 8 };

// How a layer is cut: tile (ty,tx) gives the outputs from (ty * side, tx * side) on.
typedef struct Tiling {
    int side; // outputs of a tile: 7 - K squared
    int rows, columns, count;
    int inputs, outputs; // channels
} Tiling;

static Tiling tiling_of(const Layer *layer) {
    int side = POINTS + 1 - layer->kernel;
    int rows = (layer->out.rows + side - 1) / side, columns = (layer->out.columns + side - 1) / side;
    return (Tiling){side, rows, columns, rows * columns, layer->in.channels, layer->out.channels};
}

ConvSizes ISA_NAME(winograd_sizes)(const Layer *layer) {
    size_t outs = (size_t)layer->out.channels, ins = (size_t)layer->in.channels;
    return (ConvSizes){.packed = POINTS_2D * outs * ins,
                       .gradient = POINTS_2D * OUTER_TILE * outer_tiles((int)outs, (int)ins),
                       .scratch = POINTS_2D * BLOCK_TILES * (outs + ins) * SOUNDER_LANES};
}

// ---- Kernels. Lanes are consecutive kernels here, not samples.

// packed: (36, OC,IC), the kernel's values at the points, each divided by what interpolation leaves out.
ALWAYS_INLINE void pack(float *packed, const float *weight, size_t kernels, int k) {
    int taps = k * k;
    for (size_t first = 0; first < kernels; first += SOUNDER_LANES) {
        size_t lanes = kernels - first < SOUNDER_LANES ? kernels - first : SOUNDER_LANES;
        Lanes kernel[25] = {{0}}, values[POINTS_2D];
        for (int t = 0; t < taps; t++)
            for (size_t i = 0; i < lanes; i++)
                kernel[t][i] = weight[(first + i) * (size_t)taps + (size_t)t];
        transform_2d(evaluate, values, kernel, POINTS, k, k);
        for (int q = 0; q < POINTS_2D; q++) {
            values[q] *= point_weight(q / POINTS) * point_weight(q % POINTS);
            memcpy(packed + (size_t)q * kernels + first, &values[q], lanes * sizeof(float));
        }
    }
}

void ISA_NAME(winograd_pack)(float *packed, const float *weight, const Layer *layer) {
    size_t kernels = (size_t)layer->out.channels * (size_t)layer->in.channels;
    if (layer->kernel == 5)
        pack(packed, weight, kernels, 5);
    else
        pack(packed, weight, kernels, 3);
}

ALWAYS_INLINE void unpack(float *weight_gradient, const float *packed_gradient, int outs, int ins, int k) {
    size_t kernels = (size_t)outs * (size_t)ins, point_floats = OUTER_TILE * outer_tiles(outs, ins);
    int taps = k * k;
    for (size_t first = 0; first < kernels; first += SOUNDER_LANES) {
        size_t lanes = kernels - first < SOUNDER_LANES ? kernels - first : SOUNDER_LANES;
        Lanes kernel[25], values[POINTS_2D] = {{0}};
        for (size_t i = 0; i < lanes; i++) {
            size_t place = outer_place((int)(first + i) / ins, (int)(first + i) % ins, ins);
            for (int q = 0; q < POINTS_2D; q++)
                values[q][i] = packed_gradient[(size_t)q * point_floats + place];
        }
        for (int q = 0; q < POINTS_2D; q++)
            values[q] *= point_weight(q / POINTS) * point_weight(q % POINTS);
        transform_2d(evaluate_transposed, kernel, values, k, POINTS, k);
        for (size_t i = 0; i < lanes; i++)
            for (int t = 0; t < taps; t++)
                weight_gradient[(first + i) * (size_t)taps + (size_t)t] = kernel[t][i];
    }
}

void ISA_NAME(winograd_unpack)(float *weight_gradient, const float *packed_gradient, const Layer *layer) {
    if (layer->kernel == 5)
        unpack(weight_gradient, packed_gradient, layer->out.channels, layer->in.channels, 5);
    else
        unpack(weight_gradient, packed_gradient, layer->out.channels, layer->in.channels, 3);
}

// ---- Tiles. One vector of samples of a tensor (C,H,W,N); vectors is N / SOUNDER_LANES.

// tile (side,side) = the plane (rows, columns) from (y,x) on, zero outside.
ALWAYS_INLINE void load_tile(Lanes *tile, const Lanes *plane, int y, int x, int rows, int columns, size_t vectors,
                             int side) {
    bool inside = y >= 0 && x >= 0 && y + side <= rows && x + side <= columns;
    const Lanes *from = plane + ((ptrdiff_t)y * columns + x) * (ptrdiff_t)vectors;
#pragma GCC unroll 6
    for (int i = 0; i < side; i++)
#pragma GCC unroll 6
        for (int j = 0; j < side; j++) {
            bool real = inside || (y + i >= 0 && y + i < rows && x + j >= 0 && x + j < columns);
            tile[i * side + j] = real ? from[(ptrdiff_t)(i * columns + j) * (ptrdiff_t)vectors] : lanes_of(0);
        }
}

// points (36, channels, BLOCK_TILES): the transforms of tiles first .. first + count of all channels. step and offset:
// tile (ty,tx) starts at (ty * step - offset, tx * step - offset) of the planes.
ALWAYS_INLINE void to_points(Transform *transform, Lanes *points, const Lanes *tensor, Shape shape, size_t vectors,
                             Tiling tiling, int first, int count, int offset, int side) {
    size_t point_lanes = (size_t)shape.channels * BLOCK_TILES;
    for (int c = 0; c < shape.channels; c++) {
        const Lanes *plane = tensor + (size_t)(c * shape.rows * shape.columns) * vectors;
        for (int t = 0; t < count; t++) {
            int y = (first + t) / tiling.columns * tiling.side - offset;
            int x = (first + t) % tiling.columns * tiling.side - offset;
            Lanes tile[POINTS_2D], values[POINTS_2D];
            load_tile(tile, plane, y, x, shape.rows, shape.columns, vectors, side);
            transform_2d(transform, values, tile, POINTS, side, side);
#pragma GCC unroll 36
            for (int q = 0; q < POINTS_2D; q++)
                points[(size_t)q * point_lanes + (size_t)(c * BLOCK_TILES + t)] = values[q];
        }
    }
}

// The tensor's tiles get, or are increased by, what transform gives for points (36, channels, BLOCK_TILES).
ALWAYS_INLINE void from_points(Transform *transform, Lanes *tensor, const Lanes *points, const float *bias, Shape shape,
                               size_t vectors, Tiling tiling, int first, int count, int offset, int side, bool add) {
    size_t point_lanes = (size_t)shape.channels * BLOCK_TILES;
    for (int c = 0; c < shape.channels; c++) {
        Lanes *plane = tensor + (size_t)(c * shape.rows * shape.columns) * vectors;
        for (int t = 0; t < count; t++) {
            int y = (first + t) / tiling.columns * tiling.side - offset;
            int x = (first + t) % tiling.columns * tiling.side - offset;
            Lanes tile[POINTS_2D], values[POINTS_2D];
#pragma GCC unroll 36
            for (int q = 0; q < POINTS_2D; q++)
                values[q] = points[(size_t)q * point_lanes + (size_t)(c * BLOCK_TILES + t)];
            transform_2d(transform, tile, values, side, POINTS, side);
            bool inside = y >= 0 && x >= 0 && y + side <= shape.rows && x + side <= shape.columns;
            Lanes *to = plane + ((ptrdiff_t)y * shape.columns + x) * (ptrdiff_t)vectors;
#pragma GCC unroll 6
            for (int i = 0; i < side; i++)
#pragma GCC unroll 6
                for (int j = 0; j < side; j++) {
                    if (!inside && (y + i < 0 || y + i >= shape.rows || x + j < 0 || x + j >= shape.columns)) continue;
                    Lanes *place = to + (ptrdiff_t)(i * shape.columns + j) * (ptrdiff_t)vectors;
                    *place = add ? *place + tile[i * side + j] : tile[i * side + j] + bias[c];
                }
        }
    }
}

// ---- The layer.

// The points of a block of tiles: ins (36, IC, BLOCK_TILES) and outs (36, OC, BLOCK_TILES), both in scratch.
typedef struct Block {
    Lanes *ins, *outs;
    size_t in_lanes, out_lanes; // of one point
} Block;

static Block block_in(float *scratch, Tiling tiling) {
    size_t in_lanes = (size_t)tiling.inputs * BLOCK_TILES, out_lanes = (size_t)tiling.outputs * BLOCK_TILES;
    Lanes *ins = (Lanes *)scratch;
    return (Block){ins, ins + POINTS_2D * in_lanes, in_lanes, out_lanes};
}

ALWAYS_INLINE void forward(Lanes *out, float *scratch, const Lanes *in, const float *packed, const float *bias,
                           const Layer *layer, size_t vectors, int side) {
    Tiling tiling = tiling_of(layer);
    Block block = block_in(scratch, tiling);
    size_t kernels = (size_t)tiling.outputs * (size_t)tiling.inputs;
    for (int first = 0; first < tiling.count; first += BLOCK_TILES) {
        int count = tiling.count - first < BLOCK_TILES ? tiling.count - first : BLOCK_TILES;
        to_points(interpolate_transposed, block.ins, in, layer->in, vectors, tiling, first, count, layer->pad, POINTS);
        for (size_t q = 0; q < POINTS_2D; q++) {
            ScalarMatrix weight = {packed + q * kernels, (size_t)tiling.inputs, 1};
            product(block.outs + q * block.out_lanes, weight, block.ins + q * block.in_lanes, tiling.outputs,
                    (size_t)tiling.inputs, count, BLOCK_TILES);
        }
        from_points(evaluate_transposed, out, block.outs, bias, layer->out, vectors, tiling, first, count, 0, side,
                    false);
    }
}

void ISA_NAME(winograd_forward)(float *out, float *scratch, const float *in, const float *packed, const float *bias,
                                const Layer *layer, int samples) {
    size_t vectors = (size_t)samples / SOUNDER_LANES;
    for (size_t v = 0; v < vectors; v++)
        if (layer->kernel == 5)
            forward((Lanes *)out + v, scratch, (const Lanes *)in + v, packed, bias, layer, vectors, 2);
        else
            forward((Lanes *)out + v, scratch, (const Lanes *)in + v, packed, bias, layer, vectors, 4);
}

ALWAYS_INLINE void backward(float *packed_gradient, Lanes *in_gradient, float *scratch, const Lanes *in,
                            const Lanes *out_gradient, const float *packed, const Layer *layer, size_t vectors,
                            int side) {
    Tiling tiling = tiling_of(layer);
    Block block = block_in(scratch, tiling);
    size_t kernels = (size_t)tiling.outputs * (size_t)tiling.inputs;
    size_t point_floats = OUTER_TILE * outer_tiles(tiling.outputs, tiling.inputs);
    for (int first = 0; first < tiling.count; first += BLOCK_TILES) {
        int count = tiling.count - first < BLOCK_TILES ? tiling.count - first : BLOCK_TILES;
        to_points(evaluate, block.outs, out_gradient, layer->out, vectors, tiling, first, count, 0, side);
        to_points(interpolate_transposed, block.ins, in, layer->in, vectors, tiling, first, count, layer->pad, POINTS);
        for (size_t q = 0; q < POINTS_2D; q++) {
            Lanes *ins = block.ins + q * block.in_lanes, *outs = block.outs + q * block.out_lanes;
            outer_product(packed_gradient + q * point_floats, outs, ins, tiling.outputs, tiling.inputs, count,
                          BLOCK_TILES);
            if (!in_gradient) continue; // else this point's inputs give way to their gradient
            ScalarMatrix transposed = {packed + q * kernels, 1, (size_t)tiling.inputs};
            product(ins, transposed, outs, tiling.inputs, (size_t)tiling.outputs, count, BLOCK_TILES);
        }
        if (in_gradient)
            from_points(interpolate, in_gradient, block.ins, NULL, layer->in, vectors, tiling, first, count, layer->pad,
                        POINTS, true);
    }
}

void ISA_NAME(winograd_backward)(float *packed_gradient, float *bias_gradient, float *in_gradient, float *scratch,
                                 const float *in, const float *out_gradient, const float *packed, const Layer *layer,
                                 int samples) {
    size_t vectors = (size_t)samples / SOUNDER_LANES;
    ISA_NAME(conv_bias_backward)(bias_gradient, out_gradient, layer->out, samples);
    if (in_gradient) memset(in_gradient, 0, shape_size(layer->in) * (size_t)samples * sizeof *in_gradient);
    for (size_t v = 0; v < vectors; v++) {
        Lanes *to = in_gradient ? (Lanes *)in_gradient + v : NULL;
        const Lanes *from = (const Lanes *)in + v, *gradient = (const Lanes *)out_gradient + v;
        if (layer->kernel == 5)
            backward(packed_gradient, to, scratch, from, gradient, packed, layer, vectors, 2);
        else
            backward(packed_gradient, to, scratch, from, gradient, packed, layer, vectors, 4);
    }
}
