// The division of a convolution into threads and blocks in conv.cu.
//
// Every thread keeps sums in registers and multiplies pieces of a few neighbours:
//   taps      of a kernel row: 1, 3, 5 or 7 (conv_taps); larger and even kernels are cut into segments of that many,
//             the last of which may reach beyond the kernel, where weights count as zero
//   columns   of the output: CONV_COLUMNS, of one row and one sample; the last may reach beyond the image. They read
//             columns of the input that are `stride` apart
//   channels  of the output: a template parameter of the kernels
// A place is such a group of columns of one sample. The sample is the fastest index, so that neighbouring threads read
// neighbouring floats.
#ifndef SOUNDER_NN_KERNELS_CONV_INDEX_H
#define SOUNDER_NN_KERNELS_CONV_INDEX_H

#include <stdbool.h>

#include "base/shape.h"
#include "nn/cuda/cuda_index.h"

// CONV_STRIDE: the only stride but 1 that the kernels are built for, on the forward pass and for the weight's gradient.
enum { CONV_COLUMNS = 4, CONV_THREADS = 128, CONV_STRIDE = 2 };

// A convolution's shapes; plain data, an argument of the kernels. With `mirrored` it computes the input's gradient: a
// convolution of the output's gradient, padded by K - 1 - pad, with the weight (in.channels, out.channels, K, K)
// rotated by half a turn. Otherwise the weight is (out.channels, in.channels, K, K).
typedef struct ConvMap {
    Shape in, out;
    int kernel, pad;
    bool mirrored;
    int samples;       // N
    uint32_t segments; // of a kernel row
    uint32_t places;   // groups of columns in the output, times N
    int stride;        // from the input of one place to that of the next: 1, or CONV_STRIDE
} ConvMap;

// Taps per segment: the number that leaves the fewest taps beyond the kernel; if equal, the largest.
BOTH uint32_t conv_taps(int kernel) {
    uint32_t side = (uint32_t)kernel, best = 7;
    if (side == 1) return 1;
    for (uint32_t taps = 5; taps >= 3; taps -= 2)
        if (parts_of(side, taps) * taps < parts_of(side, best) * best) best = taps;
    return best;
}

BOTH ConvMap conv_map(Shape in, Shape out, int kernel, int pad, int stride, bool mirrored, int samples) {
    uint32_t groups = parts_of((uint32_t)out.columns, CONV_COLUMNS);
    ConvMap map = {in,
                   out,
                   kernel,
                   pad,
                   mirrored,
                   samples,
                   parts_of((uint32_t)kernel, conv_taps(kernel)),
                   (uint32_t)out.rows * groups * (uint32_t)samples,
                   stride};
    return map;
}

// Number of floats of one model's tensor.
BOTH size_t conv_floats(Shape shape, const ConvMap *map) {
    return (size_t)shape.channels * (size_t)shape.rows * (size_t)shape.columns * (size_t)map->samples;
}

typedef struct ConvPlace {
    int y, x; // of the first of CONV_COLUMNS columns
    int sample;
} ConvPlace;

BOTH ConvPlace conv_place(uint32_t place, const ConvMap *map) {
    uint32_t groups = parts_of((uint32_t)map->out.columns, CONV_COLUMNS);
    uint32_t group = place / (uint32_t)map->samples, y = group / groups;
    ConvPlace at = {(int)y, (int)((group - y * groups) * CONV_COLUMNS), (int)(place - group * (uint32_t)map->samples)};
    return at;
}

// The offset of a place's first column, for one channel, in a model's output.
BOTH size_t conv_offset(uint32_t channel, ConvPlace place, const ConvMap *map) {
    size_t line = (size_t)channel * (size_t)map->out.rows + (size_t)place.y;
    return (line * (size_t)map->out.columns + (size_t)place.x) * (size_t)map->samples + (size_t)place.sample;
}

// A bit mask of the columns x, x + 1, ... that are inside an image.
BOTH uint32_t columns_inside(int x, int columns) {
    uint32_t from_0 = x >= 0 ? ~0u : x > -32 ? ~0u << -x : 0;
    int left = columns - x;
    return left >= 32 ? from_0 : left > 0 ? from_0 & ~(~0u << left) : 0;
}

// Forward and the input's gradient ------------------------------------------------------------------------------------
// A block computes some places and some output channels of one model.

typedef struct ConvBlock {
    uint32_t model, channel; // the first output channel
    uint32_t place;          // of the first thread
} ConvBlock;

BOTH uint32_t conv_blocks(const ConvMap *map, uint32_t channels) {
    return parts_of((uint32_t)map->out.channels, channels) * parts_of(map->places, CONV_THREADS);
}

// Output channels per thread: 4, 8 or 10, the number that leaves the fewest beyond the last; if equal, the largest. It
// is 4 where larger tiles would leave multiprocessors idle. An output's bits do not depend on it.
enum { CONV_FEW_BLOCKS = 200 };

BOTH uint32_t conv_channels(const ConvMap *map, uint32_t models) {
    uint32_t count = (uint32_t)map->out.channels, best = map->stride == 1 ? 10 : 8;
    for (uint32_t tile = 8; tile >= 4; tile -= 4)
        if (parts_of(count, tile) * tile < parts_of(count, best) * best) best = tile;
    return models * conv_blocks(map, best) < CONV_FEW_BLOCKS ? 4 : best;
}

BOTH ConvBlock conv_block(uint32_t block, const ConvMap *map, uint32_t channels) {
    uint32_t blocks = parts_of(map->places, CONV_THREADS), tiles = parts_of((uint32_t)map->out.channels, channels);
    uint32_t tile = block / blocks, model = tile / tiles;
    ConvBlock at = {model, (tile - model * tiles) * channels, (block - tile * blocks) * CONV_THREADS};
    return at;
}

// A segment of a kernel row of one input channel.
typedef struct ConvRow {
    int channel, y, x; // x: of the first tap
} ConvRow;

BOTH uint32_t conv_rows(const ConvMap *map) {
    return (uint32_t)(map->in.channels * map->kernel) * map->segments;
}

BOTH ConvRow conv_row(uint32_t row, const ConvMap *map, uint32_t taps) {
    uint32_t line = row / map->segments, channel = line / (uint32_t)map->kernel;
    ConvRow at = {(int)channel, (int)(line - channel * (uint32_t)map->kernel),
                  (int)((row - line * map->segments) * taps)};
    return at;
}

// The row after this one, computed without a division.
BOTH ConvRow conv_next_row(ConvRow row, int kernel, int taps) {
    row.x += taps;
    if (row.x < kernel) return row;
    row.x = 0;
    row.y++;
    if (row.y < kernel) return row;
    row.y = 0;
    row.channel++;
    return row;
}

// Offsets of the weights of one kernel row and tap in a model's weight: output channel o's is at first + o * step.
typedef struct ConvWeights {
    uint32_t first, step;
} ConvWeights;

BOTH ConvWeights conv_weights(ConvRow row, int tap, const ConvMap *map) {
    int side = map->kernel, area = side * side, place = row.y * side + row.x + tap;
    ConvWeights at = {(uint32_t)(row.channel * area + place), (uint32_t)(map->in.channels * area)};
    if (map->mirrored) {
        at.first = (uint32_t)(row.channel * map->out.channels * area + area - 1 - place);
        at.step = (uint32_t)area;
    }
    return at;
}

// The weight's gradient -----------------------------------------------------------------------------------------------
// A block sums for some output channels and one input channel of one model, over all rows of taps and all taps of a
// segment. Its threads share the places. If there are too few blocks to fill a GPU, several blocks (parts) share them
// and leave their sums to a second pass.

enum {
    GRADIENT_THREADS = 128,
    GRADIENT_PLACES = 8 /* of a thread, at least */,
    GRADIENT_BLOCKS = 528 /* enough for a GPU */
};

// Output channels per thread: as many as leave its sums (times taps squared) in registers.
BOTH uint32_t gradient_channels(uint32_t taps) {
    return taps == 1 ? 8 : taps == 3 ? 8 : taps == 5 ? 4 : 2;
}

typedef struct GradientGrid {
    uint32_t tiles, parts, threads;
} GradientGrid;

// Each thread has at least GRADIENT_PLACES places, and a block at most GRADIENT_THREADS threads; if one model has fewer
// than GRADIENT_BLOCKS blocks, the places are divided among parts. However many models a launch has, the parts are the
// same, and with them the order of a model's sums.
BOTH GradientGrid gradient_grid(const ConvMap *map) {
    uint32_t taps = conv_taps(map->kernel), channels = parts_of((uint32_t)map->out.channels, gradient_channels(taps));
    uint32_t tiles = channels * (uint32_t)map->in.channels * map->segments * map->segments;
    uint32_t warps = map->places / (32 * GRADIENT_PLACES);
    uint32_t threads = warps == 0 ? 32 : smaller_of(32 * warps, GRADIENT_THREADS);
    uint32_t parts = tiles >= GRADIENT_BLOCKS ? 1 : GRADIENT_BLOCKS / tiles;
    uint32_t most = map->places / (threads * GRADIENT_PLACES);
    GradientGrid grid = {tiles, most == 0 ? 1 : smaller_of(parts, most), threads};
    return grid;
}

typedef struct GradientBlock {
    uint32_t model, part;
    int out_channel, in_channel; // the first output channel
    int y, x;                    // of the first tap
} GradientBlock;

// The parts of a tile are neighbours, then the segments of taps, input channels, output channels and models.
BOTH GradientBlock gradient_block(uint32_t block, const ConvMap *map, const GradientGrid *grid, uint32_t taps) {
    uint32_t tile = block / grid->parts, model = tile / grid->tiles, part = block - tile * grid->parts;
    tile -= model * grid->tiles;
    uint32_t lines = tile / map->segments, lines_y = lines / map->segments, ins = (uint32_t)map->in.channels;
    uint32_t outs = lines_y / ins;
    GradientBlock at = {model,
                        part,
                        (int)(outs * gradient_channels(taps)),
                        (int)(lines_y - outs * ins),
                        (int)((lines - lines_y * map->segments) * taps),
                        (int)((tile - lines * map->segments) * taps)};
    return at;
}

#endif
