// Layout of a data set's block: this header, then nine arrays, each at a multiple of 64 bytes; samples that are in
// files need no array. Only the dataset modules include this; other code calls dataset_view.
#ifndef SOUNDER_DATASETS_DATASET_BLOCK_H
#define SOUNDER_DATASETS_DATASET_BLOCK_H

#include <stdint.h>

#include "base/err.h"
#include "datasets/dataset.h"

enum { DATASET_MAGIC = 0x53444e53, DATASET_VERSION = 9, DATASET_ALIGNMENT = 64 }; // "SNDS"

// Offsets of the arrays from the start of the block, in bytes.
typedef struct DatasetSplitLayout {
    uint64_t samples, labels, owners;
} DatasetSplitLayout;

typedef struct DatasetLayout {
    DatasetSplitLayout splits[DATASET_SPLITS];
    uint64_t names, features, scales; // of the classes; of the features; (2, scales): means, then deviations
    uint64_t block_bytes;
} DatasetLayout;

typedef struct DatasetBlock {
    uint32_t magic, version;
    Shape shape;
    int32_t classes;
    uint32_t counts[DATASET_SPLITS]; // samples
    DatasetLayout layout;
    float scale[DATASET_MAX_CHANNELS], shift[DATASET_MAX_CHANNELS];
    DatasetItems items;
    uint32_t users;
    uint32_t validation_count; // of the training samples; blocks of versions without it have zeros there
    uint64_t begins[DATASET_SPLITS];
    char name[DATASET_NAME_BYTES];
} DatasetBlock;

// An array of the block.
static inline void *dataset_at(DatasetBlock *block, uint64_t first_byte) {
    return (uint8_t *)block + first_byte;
}

// The arrays of a split, which the reader of its form fills.
typedef struct DatasetArrays {
    uint32_t count;   // samples
    void *samples;    // (count) uint8 pixels or float32 numbers
    uint16_t *labels; // (count) classes; or float32 targets, or rows of them
    uint32_t *owners; // (count); NULL: samples have no owners
} DatasetArrays;

static inline DatasetArrays dataset_arrays(DatasetBlock *block, DatasetSplitKind split) {
    return (DatasetArrays){.count = block->counts[split],
                           .samples = dataset_at(block, block->layout.splits[split].samples),
                           .labels = dataset_at(block, block->layout.splits[split].labels),
                           .owners =
                               block->items.owner_bytes ? dataset_at(block, block->layout.splits[split].owners) : NULL};
}

// Items of an ordinary set of images.
static const DatasetItems DATASET_IMAGES = {.pixel_bytes = 1, .label_bytes = sizeof(uint16_t)};

// Computes the layout from shape, counts and items. Fails with USAGE if the block would not fit in memory.
Status dataset_layout(DatasetLayout *layout, Shape shape, const uint32_t counts[DATASET_SPLITS],
                      const DatasetItems *items, Error *err);

// Normalises float32 samples in the block, if the source's items have scales, by the means and deviations of the
// training samples or of the source's model, which it stores. Fails with USAGE if the model has another number of them.
Status dataset_scale_numbers(DatasetBlock *block, const DatasetSource *source, Error *err);

// Makes (x - mean) / deviation of each float32 number in the block. means, stddevs (kinds): of features, or channels.
void dataset_apply_scales(DatasetBlock *block, const float *means, const float *stddevs, size_t kinds);

#endif
