// Part of ops.h: 2-D convolution of 5x5 and 3x3 kernels with fewer multiplications (Toom and Cook; Winograd; Lavin and
// Gray, CVPR 2016).
//
// In one dimension: the product of two polynomials of K and M coefficients has degree K + M - 2, so it is known by its
// values at Q = K + M - 1 points, and there each value costs one multiplication instead of the K * M of the plain
// product. M is 4 here, so Q is 8 or 6; the points are 0, +a, -a, +b, -b ... and infinity (the leading coefficient).
// With
//   E   values of a polynomial at the points ("evaluate")        E'  its transpose
//   P   coefficients from Q values ("interpolate")               P'  its transpose
//   .*  multiplication point by point
// and w the kernel, x Q inputs, y the M outputs from them, dw, dx, dy their gradients:
//   y = E' (E w .* P' x)      dx = P (E w .* E dy)      dw = E' (E dy .* P' x)
// The inputs' gradient is also the convolution of the outputs' gradient with the reversed kernel. Computed for M inputs
// from the Q output gradients that read them, all three in reverse order:
//                             dx = E' (E w .* P' dy)    dw = E' (E x .* P' dy)
// Then the tiles of dx do not overlap: they are written at once instead of added to zeros.
//
// Two dimensions apply each transform to the columns and then to the rows: Q * Q points per tile instead of K * K * M *
// M multiplications, 6.25 times fewer for K = 5 and 4 times fewer for K = 3. At each point, the sums over channels and
// tiles are three matrix products (product.h). Tiles of Q places overlap by K - 1; with P, dx adds up in the overlap.
#include "ops.h"

#include <string.h>

#include "nn/kernels/product.h"
#include "nn/kernels/tiles.h"

// Number of vectors of one channel at one point that are worked on together. At least FEW_VECTORS, which feed the
// products' register tiles. More of them make up for reading the kernels' values once per block: the points' values
// should be KERNEL_SHARES times as large. But no more than the second and third cache hold, if that is at least the
// width of a register tile. With 32 registers, no FEW_VECTORS below MOST_VECTORS has been faster.
enum { LEAST_VECTORS = PRODUCT_COLUMNS, FEW_VECTORS = SOUNDER_LANES == 16 ? 16 : 4, MOST_VECTORS = 16 };
enum { KERNEL_SHARES = 2, CACHED_BYTES = 5 << 18 };

// Side of a tile of outputs.
enum { SIDE = 4 };

// Q * Q.
static size_t points_2d(const Layer *layer) {
    size_t points = (size_t)layer->kernel + SIDE - 1;
    return points * points;
}

static size_t smaller(size_t a, size_t b) {
    return a < b ? a : b;
}

static size_t larger(size_t a, size_t b) {
    return a > b ? a : b;
}

static size_t block_floats(const Layer *layer) {
    const size_t outs = (size_t)layer->out.channels, ins = (size_t)layer->in.channels;
    const size_t fitting = CACHED_BYTES / ((ins + outs) * points_2d(layer) * sizeof(Lanes));
    const size_t paying = KERNEL_SHARES * ins * outs / ((ins + outs) * SOUNDER_LANES);
    const size_t vectors = smaller(smaller(larger(paying, FEW_VECTORS), MOST_VECTORS), fitting);
    return larger(vectors / LEAST_VECTORS * LEAST_VECTORS, LEAST_VECTORS) * SOUNDER_LANES;
}

// The kernels' gradient at one point is a product over samples. If there are enough input channels to pay for it, the
// outputs' gradients are transposed, so that output channels are the lanes: gradient (IC, OC). Otherwise lanes are
// samples, summed at the end: gradient as in outer_place.
static bool transposes(const Layer *layer) {
    return layer->in.channels >= 2 * SOUNDER_LANES;
}

// Number of floats of the gradient at one point.
static size_t gradient_floats(const Layer *layer) {
    int outs = layer->out.channels, ins = layer->in.channels;
    return transposes(layer) ? (size_t)ins * in_vectors(outs) : OUTER_TILE * outer_tiles(outs, ins);
}

// Scratch holds a block's values at all points, for inputs and outputs, and one panel of transposed outputs.
ConvSizes ISA_NAME(winograd_sizes)(const Layer *layer) {
    size_t outs = (size_t)layer->out.channels, ins = (size_t)layer->in.channels, block = block_floats(layer);
    size_t point = point_floats((int)outs, block) + point_floats((int)ins, block), points = points_2d(layer);
    return (ConvSizes){.packed = points * outs * ins,
                       .gradient = points * gradient_floats(layer),
                       .scratch = points * point + (transposes(layer) ? block * in_panels((int)outs) : 0)};
}

// Kernels -------------------------------------------------------------------------------------------------------------
// Lanes are kernels here, not samples.

// Room for a kernel's weights in whole squares of lanes.
enum { MOST_TAPS = 25 + SOUNDER_LANES - 1 };

// packed: (Q * Q, OC,IC), the kernel's values at the points, multiplied by the weights that interpolate leaves out.
ALWAYS_INLINE void pack(float *packed, const float *weight, size_t kernels, int k) {
    const PointSet *set = points_for(k);
    const int taps = k * k, points = points_of(set);
    for (size_t first = 0; first < kernels; first += SOUNDER_LANES) {
        size_t lanes = kernels - first < SOUNDER_LANES ? kernels - first : SOUNDER_LANES;
        Lanes kernel[MOST_TAPS], values[MOST_POINTS_2D];
        for (int t = 0; t < taps; t += SOUNDER_LANES) {
            const size_t width = smaller((size_t)(taps - t), SOUNDER_LANES);
            for (size_t i = 0; i < SOUNDER_LANES; i++)
                kernel[(size_t)t + i] =
                    i < lanes ? lanes_part(weight + (first + i) * (size_t)taps + t, width) : lanes_of(0);
            lanes_transpose(kernel + t);
        }
        transform_2d(evaluate, (Square){values, points, 1}, points, (Square){kernel, k, 1}, k, set, k);
        for (int q = 0; q < points * points; q++) {
            const Lanes value = values[q] * (point_weight(set, q / points) * point_weight(set, q % points));
            float *to = packed + (size_t)q * kernels + first;
            if (lanes == SOUNDER_LANES)
                *(LooseLanes *)to = value;
            else
                lanes_store_part(to, value, lanes);
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

// Output and input channel of a kernel.
typedef struct Channels {
    size_t out, in;
} Channels;

// The kernel whose gradient is stored at this place of each point; places after the last channels have no kernel.
static Channels channels_at(const Layer *layer, size_t place) {
    size_t outs = (size_t)layer->out.channels, ins = (size_t)layer->in.channels;
    if (transposes(layer)) return (Channels){place % in_vectors((int)outs), place / in_vectors((int)outs)};
    size_t tile = place / OUTER_TILE, across = (ins + OUTER_COLUMNS - 1) / OUTER_COLUMNS;
    return (Channels){tile / across * OUTER_ROWS + place % OUTER_TILE / OUTER_COLUMNS,
                      tile % across * OUTER_COLUMNS + place % OUTER_COLUMNS};
}

// k: the kernel's side, a constant wherever this is inlined. The transposed transform of the kernels: the sums over
// blocks have been taken at the points, so that it is done once per batch.
ALWAYS_INLINE void unpack(float *weight_gradient, const float *packed_gradient, const Layer *layer, int k) {
    size_t outs = (size_t)layer->out.channels, ins = (size_t)layer->in.channels, floats = gradient_floats(layer);
    const PointSet *set = points_for(k);
    const int points = points_of(set);
    const size_t taps = (size_t)(k * k);
    for (size_t place = 0; place < floats; place += SOUNDER_LANES) {
        Lanes kernel[MOST_TAPS], values[MOST_POINTS_2D];
        for (size_t t = taps; t % SOUNDER_LANES != 0; t++)
            kernel[t] = lanes_of(0);
        for (int q = 0; q < points * points; q++)
            values[q] = *(const Lanes *)(packed_gradient + (size_t)q * floats + place) *
                        (point_weight(set, q / points) * point_weight(set, q % points));
        transform_2d(evaluate_transposed, (Square){kernel, k, 1}, k, (Square){values, points, 1}, points, set, k);
        for (size_t t = 0; t < taps; t += SOUNDER_LANES) {
            lanes_transpose(kernel + t);
            for (size_t lane = 0; lane < SOUNDER_LANES; lane++) {
                const Channels at = channels_at(layer, place + lane);
                if (at.out < outs && at.in < ins)
                    lanes_store_part(weight_gradient + (at.out * ins + at.in) * taps + t, kernel[t + lane],
                                     smaller(taps - t, SOUNDER_LANES));
            }
        }
    }
}

void ISA_NAME(winograd_unpack)(float *weight_gradient, const float *packed_gradient, const Layer *layer) {
    if (layer->kernel == 5)
        unpack(weight_gradient, packed_gradient, layer, 5);
    else
        unpack(weight_gradient, packed_gradient, layer, 3);
}

// The layer -----------------------------------------------------------------------------------------------------------
// Products at each point, between the transforms.

// The work on one vector of samples of a layer: its division into blocks, and the places of a block's values, ins (Q *
// Q, IC, block.floats) and outs (Q * Q, OC, block.floats).
typedef struct Workplace {
    int inputs, outputs; // channels
    int tile_count;
    Block block; // the current one; its `count` is that of all blocks but the last
    float *ins, *outs;
    float *transposed; // panels (block.floats, PANEL) of outs at one point; NULL if not transposed
    size_t points;     // Q * Q
    size_t in_floats, out_floats, gradient_floats; // of one point
} Workplace;

static int tiles_of(int places) {
    return (places + SIDE - 1) / SIDE;
}

// Tiles of SIDE places are side by side in planes of the shape. All blocks but the last hold as many as they can.
static Workplace workplace_of(const Layer *layer, Shape shape, float *scratch, int samples) {
    int rows = tiles_of(shape.rows), columns = tiles_of(shape.columns);
    size_t floats = block_floats(layer);
    int tiles = rows * columns, capacity = (int)floats / samples;
    Block block = {.count = capacity < tiles ? capacity : tiles,
                   .columns = columns,
                   .step = SIDE,
                   .samples = samples,
                   .together = tiles_together(samples),
                   .floats = floats};
    for (int s = 0; s < samples; s++)
        block.real[s] = -1;
    Workplace work = {.inputs = layer->in.channels,
                      .outputs = layer->out.channels,
                      .tile_count = tiles,
                      .block = block,
                      .ins = scratch,
                      .points = points_2d(layer),
                      .in_floats = point_floats(layer->in.channels, floats),
                      .out_floats = point_floats(layer->out.channels, floats),
                      .gradient_floats = gradient_floats(layer)};
    work.outs = work.ins + work.points * work.in_floats;
    if (transposes(layer)) work.transposed = work.outs + work.points * work.out_floats;
    return work;
}

static Block block_at(const Workplace *work, int first) {
    Block block = work->block;
    block.first = first;
    if (work->tile_count - first < block.count) block.count = work->tile_count - first;
    return block;
}

static int vectors_of(const Block *block) {
    return (block->count * block->samples + SOUNDER_LANES - 1) / SOUNDER_LANES;
}

// At each point the sum over input channels is a matrix product: outputs (OC, tiles) = kernels (OC,IC) * inputs (IC,
// tiles).
static void forward_products(const Workplace *work, const float *packed, int vectors) {
    size_t kernels = (size_t)work->outputs * (size_t)work->inputs, row = work->block.floats;
    for (size_t q = 0; q < work->points; q++) {
        ScalarMatrix weight = {packed + q * kernels, (size_t)work->inputs, 1};
        product((ProductOut){work->outs + q * work->out_floats, row, .adds = false}, weight,
                work->ins + q * work->in_floats, work->outputs, (size_t)work->inputs, vectors, row);
    }
}

// Adds to the weight's gradient. Then, unless `last`, the inputs' gradient overwrites the inputs' values at the points.
static void backward_products(float *packed_gradient, const Workplace *work, const float *packed, int vectors,
                              bool last) {
    size_t kernels = (size_t)work->outputs * (size_t)work->inputs, row = work->block.floats;
    for (size_t q = 0; q < work->points; q++) {
        float *ins = work->ins + q * work->in_floats, *outs = work->outs + q * work->out_floats;
        weight_product(packed_gradient + q * work->gradient_floats, work->transposed, outs, ins, row, work->outputs,
                       work->inputs, vectors);
        if (last) continue;
        ScalarMatrix transposed = {packed + q * kernels, 1, (size_t)work->inputs};
        product((ProductOut){ins, row, .adds = false}, transposed, outs, work->inputs, (size_t)work->outputs, vectors,
                row);
    }
}

// Block by block: inputs to points, one product per point, points to outputs. The Ending adds the bias and rectifies
// while the outputs are in registers.
ALWAYS_INLINE void forward(float *out, float *scratch, float *in, const float *packed, const float *bias,
                           const Layer *layer, size_t step, const PointSet *set, int samples) {
    const TileWay inputs = {interpolate_transposed, points_of(set), layer->pad, false};
    const TileWay outputs = {evaluate_transposed, SIDE, 0, false};
    const Ending ending = {.bias = bias, .rectifies = layer->rectifies};
    Workplace work = workplace_of(layer, layer->out, scratch, samples);
    for (int first = 0; first < work.tile_count; first += work.block.count) {
        Block block = block_at(&work, first);
        to_points(inputs, set, work.ins, in, layer->in, step, &block);
        forward_products(&work, packed, vectors_of(&block));
        from_points(outputs, set, out, work.outs, ending, layer->out, step, &block);
    }
}

// Number of samples, of `count`, in the vector that begins with sample `first`.
static int samples_from(int first, int count) {
    return count - first < SOUNDER_LANES ? count - first : SOUNDER_LANES;
}

// The input is only read, but a Plane serves for writing, too, hence the casts.
void ISA_NAME(winograd_forward)(float *out, float *scratch, const float *in, const float *packed, const float *bias,
                                const Layer *layer, int count, int samples) {
    const size_t step = (size_t)samples;
    for (int s = 0; s < samples; s += SOUNDER_LANES) {
        const int real = samples_from(s, count);
        if (layer->kernel == 5)
            forward(out + s, scratch, (float *)in + s, packed, bias, layer, step, points_for(5), real);
        else
            forward(out + s, scratch, (float *)in + s, packed, bias, layer, step, points_for(3), real);
    }
}

// Whether the backward pass works on reversed tiles of the inputs. It does not if there are more of them than tiles of
// outputs, or if the outputs' channels lose more (P' takes longer than E) than the inputs' channels gain.
static bool goes_back_to_front(const Layer *layer) {
    return tiles_of(layer->in.rows) * tiles_of(layer->in.columns) <=
               tiles_of(layer->out.rows) * tiles_of(layer->out.columns) &&
           layer->out.channels < 2 * layer->in.channels;
}

// to_front: reversed tiles of the inputs; otherwise in_gradient is added to, and must hold zeros or other gradients.
ALWAYS_INLINE void backward(float *packed_gradient, float *in_gradient, bool adds, float *scratch, float *in,
                            float *out_gradient, const float *packed, const Layer *layer, size_t step,
                            const PointSet *set, bool to_front, int samples) {
    const int points = points_of(set), pad = layer->pad;
    const TileWay side_by_side = {evaluate, SIDE, 0, to_front}; // of the outputs' gradients, or of the inputs
    const TileWay overlapping = {interpolate_transposed, points, to_front ? points - SIDE - pad : pad, to_front};
    const TileWay gradients =
        to_front ? (TileWay){evaluate_transposed, SIDE, 0, true} : (TileWay){interpolate, points, pad, false};
    const Ending ending = {.adds = adds || !to_front,
                           .stops = to_front && layer->rectified,
                           .outs = (uintptr_t)in - (uintptr_t)in_gradient};
    Workplace work = workplace_of(layer, to_front ? layer->in : layer->out, scratch, samples);
    for (int first = 0; first < work.tile_count; first += work.block.count) {
        Block block = block_at(&work, first);
        to_points(to_front ? overlapping : side_by_side, set, work.outs, out_gradient, layer->out, step, &block);
        to_points(to_front ? side_by_side : overlapping, set, work.ins, in, layer->in, step, &block);
        backward_products(packed_gradient, &work, packed, vectors_of(&block), !in_gradient);
        if (in_gradient) from_points(gradients, set, in_gradient, work.ins, ending, layer->in, step, &block);
    }
}

// A vector of samples at a time. Both sides of kernels and both directions have code of their own, with constants.
void ISA_NAME(winograd_backward)(float *packed_gradient, float *bias_gradient, float *in_gradient, bool adds,
                                 float *scratch, const float *in, const float *out_gradient, const float *packed,
                                 const Layer *layer, int count, int samples) {
    const size_t step = (size_t)samples, floats = shape_size(layer->in) * step;
    const bool to_front = goes_back_to_front(layer);
    ISA_NAME(conv_bias_backward)(bias_gradient, out_gradient, layer->out, samples);
    if (in_gradient && !to_front && !adds) memset(in_gradient, 0, floats * sizeof *in_gradient);
    for (int s = 0; s < samples; s += SOUNDER_LANES) {
        float *to = in_gradient ? in_gradient + s : NULL, *from = (float *)in + s,
              *gradient = (float *)out_gradient + s;
        const int real = samples_from(s, count);
#define BACKWARD(kernel, to_front)                                                                                     \
    backward(packed_gradient, to, adds, scratch, from, gradient, packed, layer, step, points_for(kernel), to_front,    \
             real)
        if (layer->kernel == 5 && to_front)
            BACKWARD(5, true);
        else if (layer->kernel == 5)
            BACKWARD(5, false);
        else if (to_front)
            BACKWARD(3, true);
        else
            BACKWARD(3, false);
#undef BACKWARD
    }
    if (in_gradient && !to_front && layer->rectified) ISA_NAME(conv_stop_gradient)(in_gradient, in, floats);
}
