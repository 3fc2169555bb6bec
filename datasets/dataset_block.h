// Layout of a data set's block: this header, then twelve arrays, each at a multiple of 64 bytes; samples that are in
// files need no array. Only the dataset modules include this; other code calls dataset_view.
#ifndef SOUNDER_DATASETS_DATASET_BLOCK_H
#define SOUNDER_DATASETS_DATASET_BLOCK_H

#include <stdint.h>

#include "base/err.h"
#include "datasets/dataset.h"

enum { DATASET_MAGIC = 0x53444e53, DATASET_VERSION = 14, DATASET_ALIGNMENT = 64 }; // "SNDS"

// Offsets of the arrays from the start of the block, in bytes.
typedef struct DatasetSplitLayout {
    uint64_t samples, labels, owners;
} DatasetSplitLayout;

typedef struct DatasetLayout {
    DatasetSplitLayout splits[DATASET_SPLITS];
    uint64_t names, features, users; // names of the classes, of the features, of the users
    uint64_t lines;                  // of the test samples
    uint64_t scales;                 // (2, scales): means, then deviations
    uint64_t fills;                  // (fills)
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
    uint32_t count; // samples
    void *samples;  // (count) uint8 pixels or float32 numbers
    double *exact; // (count) numbers as their file writes them, which are scaled and then rounded into `samples`; NULL:
                   // they are in `samples`
    uint16_t *labels; // (count) classes; or float32 targets, or rows of them
    uint32_t *owners; // (count); NULL: samples have no owners
    uint32_t *lines;  // (count) of test samples; NULL: samples are in no lines
} DatasetArrays;

static inline DatasetArrays dataset_arrays(DatasetBlock *block, DatasetSplitKind split) {
    return (DatasetArrays){
        .count = block->counts[split],
        .samples = dataset_at(block, block->layout.splits[split].samples),
        .labels = dataset_at(block, block->layout.splits[split].labels),
        .owners = block->items.owner_bytes ? dataset_at(block, block->layout.splits[split].owners) : NULL,
        .lines = block->items.line_bytes && split == DATASET_TEST ? dataset_at(block, block->layout.lines) : NULL};
}

// Items of an ordinary set of images.
static const DatasetItems DATASET_IMAGES = {.pixel_bytes = 1, .label_bytes = sizeof(uint16_t)};

// Computes the layout from shape, counts and items. Fails with USAGE if the block would not fit in memory.
Status dataset_layout(DatasetLayout *layout, Shape shape, const uint32_t counts[DATASET_SPLITS],
                      const DatasetItems *items, Error *err);

// Numbers are scaled in double precision and rounded last, since a Unix time or a serial number has more digits than a
// float32: a form whose files may have such numbers reads them into `exact` if they will be scaled. size: of a sample.
//
//   DatasetArrays to[] = {dataset_arrays(block, DATASET_TRAIN), dataset_arrays(block, DATASET_TEST)};
//   if (block->items.scales > 0) TRY(dataset_exact_begin(to, size, err));
//   ... dataset_put(&to[split], place, number) ...
//   TRY_GOTO(free, dataset_scale_numbers(block, to, &source, err));
//   dataset_exact_free(to);
Status dataset_exact_begin(DatasetArrays to[DATASET_SPLITS], size_t size, Error *err);
void dataset_exact_free(DatasetArrays to[DATASET_SPLITS]);

// Stores number `place` of all samples of a split.
static inline void dataset_put(const DatasetArrays *to, size_t place, double number) {
    if (to->exact)
        to->exact[place] = number;
    else
        ((float *)to->samples)[place] = (float)number;
}

// Replaces NAN, which a gap is, by the mean or median of the feature's training samples, of all clients, or by the
// value of the source's model, and stores these values in the block; only if the source's items have fills. Call it
// before dataset_scale_numbers. Fails with DATA if a feature has a gap, but no value.
Status dataset_fill_gaps(DatasetBlock *block, const DatasetArrays of[DATASET_SPLITS], const DatasetSource *source,
                         Error *err);

// Normalises the numbers, if the source's items have scales, by the means and deviations of the training samples or of
// the source's model, which it stores in the block. Fails with USAGE if the model has another number of them.
Status dataset_scale_numbers(DatasetBlock *block, const DatasetArrays of[DATASET_SPLITS], const DatasetSource *source,
                             Error *err);

// Makes (x - mean) / deviation of each number. size: of a sample; means, stddevs (kinds): of features, or channels.
void dataset_apply_scales(const DatasetArrays of[DATASET_SPLITS], size_t size, const double *means,
                          const double *stddevs, size_t kinds);

#endif
