// A data set as one relocatable block of memory that all processes map: labelled uint8 images, or samples of float32
// numbers, with a class or a float32 target for each sample.
//
//   DatasetSource source;
//   TRY(dataset_find(&source, "fashion-mnist", seed, err));    // sizes are known, nothing is unpacked yet
//   void *block = ...source.block_bytes of the caller's, e.g. a shared segment...
//   TRY(dataset_read(block, &source, err));                    // unpack straight into it
//   Dataset data;
//   TRY(dataset_view(&data, block, source.block_bytes, err));  // any process: pointers into its own mapping
//
// The block starts with a header (magic, version, counts, offsets); it holds no pointers. The view borrows the block.
// unpacked_cache.h keeps the block in a file for later runs, which map it instead of reading the data set's files
// again.
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

// Bits of DatasetItems.texts.
enum {
    DATASET_TEXTS_OF_WORDS = 1,
    DATASET_TEXTS_WITH_GAPS = 2
}; // else of characters; 0 is for gaps and unknown tokens

// In the name of a feature that says whether a column has a value, between column and value.
enum { DATASET_VALUE_FOLLOWS = '\x1f' };

// At the end of the name of a feature that says whether the column has a gap.
enum { DATASET_IS_GAP = '\x1e' };

typedef enum DatasetSplitKind { DATASET_TRAIN, DATASET_TEST, DATASET_SPLITS } DatasetSplitKind;

// Sizes of one item of each array in bytes.
typedef struct DatasetItems {
    uint32_t pixel_bytes; // 1: uint8 pixels; 4: float32 numbers, which enter a net unchanged; 0: labels alone
    // 2: uint16 classes; 4: float32 targets of the net's one output, for the squared loss; 8 and more: rows of float32
    // zeros and ones, which say of each label whether it applies
    uint32_t label_bytes;
    uint32_t owner_bytes;   // 4: each sample has an owner; 0: samples have no owners
    uint32_t outside;       // bits of 1 << DatasetSplitKind: splits whose samples are in files, not in the block
    uint32_t names_bytes;   // size of the names of the classes, each with its '\0'; 0: classes are known by number
    uint32_t scales;        // how many means and deviations normalised float32 numbers; 0: none did
    uint64_t features;      // hash of the names of a table's features, in their order; 0: they have no names
    uint64_t feature_bytes; // size of the names of features, or of the tokens of texts, each with its '\0'; 0: none
    uint32_t vocabulary;    // of texts: their tokens are numbers from 0 to below this; 0: samples are no texts
    uint32_t texts;         // bits of DATASET_TEXTS_...
    uint64_t user_bytes;    // size of the names of the users, each with its '\0'; 0: users are known by number
    uint32_t line_bytes;    // 4: each test sample has the number of its line in a table; 0: samples are in no lines
    uint32_t are_clients;   // 1: each sample is a client, whose real samples a trainer has and counts
    uint32_t tokens;        // float32 samples are whole numbers below this, which trainers get as such; 0: they are not
    uint32_t fills;         // how many features have a value for their gaps; 0: gaps are not filled
    uint32_t dropped;       // rows of tables that are left out for a gap
    uint32_t unused;
} DatasetItems;

// Samples have no classes, but float32 targets or rows of labels.
static inline bool dataset_has_targets(const DatasetItems *items) {
    return items->label_bytes >= sizeof(float);
}

// Each sample has several labels, as many as Dataset.classes.
static inline bool dataset_has_rows(const DatasetItems *items) {
    return items->label_bytes > sizeof(float);
}

static inline bool dataset_has_numbers(const DatasetItems *items) {
    return items->label_bytes == sizeof(float);
}

// Labels alone are for trainers that have loaded the samples themselves.
static inline bool dataset_has_samples(const DatasetItems *items) {
    return items->pixel_bytes > 0;
}

// The pointer types do not depend on the items: code that needs floats casts.
typedef struct DatasetSplit {
    uint32_t count;         // samples
    const uint8_t *pixels;  // (count, C,H,W); float32 may be at an odd address; NULL while they are outside the block
    const uint16_t *labels; // (count), classes below `classes`; or float32 targets, or rows of them (count, classes)
    const uint32_t *owners; // (count), users below `users`, or UINT32_MAX: no owner; NULL if no sample has an owner
} DatasetSplit;

typedef struct Dataset {
    char name[DATASET_NAME_BYTES];
    Shape shape; // of one sample
    int classes; // largest training label + 1; with targets 1, with rows the labels of each: outputs of a net
    DatasetItems items;
    uint32_t users; // number of users that own the samples (a federation); 0: samples have no owners
    DatasetSplit train, test;
    uint32_t validation_count; // number of the last training samples that are a validation set
    // A pixel p of channel c enters a net as p * scale[c] + shift[c] = (p / 255 - mean[c]) / stddev[c]. With one
    // channel, mean and stddev are MNIST's, 0.1307 and 0.3081, as in the published scripts; with several, they are
    // computed for each channel over the training split.
    float scale[DATASET_MAX_CHANNELS];
    float shift[DATASET_MAX_CHANNELS];
    const char *class_names;    // one after another, each with its '\0'; NULL: classes are known by number
    const char *feature_names;  // of a table, one for each number of a sample, one after another, each with its '\0';
                                // or the tokens of texts (vocabulary, without 0 where it is for gaps); NULL: none
    const uint32_t *test_lines; // (test.count) in the table, from 1; NULL: samples are in no lines
    const char *user_names;     // one after another, each with its '\0'; NULL: users are known by number
    const double *means, *stddevs; // (items.scales): numbers were normalised by these, one for each feature or channel,
                                   // and then rounded to float32; NULL: they enter a net as they are in the files
    const double *fills;           // (items.fills): gaps have these values, before they were normalised; NULL: none
    uint64_t begins[DATASET_SPLITS]; // offset in the file, of splits whose samples are outside the block
} Dataset;

// Size of a split's samples in bytes.
static inline size_t dataset_sample_bytes(const Dataset *data, const DatasetSplit *split) {
    return split->count * shape_size(data->shape) * data->items.pixel_bytes;
}

// The name of a class; only if there are names. Passes over the names before it.
static inline const char *dataset_class_name(const Dataset *data, int number) {
    const char *name = data->class_names;
    for (; number > 0; number--)
        name += strlen(name) + 1;
    return name;
}

// Lists the names of the users by number, in an array that the caller frees. NULL without names, and without memory.
const char **dataset_list_users(const Dataset *data);

// Number `place` of float32 samples at any address.
static inline float dataset_number(const uint8_t *pixels, size_t place) {
    float number;
    memcpy(&number, pixels + place * sizeof number, sizeof number);
    return number;
}

// State of a file when it was found; another inode, size or time of change is another state. Plain data without
// padding, compared as bytes.
typedef struct DatasetFileState {
    uint64_t file, bytes; // its inode, its size
    int64_t changed_seconds, changed_nanoseconds;
} DatasetFileState;

enum { DATASET_FILE_NAME_BYTES = 24, DATASET_MOST_HEAD_BYTES = 66 * 1024 };

// Location of a split's samples that stay in their file (samples_file.h): uint8 or little-endian float32, row by row,
// as they enter a net.
typedef struct DatasetSamples {
    char name[DATASET_FILE_NAME_BYTES]; // file in the source's folder, or member of the source
    bool is_member;
    uint64_t begin, bytes; // in the file
    uint32_t head_bytes;   // of a member: bytes right before the samples that the checksum covers, too
    uint32_t checksum;     // of a member: CRC-32
    DatasetFileState state;
} DatasetSamples;

// State of a data set's files when it was found. Plain data without padding, compared as bytes.
typedef struct DatasetOrigin {
    uint64_t paths[2];  // hash of their paths
    uint64_t states[2]; // hash of their sizes, inodes and times of change
} DatasetOrigin;

typedef struct DatasetFormat DatasetFormat; // formats/format.h

// Location and size of a data set, within one program: it points to the row of its form.
typedef struct DatasetSource {
    char name[DATASET_NAME_BYTES];
    char folder[DATASET_PATH_BYTES]; // or file; empty: synthetic
    const DatasetFormat *format;     // of a folder or file; NULL: synthetic
    bool is_federation;              // synthetic users, by federation.h
    Form federation;
    Form settings; // of a folder or file: settings.h
    Shape shape;
    Shape read_shape;                // of samples as the form reads them; the settings may give them another shape
    int classes;                     // of files: 0 until dataset_read has seen the labels
    uint32_t counts[DATASET_SPLITS]; // samples; those for training include validation_count
    uint32_t validation_count;
    DatasetItems items;
    uint32_t users;
    const struct DatasetModel *model;       // borrowed; NULL: the files alone say how samples enter
    uint64_t seed;                          // of synthetic data
    bool named;                             // found by its name, in one of dataset_places
    bool packed;                            // of files: at least one is compressed or text and has to be unpacked
    DatasetOrigin origin;                   // of files
    DatasetSamples samples[DATASET_SPLITS]; // of the splits in items.outside
    size_t block_bytes;                     // size of the block for dataset_read
} DatasetSource;

// How the samples entered a net that is now to see others: classes are numbered and float32 numbers are normalised as
// they were then. NULL and 0 for facts that the model does not have.
typedef struct DatasetModel {
    char *class_names;       // as in Dataset, and an empty name at the end
    char *feature_names;     // as in Dataset, and an empty name at the end
    uint32_t outputs;        // of its net: classes, with or without names
    bool are_tokens;         // names are the tokens of a vocabulary
    bool numbers_alone;      // these tokens' numbers are all that is taken from the model
    double *means, *stddevs; // (scales)
    uint32_t scales;
    double *fill; // (fills): values of its training samples for gaps
    uint32_t fills;
    uint64_t features; // DatasetItems.features of its training samples
    uint32_t channels; // of pixels with these means and deviations of p / 255; 0: its samples were none
    double pixel_means[DATASET_MAX_CHANNELS], pixel_stddevs[DATASET_MAX_CHANNELS];
} DatasetModel;

enum { DATASET_MOST_PLACES = 3 };

// Folders in which names are searched, in this order: $SOUNDER_DATA, $XDG_CACHE_HOME/sounder (~/.cache/sounder) and
// /usr/share/datasets.
typedef struct DatasetPlaces {
    int count;
    char folder[DATASET_MOST_PLACES][DATASET_PATH_BYTES];
} DatasetPlaces;

void dataset_places(DatasetPlaces *places);

// Names of --data that need no folder; the names of federations are in federation_table.
extern const char *const dataset_names[];
extern const size_t dataset_name_count;

// Finds a data set by the value of --data: a name (mnist), searched in dataset_places; a folder or file (a value with a
// '/', or one that exists) of one of the forms in format.h; "synthetic[:CxHxW[:TRAIN[:TEST]]]" (default
// 1x28x28:60000:10000); or a federation (federation.h), such as "quadratics a=1,4 b=0,1". A place that lacks a file of
// the set is skipped. Checks headers and sizes. Fails with NOINPUT, the places searched and how to get the data.
Status dataset_find(DatasetSource *source, const char *data, uint64_t seed, Error *err);

// As dataset_find, for samples that a model is to see. The model must live as long as the source.
Status dataset_find_for(DatasetSource *source, const char *data, uint64_t seed, const DatasetModel *model, Error *err);

// Fills the caller's block (source->block_bytes, 64-byte aligned) from the files. Fails with DATA, file and offset for
// anything corrupt.
Status dataset_read(void *block, const DatasetSource *source, Error *err);

// Reads the whole data set, or its unpacked copy (unpacked_cache.h), into a block that the caller frees. Samples that
// stay in files are not read.
Status dataset_peek(Dataset *data, void **block, const DatasetSource *source, Error *err);

// Checks the block's header against `bytes` and sets pointers into the block. The caller adds the pointers of samples
// that are in files.
Status dataset_view(Dataset *data, const void *block, size_t bytes, Error *err);

#endif
