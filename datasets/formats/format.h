// The forms in which data sets lie in files: one row of a table a form, one file of code each.
//
//   const DatasetFormat *format = dataset_format_of("/data/mine");   // NULL: nothing there is known
//   TRY(format->find(&source, "/data/mine", err));                   // sizes, and what the files are like
//   TRY(format->read(block, &source, err));                          // the samples, into a block that is laid out
//
// A row that is added is known to --data, `sounder data` and `sounder help data`.
#ifndef SOUNDER_DATASETS_FORMATS_FORMAT_H
#define SOUNDER_DATASETS_FORMATS_FORMAT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "datasets/dataset.h"
#include "datasets/dataset_block.h"

// Presence of a form's files in a place.
typedef enum DatasetPresence { DATASET_ABSENT, DATASET_IN_PART, DATASET_WHOLE } DatasetPresence;

typedef struct DatasetFormat {
    const char *name;  // "IDX"
    const char *files; // what it is known by, a phrase: "train-images-idx3-ubyte"
    const char *help;  // what may lie in it, a sentence or two
    // How to save what is to be classes, targets or pixels, for a sentence that doubts what they are. NULL where a form
    // leaves no doubt: IDX and CIFAR have pixels, texts and CIFAR their own labels.
    const char *classes, *targets, *pixels;
    // How much of this form the place (a folder or a file, by its full path) has, told by names alone.
    DatasetPresence (*is_here)(const char *place);
    // Fills in shape, counts, items, users and packed, and notes every file that will be read. Reads no samples if that
    // can be helped. DATA for anything corrupt, NOINPUT for a file that is missing.
    Status (*find)(DatasetSource *source, const char *place, Error *err);
    // Fills the arrays of a block that is laid out for the source, and its classes; scale and shift only if the files
    // say what they are. DATA for anything corrupt, also when the files are no longer what `find` saw.
    Status (*read)(DatasetBlock *block, const DatasetSource *source, Error *err);
} DatasetFormat;

extern const DatasetFormat dataset_formats[];
extern const uint32_t dataset_format_count;

// The first row of which the place has all files, or else the first of which it has some; NULL when there is none.
const DatasetFormat *dataset_format_of(const char *place);

// Another row than `format` of which the place has all files, so that nothing says which one is meant; NULL: none.
const DatasetFormat *dataset_rival_of(const DatasetFormat *format, const char *place);

// What the forms have in common --------------------------------------------------------------------------------------

// Whether there is a file of this name in the folder.
bool dataset_has_file(const char *folder, const char *name);

// A table under another name than train.csv and test.csv: the place itself, or a file in it. False when there is none.
bool dataset_other_table(char name[DATASET_PATH_BYTES], const char *place);

// The sentence for a place of which no form has any file.
Status dataset_unknown(const char *place, Error *err);

// Adds what a file is like to the source's origin.
Status dataset_note_file(DatasetSource *source, const char *path, Error *err);

// Checks that one sample may have this shape, and stores it. DATA naming the file.
Status dataset_take_shape(DatasetSource *source, uint64_t channels, uint64_t rows, uint64_t columns, const char *path,
                          Error *err);

// How many users own samples (count): numbered without gaps, or it is DATA. said: what the owners are called.
Status dataset_count_users(uint32_t *users, const uint32_t *owners, uint32_t count, const char *said, Error *err);

// Sets the block's classes: the largest training label + 1. *bad gets the first test sample whose label is above, or
// UINT32_MAX.
void dataset_count_classes(DatasetBlock *block, uint32_t *bad);

// The forms -----------------------------------------------------------------------------------------------------------

DatasetPresence idx_is_here(const char *place);
Status idx_find(DatasetSource *source, const char *place, Error *err);
Status idx_read_all(DatasetBlock *block, const DatasetSource *source, Error *err);

DatasetPresence arrays_are_here(const char *place);
Status arrays_find(DatasetSource *source, const char *place, Error *err);
Status arrays_read(DatasetBlock *block, const DatasetSource *source, Error *err);

DatasetPresence cifar_is_here(const char *place);
Status cifar_find(DatasetSource *source, const char *place, Error *err);
Status cifar_read(DatasetBlock *block, const DatasetSource *source, Error *err);

DatasetPresence csv_is_here(const char *place);
Status csv_find(DatasetSource *source, const char *place, Error *err);
Status csv_read(DatasetBlock *block, const DatasetSource *source, Error *err);

// Of texts a sample is so many characters, uint8 numbers of a vocabulary in a row (1 x 1 x length), which enter a net
// as they are: scale is 1, shift 0. Classes are the vocabulary's characters, the label is the one that follows.
DatasetPresence text_is_here(const char *place);
Status text_find(DatasetSource *source, const char *place, Error *err);
Status text_read(DatasetBlock *block, const DatasetSource *source, Error *err);

DatasetPresence leaf_is_here(const char *place);
Status leaf_find(DatasetSource *source, const char *place, Error *err);
Status leaf_read(DatasetBlock *block, const DatasetSource *source, Error *err);

#endif
