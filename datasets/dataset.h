// A data set of labelled uint8 images, as one relocatable block of memory that all processes map.
//
//   DatasetSource source;
//   TRY(dataset_find(&source, "fashion-mnist", err));          // sizes are known, nothing is unpacked yet
//   void *block = ...source.block_bytes of the caller's, e.g. a shared segment...
//   TRY(dataset_read(block, &source, err));                    // unpack straight into it
//   Dataset data;
//   TRY(dataset_view(&data, block, source.block_bytes, err));  // any process: pointers into its own mapping
//
// The block starts with a header (magic, version, counts, offsets); it holds no pointers. The view borrows the block.
// What unpacked_cache.h keeps for later runs is that same block in a file: map it instead of reading the files again.
#ifndef SOUNDER_DATASETS_DATASET_H
#define SOUNDER_DATASETS_DATASET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/shape.h"

enum { DATASET_MAX_CHANNELS = 16, DATASET_MAX_CLASSES = 256, DATASET_NAME_BYTES = 64, DATASET_PATH_BYTES = 4096 };

typedef struct DatasetSplit {
    uint32_t count;        // samples
    const uint8_t *pixels; // (count, C,H,W)
    const uint8_t *labels; // (count), each below classes
} DatasetSplit;

typedef struct Dataset {
    char name[DATASET_NAME_BYTES];
    Shape shape; // of one sample
    int classes; // largest training label + 1
    DatasetSplit train, test;
    // A pixel p of channel c enters a net as p * scale[c] + shift[c] = (p / 255 - mean[c]) / stddev[c]. With one
    // channel, mean and stddev are MNIST's, 0.1307 and 0.3081, as in the published scripts; with more, those of each
    // channel over the training split.
    float scale[DATASET_MAX_CHANNELS];
    float shift[DATASET_MAX_CHANNELS];
} Dataset;

enum { DATASET_FILES = 4 };

// What the files of a folder were like when it was found. Plain data without padding, compared as bytes.
typedef struct DatasetOrigin {
    uint64_t paths[2]; // their paths' hash
    struct {
        int64_t bytes, changed_seconds, changed_nanoseconds; // the contents
        int64_t inode, touched_seconds,
            touched_nanoseconds; // which file it is, and its last change of any kind: a tool
                                 // that keeps the time of the contents cannot keep these
    } file[DATASET_FILES];
} DatasetOrigin;

// Where a data set comes from and how large it will be. Plain data.
typedef struct DatasetSource {
    char name[DATASET_NAME_BYTES];
    char folder[DATASET_PATH_BYTES]; // empty: synthetic
    Shape shape;
    int classes; // of a folder: known only after dataset_read, 0 until then
    uint32_t train_count, test_count;
    uint64_t seed;        // synthetic
    bool named;           // found by its name, in one of the places where names are looked for
    bool packed;          // of a folder: at least one file has to be unpacked
    DatasetOrigin origin; // of a folder
    size_t block_bytes;   // what dataset_read needs
} DatasetSource;

// Finds a data set by the value of --data: a name (mnist, fashion-mnist), looked for in $SOUNDER_DATA/NAME,
// $XDG_CACHE_HOME/sounder/NAME (~/.cache/sounder/NAME) and /usr/share/datasets/NAME; a folder (a value with a '/' or
// that is a directory) with the four IDX files, .gz or plain; or "synthetic[:CxHxW[:TRAIN[:TEST]]]"
// (default 1x28x28:60000:10000). A place that lacks one of the files is passed over. Checks headers and sizes. NOINPUT
// with what was looked for and how to get it.
Status dataset_find(DatasetSource *source, const char *data, uint64_t seed, Error *err);

// Fills block (source->block_bytes, 64-byte aligned, of the caller's) from the files themselves, two at a time. DATA
// for anything corrupt, naming file and offset.
Status dataset_read(void *block, const DatasetSource *source, Error *err);

// Checks the block's header against `bytes` and gives pointers into it.
Status dataset_view(Dataset *data, const void *block, size_t bytes, Error *err);

#endif
