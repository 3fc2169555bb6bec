// The division of a launch over M models among its threads: arithmetic that the kernels of src/nn share. It is plain C,
// too, so that tests can run it over every thread of a grid.
#ifndef SOUNDER_NN_CUDA_CUDA_INDEX_H
#define SOUNDER_NN_CUDA_CUDA_INDEX_H

#include <stdint.h>

#include "base/host_device.h"
#include "base/shape.h"

// The number of parts of `size` that cover `count`.
BOTH uint32_t parts_of(uint32_t count, uint32_t size) {
    return (count + size - 1) / size;
}

BOTH uint32_t smaller_of(uint32_t a, uint32_t b) {
    return a < b ? a : b;
}

// Thread `item` of a model's `items` threads. A thread with item >= items does nothing.
typedef struct ModelItem {
    uint32_t model, item;
} ModelItem;

// Each model's items fill whole blocks of `threads`, one model after the other, all in the grid's x dimension: the
// others are limited to 65,535 blocks.
BOTH ModelItem model_item(uint32_t block, uint32_t thread, uint32_t threads, uint32_t items) {
    uint32_t blocks = parts_of(items, threads), model = block / blocks;
    ModelItem at = {model, (block - model * blocks) * threads + thread};
    return at;
}

// The pixels and the sample of one thread of gather.cu: four neighbouring pixels of one channel of one sample.

enum { GATHER_PIXELS = 4 };

typedef struct GatherPlace {
    uint32_t channel, pixel; // the first of the four, within the channel's plane
    uint32_t count;          // 1 to 4: fewer at the plane's end
    uint32_t sample;         // fastest, so that neighbouring threads write side by side
} GatherPlace;

// Four pixels are one aligned word of a plane, which a thread reads at once.
BOTH uint32_t gather_items(Shape shape, int samples) {
    uint32_t plane = (uint32_t)(shape.rows * shape.columns);
    return (uint32_t)shape.channels * parts_of(plane, GATHER_PIXELS) * (uint32_t)samples;
}

BOTH GatherPlace gather_place(uint32_t item, Shape shape, int samples) {
    uint32_t plane = (uint32_t)(shape.rows * shape.columns), groups = parts_of(plane, GATHER_PIXELS);
    uint32_t group = item / (uint32_t)samples, channel = group / groups;
    uint32_t pixel = (group - channel * groups) * GATHER_PIXELS;
    GatherPlace place = {channel, pixel, smaller_of(plane - pixel, GATHER_PIXELS), item - group * (uint32_t)samples};
    return place;
}

// The window of one thread of pool.cu, for four samples.
typedef struct PoolPlace {
    uint32_t channel, row, column; // of the window
    uint32_t quad;                 // four samples; fastest, so that neighbouring threads read side by side
} PoolPlace;

BOTH uint32_t pool_items(Shape windows, uint32_t quads) {
    return (uint32_t)windows.channels * (uint32_t)windows.rows * (uint32_t)windows.columns * quads;
}

BOTH PoolPlace pool_place(uint32_t item, Shape windows, uint32_t quads) {
    uint32_t rows = (uint32_t)windows.rows, columns = (uint32_t)windows.columns;
    uint32_t window = item / quads, line = window / columns, channel = line / rows;
    PoolPlace place = {channel, line - channel * rows, window - line * columns, item - window * quads};
    return place;
}

// The windows of the backward pass: those of the forward pass and, at the right and lower edge, windows over the rows
// and columns that fill no window. Their part of the image gets zeros.
BOTH Shape pool_all_windows(Shape in, int size) {
    Shape windows = {in.channels, (int)parts_of((uint32_t)in.rows, (uint32_t)size),
                     (int)parts_of((uint32_t)in.columns, (uint32_t)size)};
    return windows;
}

// The values (features, plane, N) of one thread of dropout.cu: four features, which share the words of a Philox block,
// at one place of the plane, of four samples.

enum { DROPOUT_FEATURES = 4, DROPOUT_SAMPLES = 4 };

typedef struct DropoutPlace {
    uint32_t feature, count; // the first feature; 1 to 4 of them
    uint32_t place;          // of the plane
    uint32_t sample;         // the first of the four
} DropoutPlace;

BOTH uint32_t dropout_items(uint32_t features, uint32_t plane, uint32_t samples) {
    return parts_of(features, DROPOUT_FEATURES) * plane * (samples / DROPOUT_SAMPLES);
}

BOTH DropoutPlace dropout_place(uint32_t item, uint32_t features, uint32_t plane, uint32_t samples) {
    uint32_t quads = samples / DROPOUT_SAMPLES, row = item / quads, group = row / plane;
    uint32_t feature = group * DROPOUT_FEATURES;
    DropoutPlace place = {feature, smaller_of(features - feature, DROPOUT_FEATURES), row - group * plane,
                          (item - row * quads) * DROPOUT_SAMPLES};
    return place;
}

#endif
