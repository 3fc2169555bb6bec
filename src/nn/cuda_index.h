// Who does what in a launch over M models: arithmetic that the kernels of src/nn share. Plain C as well, so that tests
// can run it over every thread of a grid.
#ifndef SOUNDER_NN_CUDA_INDEX_H
#define SOUNDER_NN_CUDA_INDEX_H

#include <stdint.h>

#include "base/both.h"

// How many parts of `size` cover `count`.
BOTH uint32_t parts_of(uint32_t count, uint32_t size) {
    return (count + size - 1) / size;
}

BOTH uint32_t smaller_of(uint32_t a, uint32_t b) {
    return a < b ? a : b;
}

// Thread `item` of a model's `items` threads. From items on: nothing to do.
typedef struct ModelItem {
    uint32_t model, item;
} ModelItem;

// Each model's items fill whole blocks of `threads`, one model after the other. All in the grid's x dimension, as the
// others end at 65,535 blocks.
BOTH ModelItem model_item(uint32_t block, uint32_t thread, uint32_t threads, uint32_t items) {
    uint32_t blocks = parts_of(items, threads), model = block / blocks;
    ModelItem at = {model, (block - model * blocks) * threads + thread};
    return at;
}

#endif
