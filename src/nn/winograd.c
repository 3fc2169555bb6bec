// 2-D convolution of 5x5 and 3x3 kernels with fewer multiplications (Toom and Cook; Winograd; Lavin and Gray, CVPR
// 2016).
//
// In one dimension: the product of two polynomials of K and M = 7 - K coefficients has degree 5, so it is known by its
// values at six points, and there each value costs one multiplication instead of the K * M of the plain product. The
// points here are 0, +a, -a, +b, -b and infinity (the leading coefficient). With
//   E   values of a polynomial at the points ("evaluate")        E'  its transpose
//   P   coefficients from six values ("interpolate")             P'  its transpose
//   .*  multiplication point by point
// and w the kernel, x six inputs, y the M outputs from them, dw, dx, dy their gradients:
//   y = E' (E w .* P' x)      dx = P (E w .* E dy)      dw = E' (E dy .* P' x)
// Two dimensions apply each transform to the columns and then to the rows: 36 points a tile instead of K * K * M * M
// multiplications, 2.8 times fewer for K = 5 and 4 times fewer for K = 3. At each point, the sums over channels and
// tiles are three matrix products (product.h). Tiles overlap by K - 1 inputs, and dx adds up where they do.
#include "ops.h"

#include <string.h>

#include "nn/points.h"
#include "nn/product.h"

// Vectors of one channel at one point that are worked on together: many enough to feed the products' register tiles,
// few enough for 36 of them a channel to stay in the second cache, if that leaves a register tile's width.
enum { MOST_VECTORS = 16, LEAST_VECTORS = PRODUCT_COLUMNS, CACHED_BYTES = 5 << 18 };

static size_t block_floats(const Layer *layer) {
    size_t vector_bytes = (size_t)(layer->in.channels + layer->out.channels) * POINTS_2D * sizeof(Lanes);
    size_t vectors = CACHED_BYTES / vector_bytes / LEAST_VECTORS * LEAST_VECTORS;
    if (vectors < LEAST_VECTORS) vectors = LEAST_VECTORS;
    return (vectors < MOST_VECTORS ? vectors : MOST_VECTORS) * SOUNDER_LANES;
}

// Floats of one point: (channels, block), and a vector more, so that the 36 values that a transform reads or writes
// together, one in each point, do not compete for the same set of a cache.
static size_t point_floats(int channels, size_t block) {
    return (size_t)channels * block + SOUNDER_LANES;
}

// The kernels' gradient at one point is a product over samples. Where there are enough input channels to make up for
// it, the outputs' slopes are transposed, so that output channels are the lanes: gradient (IC, OC). Otherwise lanes are
// samples, summed up at the end: gradient as outer_place says.
static bool transposes(const Layer *layer) {
    return layer->in.channels >= 2 * SOUNDER_LANES;
}

// Floats of a row of the transposed slopes, and of the gradient.
static size_t gradient_row(int outs) {
    return ((size_t)outs + SOUNDER_LANES - 1) / SOUNDER_LANES * SOUNDER_LANES;
}

// Of the gradient at one point.
static size_t gradient_floats(const Layer *layer) {
    int outs = layer->out.channels, ins = layer->in.channels;
    return transposes(layer) ? (size_t)ins * gradient_row(outs) : OUTER_TILE * outer_tiles(outs, ins);
}

ConvSizes ISA_NAME(winograd_sizes)(const Layer *layer) {
    size_t outs = (size_t)layer->out.channels, ins = (size_t)layer->in.channels, block = block_floats(layer);
    size_t points = point_floats((int)outs, block) + point_floats((int)ins, block);
    return (ConvSizes){.packed = POINTS_2D * outs * ins,
                       .gradient = POINTS_2D * gradient_floats(layer),
                       .scratch = POINTS_2D * points + (transposes(layer) ? block * gradient_row((int)outs) : 0)};
}

// Kernels -------------------------------------------------------------------------------------------------------------
// Lanes are kernels here, not samples.

// packed: (36, OC,IC), the kernel's values at the points, each divided by what interpolation leaves out.
ALWAYS_INLINE void pack(float *packed, const float *weight, size_t kernels, int k) {
    int taps = k * k;
    for (size_t first = 0; first < kernels; first += SOUNDER_LANES) {
        size_t lanes = kernels - first < SOUNDER_LANES ? kernels - first : SOUNDER_LANES;
        Lanes kernel[25] = {{0}}, values[POINTS_2D];
        for (int t = 0; t < taps; t++)
            for (size_t i = 0; i < lanes; i++)
                kernel[t][i] = weight[(first + i) * (size_t)taps + (size_t)t];
        transform_2d(evaluate, (Square){values, POINTS, 1}, POINTS, (Square){kernel, (size_t)k, 1}, k, k);
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

// Output and input channel of a kernel.
typedef struct Channels {
    size_t out, in;
} Channels;

// Of the kernel whose gradient lies at that place of each point; there are places behind the last channels, too.
static Channels channels_at(const Layer *layer, size_t place) {
    size_t outs = (size_t)layer->out.channels, ins = (size_t)layer->in.channels;
    if (transposes(layer)) return (Channels){place % gradient_row((int)outs), place / gradient_row((int)outs)};
    size_t tile = place / OUTER_TILE, across = (ins + OUTER_COLUMNS - 1) / OUTER_COLUMNS;
    return (Channels){tile / across * OUTER_ROWS + place % OUTER_TILE / OUTER_COLUMNS,
                      tile % across * OUTER_COLUMNS + place % OUTER_COLUMNS};
}

// k: the kernel's side, a constant where this is inlined.
ALWAYS_INLINE void unpack(float *weight_gradient, const float *packed_gradient, const Layer *layer, int k) {
    size_t outs = (size_t)layer->out.channels, ins = (size_t)layer->in.channels, floats = gradient_floats(layer);
    size_t taps = (size_t)(k * k);
    for (size_t place = 0; place < floats; place += SOUNDER_LANES) {
        Lanes kernel[25], values[POINTS_2D];
        for (size_t q = 0; q < POINTS_2D; q++)
            values[q] = *(const Lanes *)(packed_gradient + q * floats + place) *
                        (point_weight((int)q / POINTS) * point_weight((int)q % POINTS));
        transform_2d(evaluate_transposed, (Square){kernel, (size_t)k, 1}, k, (Square){values, POINTS, 1}, POINTS, k);
        for (size_t lane = 0; lane < SOUNDER_LANES; lane++) {
            Channels at = channels_at(layer, place + lane);
            if (at.out >= outs || at.in >= ins) continue;
            for (size_t t = 0; t < taps; t++)
                weight_gradient[(at.out * ins + at.in) * taps + t] = kernel[t][lane];
        }
    }
}

void ISA_NAME(winograd_unpack)(float *weight_gradient, const float *packed_gradient, const Layer *layer) {
    if (layer->kernel == 5)
        unpack(weight_gradient, packed_gradient, layer, 5);
    else
        unpack(weight_gradient, packed_gradient, layer, 3);
}

// Tiles ---------------------------------------------------------------------------------------------------------------
// One vector of samples of a tensor (C,H,W,N); vectors is N / SOUNDER_LANES.

// One channel's plane of a tensor, for one vector of samples: (rows, columns), vectors apart.
typedef struct Plane {
    Lanes *at;
    int rows, columns;
    size_t vectors;
} Plane;

static Plane plane_of(Lanes *tensor, Shape shape, int channel, size_t vectors) {
    size_t size = (size_t)shape.rows * (size_t)shape.columns * vectors;
    return (Plane){tensor + (size_t)channel * size, shape.rows, shape.columns, vectors};
}

static Lanes *plane_at(const Plane *plane, int y, int x) {
    return plane->at + ((size_t)y * (size_t)plane->columns + (size_t)x) * plane->vectors;
}

// The part of a tile of `side` places from y on that lies within 0 .. size.
typedef struct Range {
    int from, to;
} Range;

static Range inside(int y, int side, int size) {
    return (Range){y < 0 ? -y : 0, size - y < side ? size - y : side};
}

// The tile (side,side) from (y,x) on: in place if it lies inside the plane, else as a copy with zeros around.
static Square load_tile(Lanes copy[POINTS_2D], const Plane *plane, int y, int x, int side) {
    Range rows = inside(y, side, plane->rows), columns = inside(x, side, plane->columns);
    if (rows.to - rows.from == side && columns.to - columns.from == side)
        return (Square){plane_at(plane, y, x), (size_t)plane->columns * plane->vectors, plane->vectors};
    Lanes *to = copy;
    for (int i = 0; i < side; i++) {
        const bool any = i >= rows.from && i < rows.to;
        const Lanes *from = any ? plane_at(plane, y + i, x + columns.from) : NULL;
        for (int j = 0; j < side; j++) {
            const bool real = any && j >= columns.from && j < columns.to;
            *to++ = real ? *from : lanes_of(0);
            if (real) from += plane->vectors;
        }
    }
    return (Square){copy, (size_t)side, 1};
}

// Writes (with the bias, rectified if so wanted) or adds the part of the tile (side,side) that lies inside the plane.
ALWAYS_INLINE void store_tile(const Plane *plane, const Lanes *tile, const float *bias, bool rectifies, int y, int x,
                              int side) {
    Range rows = inside(y, side, plane->rows), columns = inside(x, side, plane->columns);
    for (int i = rows.from; i < rows.to; i++)
        for (int j = columns.from; j < columns.to; j++) {
            Lanes *place = plane_at(plane, y + i, x + j);
            const Lanes sum = tile[i * side + j] + (bias ? lanes_of(*bias) : *place);
            *place = rectifies ? lanes_rectified(sum) : sum;
        }
}

// Tiles first .. first + count of a layer. Tile (ty,tx) starts at (ty * step - offset, tx * step - offset) of a plane.
//
// At the points, tiles follow each other without gaps, `samples` floats each: the products' vectors are full even if
// the samples do not fill one. A tile is read and written as a whole vector all the same. What it writes too much is
// overwritten by the next tile and, behind the last one, with zeros; what it reads too much is cleared.
typedef struct Block {
    int first, count, columns, step;
    int samples;   // in this vector: SOUNDER_LANES or fewer
    size_t floats; // room for a channel's tiles at one point
    IntLanes real; // true for these
} Block;

static int tile_y(const Block *block, int t, int offset) {
    return (block->first + t) / block->columns * block->step - offset;
}

static int tile_x(const Block *block, int t, int offset) {
    return (block->first + t) % block->columns * block->step - offset;
}

// Tile t of channel c at the points: one value a point.
static Square values_at(float *points, Shape shape, const Block *block, int c, int t) {
    size_t step = point_floats(shape.channels, block->floats) / SOUNDER_LANES;
    return (Square){(LooseLanes *)(points + ((size_t)c * block->floats + (size_t)(t * block->samples))), POINTS * step,
                    step};
}

// points (36, channels, block->floats) = the transforms of the block's tiles, `side` wide, in all channels.
ALWAYS_INLINE void to_points(Transform *transform, float *points, Lanes *tensor, Shape shape, size_t vectors,
                             const Block *block, int offset, int side) {
    for (int c = 0; c < shape.channels; c++) {
        Plane plane = plane_of(tensor, shape, c, vectors);
        for (int t = 0; t < block->count; t++) {
            Lanes copy[POINTS_2D];
            Square tile = load_tile(copy, &plane, tile_y(block, t, offset), tile_x(block, t, offset), side);
            transform_2d(transform, values_at(points, shape, block, c, t), POINTS, tile, side, side);
        }
        if (block->count * block->samples % SOUNDER_LANES == 0) continue;
        Square behind = values_at(points, shape, block, c, block->count);
        for (size_t q = 0; q < POINTS_2D; q++)
            behind.at[q * behind.column_step] = lanes_of(0);
    }
}

// The block's tiles get, or without a bias are increased by, what transform gives for points.
ALWAYS_INLINE void from_points(Transform *transform, Lanes *tensor, float *points, const float *bias, bool rectifies,
                               Shape shape, size_t vectors, const Block *block, int offset, int side) {
    for (int c = 0; c < shape.channels; c++) {
        Plane plane = plane_of(tensor, shape, c, vectors);
        for (int t = 0; t < block->count; t++) {
            Lanes tile[POINTS_2D];
            Square values = values_at(points, shape, block, c, t);
            transform_2d(transform, (Square){tile, (size_t)side, 1}, side, values, POINTS, side);
            if (block->samples < SOUNDER_LANES)
                for (int i = 0; i < side * side; i++)
                    tile[i] = lanes_select(block->real, tile[i], lanes_of(0));
            store_tile(&plane, tile, bias ? &bias[c] : NULL, rectifies, tile_y(block, t, offset),
                       tile_x(block, t, offset), side);
        }
    }
}

// The layer -----------------------------------------------------------------------------------------------------------
// Products at each point, between the transforms.

// One vector of samples of a layer at work: how it is cut, and where a block's points lie, ins (36, IC, block.floats)
// and outs (36, OC, block.floats).
typedef struct Workplace {
    int inputs, outputs; // channels
    int tile_count;
    Block block; // the one at work; its `count` is that of all but the last
    float *ins, *outs;
    float *transposed;                             // (block.floats, OC): outs at one point; NULL without
    size_t in_floats, out_floats, gradient_floats; // of one point
} Workplace;

// side: outputs of a tile, squared. All blocks but the last hold as many of the layer's tiles as they can.
static Workplace workplace_of(const Layer *layer, float *scratch, int side, int samples) {
    int rows = (layer->out.rows + side - 1) / side, columns = (layer->out.columns + side - 1) / side;
    size_t floats = block_floats(layer);
    int tiles = rows * columns, capacity = (int)floats / samples;
    Block block = {.count = capacity < tiles ? capacity : tiles,
                   .columns = columns,
                   .step = side,
                   .samples = samples,
                   .floats = floats};
    for (int s = 0; s < samples; s++)
        block.real[s] = -1;
    Workplace work = {.inputs = layer->in.channels,
                      .outputs = layer->out.channels,
                      .tile_count = tiles,
                      .block = block,
                      .ins = scratch,
                      .in_floats = point_floats(layer->in.channels, floats),
                      .out_floats = point_floats(layer->out.channels, floats),
                      .gradient_floats = gradient_floats(layer)};
    work.outs = work.ins + POINTS_2D * work.in_floats;
    if (transposes(layer)) work.transposed = work.outs + POINTS_2D * work.out_floats;
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

static void forward_products(const Workplace *work, const float *packed, int vectors) {
    size_t kernels = (size_t)work->outputs * (size_t)work->inputs, row = work->block.floats;
    for (size_t q = 0; q < POINTS_2D; q++) {
        ScalarMatrix weight = {packed + q * kernels, (size_t)work->inputs, 1};
        product((ProductOut){work->outs + q * work->out_floats, row, false}, weight, work->ins + q * work->in_floats,
                work->outputs, (size_t)work->inputs, vectors, row);
    }
}

// Adds what a block's points say to the kernels' gradient at one point.
static void gradient_product(float *gradient, const Workplace *work, const float *ins, const float *outs, int vectors) {
    size_t row = work->block.floats, to = gradient_row(work->outputs);
    if (!work->transposed) {
        outer_product(gradient, (const Lanes *)outs, (const Lanes *)ins, work->outputs, work->inputs, vectors,
                      row / SOUNDER_LANES);
        return;
    }
    transpose(work->transposed, to, outs, row, work->outputs, vectors);
    product((ProductOut){gradient, to, true}, (ScalarMatrix){ins, row, 1}, work->transposed, work->inputs,
            (size_t)(vectors * SOUNDER_LANES), (int)to / SOUNDER_LANES, to);
}

// Adds to the weight's gradient; unless last, the inputs' points give way to their gradient's.
static void backward_products(float *packed_gradient, const Workplace *work, const float *packed, int vectors,
                              bool last) {
    size_t kernels = (size_t)work->outputs * (size_t)work->inputs, row = work->block.floats;
    for (size_t q = 0; q < POINTS_2D; q++) {
        float *ins = work->ins + q * work->in_floats, *outs = work->outs + q * work->out_floats;
        gradient_product(packed_gradient + q * work->gradient_floats, work, ins, outs, vectors);
        if (last) continue;
        ScalarMatrix transposed = {packed + q * kernels, 1, (size_t)work->inputs};
        product((ProductOut){ins, row, false}, transposed, outs, work->inputs, (size_t)work->outputs, vectors, row);
    }
}

ALWAYS_INLINE void forward(Lanes *out, float *scratch, Lanes *in, const float *packed, const float *bias,
                           const Layer *layer, size_t vectors, int side, int samples) {
    Workplace work = workplace_of(layer, scratch, side, samples);
    for (int first = 0; first < work.tile_count; first += work.block.count) {
        Block block = block_at(&work, first);
        to_points(interpolate_transposed, work.ins, in, layer->in, vectors, &block, layer->pad, POINTS);
        forward_products(&work, packed, vectors_of(&block));
        from_points(evaluate_transposed, out, work.outs, bias, layer->rectifies, layer->out, vectors, &block, 0, side);
    }
}

static int samples_in(size_t vector, int count) {
    int left = count - (int)vector * SOUNDER_LANES;
    return left < SOUNDER_LANES ? left : SOUNDER_LANES;
}

// The tensors are only read, but the tiles' type serves for writing, too.
void ISA_NAME(winograd_forward)(float *out, float *scratch, const float *in, const float *packed, const float *bias,
                                const Layer *layer, int count, int samples) {
    size_t vectors = (size_t)samples / SOUNDER_LANES;
    for (size_t v = 0; v < vectors; v++) {
        int real = samples_in(v, count);
        if (layer->kernel == 5)
            forward((Lanes *)out + v, scratch, (Lanes *)in + v, packed, bias, layer, vectors, 2, real);
        else
            forward((Lanes *)out + v, scratch, (Lanes *)in + v, packed, bias, layer, vectors, 4, real);
    }
}

ALWAYS_INLINE void backward(float *packed_gradient, Lanes *in_gradient, float *scratch, Lanes *in, Lanes *out_gradient,
                            const float *packed, const Layer *layer, size_t vectors, int side, int samples) {
    Workplace work = workplace_of(layer, scratch, side, samples);
    for (int first = 0; first < work.tile_count; first += work.block.count) {
        Block block = block_at(&work, first);
        to_points(evaluate, work.outs, out_gradient, layer->out, vectors, &block, 0, side);
        to_points(interpolate_transposed, work.ins, in, layer->in, vectors, &block, layer->pad, POINTS);
        backward_products(packed_gradient, &work, packed, vectors_of(&block), !in_gradient);
        if (in_gradient)
            from_points(interpolate, in_gradient, work.ins, NULL, false, layer->in, vectors, &block, layer->pad,
                        POINTS);
    }
}

void ISA_NAME(winograd_backward)(float *packed_gradient, float *bias_gradient, float *in_gradient, float *scratch,
                                 const float *in, const float *out_gradient, const float *packed, const Layer *layer,
                                 int count, int samples) {
    size_t vectors = (size_t)samples / SOUNDER_LANES;
    ISA_NAME(conv_bias_backward)(bias_gradient, out_gradient, layer->out, samples);
    if (in_gradient) memset(in_gradient, 0, shape_size(layer->in) * (size_t)samples * sizeof *in_gradient);
    for (size_t v = 0; v < vectors; v++) {
        Lanes *to = in_gradient ? (Lanes *)in_gradient + v : NULL;
        Lanes *from = (Lanes *)in + v, *gradient = (Lanes *)out_gradient + v;
        int real = samples_in(v, count);
        if (layer->kernel == 5)
            backward(packed_gradient, to, scratch, from, gradient, packed, layer, vectors, 2, real);
        else
            backward(packed_gradient, to, scratch, from, gradient, packed, layer, vectors, 4, real);
    }
}
