// A data set as one relocatable block of memory that all processes map: labelled uint8 images, or samples of float32,
// with classes or with a float32 target each.
//
//   DatasetSource source;
//   TRY(dataset_find(&source, "fashion-mnist", seed, err));    // sizes are known, nothing is unpacked yet
//   void *block = ...source.block_bytes of the caller's, e.g. a shared segment...
//   TRY(dataset_read(block, &source, err));                    // unpack straight into it
//   Dataset data;
//   TRY(dataset_view(&data, block, source.block_bytes, err));  // any process: pointers into its own mapping
//
// The block starts with a header (magic, version, counts, offsets); it holds no pointers. The view borrows the block.
// unpacked_cache.h keeps the same block in a file for later runs: map it instead of reading the files again.
#ifndef SOUNDER_DATASETS_DATASET_H
#define SOUNDER_DATASETS_DATASET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/err.h"
#include "base/keyed_text.h"
#include "base/shape.h"

enum { DATASET_MAX_CHANNELS = 16, DATASET_MAX_CLASSES = 65535, DATASET_NAME_BYTES = 256, DATASET_PATH_BYTES = 4096 };

typedef enum DatasetSplitKind { DATASET_TRAIN, DATASET_TEST, DATASET_SPLITS } DatasetSplitKind;

// The sizes of the arrays' items in bytes.
typedef struct DatasetItems {
    uint32_t pixel_bytes; // 1: uint8 pixels; 4: float32, which enter a net as they are
    uint32_t label_bytes; // 2: uint16 classes; 4: float32 targets of the net's one output, for the squared loss
    uint32_t owner_bytes; // 4: each sample has an owner; 0: none has
    uint32_t outside;     // bits of 1 << DatasetSplitKind: splits whose samples lie in files, not in the block
} DatasetItems;

static inline bool dataset_has_targets(const DatasetItems *items) {
    return items->label_bytes == sizeof(float);
}

// The types of the pointers are the same whatever the items are: code that needs floats reads them as such.
typedef struct DatasetSplit {
    uint32_t count;         // samples
    const uint8_t *pixels;  // (count, C,H,W), float32 perhaps at an odd address; NULL while they are outside the block
    const uint16_t *labels; // (count), classes below `classes`; or float32 targets
    const uint32_t *owners; // (count), users below `users`, or UINT32_MAX: no user's; NULL if no sample is owned
} DatasetSplit;

typedef struct Dataset {
    char name[DATASET_NAME_BYTES];
    Shape shape; // of one sample
    int classes; // largest training label + 1; with targets 1: outputs of a net
    DatasetItems items;
    uint32_t users; // that own the samples by nature (a federation), 0: no user does
    DatasetSplit train, test;
    // A pixel p of channel c enters a net as p * scale[c] + shift[c] = (p / 255 - mean[c]) / stddev[c]. With one
    // channel, mean and stddev are MNIST's, 0.1307 and 0.3081, as in the published scripts; with more, those of each
    // channel over the training split.
    float scale[DATASET_MAX_CHANNELS];
    float shift[DATASET_MAX_CHANNELS];
    uint64_t begins[DATASET_SPLITS]; // of samples outside the block, in their files
} Dataset;

// Bytes of a split's samples.
static inline size_t dataset_sample_bytes(const Dataset *data, const DatasetSplit *split) {
    return split->count * shape_size(data->shape) * data->items.pixel_bytes;
}

// A float32 sample's number, wherever it lies.
static inline float dataset_number(const uint8_t *pixels, size_t place) {
    float number;
    memcpy(&number, pixels + place * sizeof number, sizeof number);
    return number;
}

// A file as it was found: another one, or another time of change, is another state.
typedef struct DatasetFileState {
    uint64_t file, bytes; // its inode, its size
    int64_t changed_seconds, changed_nanoseconds;
} DatasetFileState;

enum { DATASET_FILE_NAME_BYTES = 24, DATASET_MOST_HEAD_BYTES = 66 * 1024 };

// The place of a split's samples that stay where they are (samples_file.h): uint8 or little-endian float32, row by
// row, as they enter a net.
typedef struct DatasetSamples {
    char name[DATASET_FILE_NAME_BYTES]; // of a file in the source's folder, or of a member of the source
    bool is_member;
    uint64_t begin, bytes; // in the file
    uint32_t head_bytes;   // of a member: right before them, which the checksum covers, too
    uint32_t checksum;     // of a member: CRC-32
    DatasetFileState state;
} DatasetSamples;

// The state of a data set's files when it was found. Plain data without padding, compared as bytes.
typedef struct DatasetOrigin {
    uint64_t paths[2];  // their paths' hash
    uint64_t states[2]; // that of their sizes, inodes and times of change
} DatasetOrigin;

// Says where a data set comes from and how large it will be. Plain data.
typedef struct DatasetSource {
    char name[DATASET_NAME_BYTES];
    char folder[DATASET_PATH_BYTES]; // or file; empty: made up
    uint32_t format;                 // of a folder or file: its row in dataset_formats
    bool is_federation;              // made up for users, by federation.h
    Form federation;
    Shape shape;
    int classes; // of files: known only after dataset_read, 0 until then
    uint32_t train_count, test_count;
    DatasetItems items;
    uint32_t users;
    uint64_t seed;                          // of what is made up
    bool named;                             // found by its name, in one of the places where names are looked for
    bool packed;                            // of files: at least one has to be unpacked
    DatasetOrigin origin;                   // of files
    DatasetSamples samples[DATASET_SPLITS]; // of the splits in items.outside
    size_t block_bytes;                     // what dataset_read needs
} DatasetSource;

enum { DATASET_MOST_PLACES = 3 };

// The folders in which names are looked for, best first: $SOUNDER_DATA, $XDG_CACHE_HOME/sounder (~/.cache/sounder) and
// /usr/share/datasets.
typedef struct DatasetPlaces {
    int count;
    char folder[DATASET_MOST_PLACES][DATASET_PATH_BYTES];
} DatasetPlaces;

void dataset_places(DatasetPlaces *places);

// The names of --data that need no folder of one's own; those of made-up users are in federation_table.
extern const char *const dataset_names[];
extern const size_t dataset_name_count;

// Finds a data set by the value of --data: a name (mnist), looked for in those places; a folder or file (a value with a
// '/', or that is there) of one of the forms in format.h; or "synthetic[:CxHxW[:TRAIN[:TEST]]]" (default
// 1x28x28:60000:10000), or a federation (federation.h), such as "quadratics a=1,4 b=0,1". A place that lacks one of the
// files is passed over. Checks headers and sizes. NOINPUT with what was looked for and how to get it.
Status dataset_find(DatasetSource *source, const char *data, uint64_t seed, Error *err);

// Fills block (source->block_bytes, 64-byte aligned, of the caller's) from the files themselves. DATA for anything
// corrupt, naming file and offset.
Status dataset_read(void *block, const DatasetSource *source, Error *err);

// The owners of the training samples (source->train_count), of the caller's to free. Reads the whole data set, or its
// unpacked copy (unpacked_cache.h). USAGE if the samples have no owners.
Status dataset_train_owners(uint32_t **owners, const DatasetSource *source, Error *err);

// Checks the block's header against `bytes` and gives pointers into it. Samples in files are for the caller to add.
Status dataset_view(Dataset *data, const void *block, size_t bytes, Error *err);

#endif
