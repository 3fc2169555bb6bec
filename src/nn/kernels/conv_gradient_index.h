// The division of a convolution's weight gradient into blocks and threads in conv_gradient.cu.
//
// A block sums for a few output and input channels of one model, for all taps. It works on one chunk after the other:
// some rows and columns of the output, for some samples, whose gradients, and the values of the input that they meet,
// are in shared memory. A thread has the sums of a group of output channels and of one row of taps of one input channel
// (a task), and takes every `slices`-th unit of a chunk: UNIT_COLUMNS columns of four samples. Threads of one task add
// their sums at the end. If there are too few blocks to fill a GPU, several blocks (parts) share the chunks and leave
// their sums to a second pass. All of it is for GRADIENT_MODELS models, however many a launch has: so the order of a
// model's sums, and with it the bits, do not depend on the models beside it.
#ifndef SOUNDER_NN_KERNELS_CONV_GRADIENT_INDEX_H
#define SOUNDER_NN_KERNELS_CONV_GRADIENT_INDEX_H

#include "nn/kernels/conv_index.h"

enum {
    GRADIENT_TAPS = 7, // of a kernel's side, at most
    GRADIENT_MODELS = 10,
    GRADIENT_THREADS = 256,
    GRADIENT_QUADS = 2560,            // float4s of shared memory: 40 KiB
    GRADIENT_GROUPS = 4,              // of a block, at most
    GRADIENT_COLUMNS = 32,            // of a chunk, at most
    GRADIENT_BLOCKS = 264,            // two for each multiprocessor of a large GPU
    GRADIENT_ENOUGH = 200,            // blocks that need not become more
    GRADIENT_SCRATCH = (1 << 18) - 1, // floats of these models' parts, at most
    UNIT_COLUMNS = 4,
    GRADIENT_UNITS = 8, // of a thread, in one of several parts, at least
};

BOTH uint32_t made_odd(uint32_t count) {
    return count | 1u;
}

// Taps of a thread: a whole row of the kernel. An even kernel has one tap beyond, which is dropped.
BOTH uint32_t gradient_taps(int kernel) {
    return made_odd((uint32_t)kernel);
}

// Output channels of a thread: 8 or 5, the number that leaves the fewest beyond the last; if equal, the larger.
BOTH uint32_t gradient_channels(int channels) {
    const uint32_t count = (uint32_t)channels;
    return parts_of(count, 8) * 8 <= parts_of(count, 5) * 5 ? 8 : 5;
}

// Plain data, an argument of the kernels.
typedef struct GradientGrid {
    uint32_t channels;             // of a group
    uint32_t groups, ins;          // of a block: groups of output channels, input channels
    uint32_t in_tiles, tiles;      // blocks that share the input channels; blocks of a model and part
    uint32_t rows, columns, quads; // of a chunk; quads: fours of samples
    uint32_t step, line; // float4s from one column and quad of the staged gradient to the next; of a staged input row
    uint32_t slices, threads, parts;
} GradientGrid;

// The size of the parts if `count` is divided into as few as possible of about the same size, at most `most`.
BOTH uint32_t even_part(uint32_t count, uint32_t most) {
    return parts_of(count, parts_of(count, most));
}

// The sizes of a chunk, for the block's channels: as many samples as shared memory holds, and as many rows, if it holds
// all samples. Odd distances between lines let neighbouring threads meet different banks.
BOTH void gradient_chunk_sizes(GradientGrid *grid, const ConvMap *map) {
    const uint32_t side = (uint32_t)map->kernel, width = grid->columns + gradient_taps(map->kernel) - 1;
    const uint32_t lines = grid->ins * side, row = grid->step * grid->columns;
    grid->quads = even_part((uint32_t)map->samples / 4, (GRADIENT_QUADS - lines) / (row + lines * width));
    grid->line = made_odd(width * grid->quads);
    grid->rows = 1;
    if (4 * grid->quads < (uint32_t)map->samples) return;
    const uint32_t left = GRADIENT_QUADS - grid->ins * (side - 1) * grid->line;
    grid->rows = even_part((uint32_t)map->out.rows, left / (row * grid->quads + grid->ins * grid->line));
}

BOTH uint32_t gradient_units(const GradientGrid *grid) {
    return grid->rows * (grid->columns / UNIT_COLUMNS) * grid->quads;
}

// quads: those that hold samples.
BOTH uint32_t gradient_chunks(const ConvMap *map, const GradientGrid *grid, uint32_t quads) {
    return parts_of((uint32_t)map->out.rows, grid->rows) * parts_of((uint32_t)map->out.columns, grid->columns) *
           parts_of(quads, grid->quads);
}

// As many parts as fill a GPU, unless a thread had too little to do or scratch were too large. A second launch costs as
// much as a few units of a thread, so that little work is not divided.
BOTH uint32_t gradient_parts(const GradientGrid *grid, const ConvMap *map) {
    const uint32_t chunks = gradient_chunks(map, grid, (uint32_t)map->samples / 4), side = (uint32_t)map->kernel;
    const uint32_t units = chunks * parts_of(gradient_units(grid), grid->slices); // of a thread
    const uint64_t pairs = (uint64_t)map->out.channels * (uint64_t)map->in.channels;
    const uint64_t most[] = {GRADIENT_BLOCKS / ((uint64_t)GRADIENT_MODELS * grid->tiles),
                             GRADIENT_SCRATCH / (GRADIENT_MODELS * pairs * side * side),
                             units < 3 * GRADIENT_UNITS ? 1 : units / GRADIENT_UNITS};
    uint64_t parts = chunks;
    for (int i = 0; i < 3; i++)
        if (parts > most[i]) parts = most[i];
    return parts > 1 ? (uint32_t)parts : 1;
}

// The grid of blocks with `ins` input channels.
BOTH GradientGrid gradient_grid_of(GradientGrid grid, uint32_t ins, const ConvMap *map) {
    const uint32_t groups = parts_of((uint32_t)map->out.channels, grid.channels);
    grid.ins = ins;
    grid.in_tiles = parts_of((uint32_t)map->in.channels, ins);
    grid.tiles = parts_of(groups, grid.groups) * grid.in_tiles;
    gradient_chunk_sizes(&grid, map);
    const uint32_t tasks = grid.groups * ins * (uint32_t)map->kernel, units = gradient_units(&grid);
    grid.slices = parts_of(units, parts_of(units, smaller_of(GRADIENT_THREADS / tasks, units)));
    grid.threads = parts_of(tasks * grid.slices, 32) * 32;
    grid.parts = gradient_parts(&grid, map);
    return grid;
}

// A block has as many input channels as threads and shared memory serve, since each staged gradient serves all of them.
// It has fewer where there would be too few blocks, as long as half the channels make many more of them.
BOTH GradientGrid gradient_grid(const ConvMap *map) {
    GradientGrid grid;
    grid.channels = gradient_channels(map->out.channels);
    grid.groups = even_part(parts_of((uint32_t)map->out.channels, grid.channels), GRADIENT_GROUPS);
    grid.step = made_odd(grid.groups * grid.channels);
    grid.columns = parts_of(even_part((uint32_t)map->out.columns, GRADIENT_COLUMNS), UNIT_COLUMNS) * UNIT_COLUMNS;
    const uint32_t lines = (GRADIENT_QUADS - grid.step * grid.columns) / (grid.columns + gradient_taps(map->kernel));
    const uint32_t most = smaller_of(GRADIENT_THREADS / grid.groups, lines) / (uint32_t)map->kernel;
    grid = gradient_grid_of(grid, even_part((uint32_t)map->in.channels, most), map);
    while (grid.ins > 1 && GRADIENT_MODELS * grid.tiles * grid.parts < GRADIENT_ENOUGH) {
        const GradientGrid finer = gradient_grid_of(grid, parts_of(grid.ins, 2), map);
        if (2 * finer.tiles * finer.parts < 3 * grid.tiles * grid.parts) break;
        grid = finer;
    }
    return grid;
}

typedef struct GradientBlock {
    uint32_t model, part;
    uint32_t out_channel, in_channel; // the first ones
    uint32_t ins;                     // input channels; fewer in the last block
} GradientBlock;

// The parts of a tile are neighbours, then the input channels, output channels and models.
BOTH GradientBlock gradient_block(uint32_t block, const ConvMap *map, const GradientGrid *grid) {
    const uint32_t tile = block / grid->parts, model = tile / grid->tiles, own = tile - model * grid->tiles;
    const uint32_t out = own / grid->in_tiles, in = (own - out * grid->in_tiles) * grid->ins;
    GradientBlock at = {model, block - tile * grid->parts, out * grid->groups * grid->channels, in,
                        smaller_of(grid->ins, (uint32_t)map->in.channels - in)};
    return at;
}

// Threads of one slice are neighbours, and among them those of a group, which read one gradient.
typedef struct GradientTask {
    uint32_t slice, number; // number: of the task; slices from grid.slices on have nothing to do
    uint32_t group, in, y;  // y: of the row of taps
} GradientTask;

BOTH GradientTask gradient_task(uint32_t thread, int side, const GradientGrid *grid) {
    const uint32_t rows = grid->ins * (uint32_t)side, tasks = grid->groups * rows, slice = thread / tasks;
    const uint32_t number = thread - slice * tasks, group = number / rows, row = number - group * rows;
    GradientTask task = {slice, number, group, row / (uint32_t)side, row % (uint32_t)side};
    return task;
}

// A piece of some rows of the output, for some samples.
typedef struct GradientChunk {
    int y, x;                      // of the first place
    uint32_t quad;                 // the first four samples
    uint32_t rows, columns, quads; // fewer at the ends
} GradientChunk;

// quads: those that hold samples.
BOTH GradientChunk gradient_chunk(uint32_t number, const ConvMap *map, const GradientGrid *grid, uint32_t quads) {
    const uint32_t pieces = parts_of(quads, grid->quads), across = parts_of((uint32_t)map->out.columns, grid->columns);
    const uint32_t line = number / pieces, down = line / across, quad = (number - line * pieces) * grid->quads;
    const uint32_t x = (line - down * across) * grid->columns, y = down * grid->rows;
    GradientChunk chunk = {(int)y,
                           (int)x,
                           quad,
                           smaller_of(grid->rows, (uint32_t)map->out.rows - y),
                           smaller_of(grid->columns, (uint32_t)map->out.columns - x),
                           smaller_of(grid->quads, quads - quad)};
    return chunk;
}

// The first place of a unit, within a chunk. The quad is the fastest, so that slices read side by side.
typedef struct GradientUnit {
    uint32_t row, x, quad;
} GradientUnit;

BOTH GradientUnit gradient_unit(uint32_t unit, const GradientGrid *grid) {
    const uint32_t across = grid->columns / UNIT_COLUMNS, group = unit / grid->quads, row = group / across;
    GradientUnit at = {row, (group - row * across) * UNIT_COLUMNS, unit - group * grid->quads};
    return at;
}

#endif
