// Part of format.h: NumPy's arrays that together are a data set, within arrays.c (finds them), arrays_check.c (compares
// them) and arrays_read.c (reads their values). A data set has two splits, so that the samples of a validation set
// become the last ones of the training split (Dataset.validation_count), which no client gets (partition/validation.h).
#ifndef SOUNDER_DATASETS_FORMATS_ARRAYS_H
#define SOUNDER_DATASETS_FORMATS_ARRAYS_H

#include <stdbool.h>
#include <string.h>

#include "datasets/formats/format.h"
#include "datasets/formats/npy.h"
#include "datasets/formats/zip.h"
#include "datasets/samples_file.h"
#include "datasets/settings.h"

typedef enum ArrayRole {
    X_TRAIN,
    Y_TRAIN,
    X_TEST,
    Y_TEST,
    CLIENT_TRAIN,
    CLIENT_TEST,
    MEAN,
    STD,
    X_VALIDATION,
    Y_VALIDATION,
    VOCABULARY, // of samples that are tokens: one number, which all of them are below
    ROLES
} ArrayRole;
enum { SAID_BYTES = DATASET_PATH_BYTES + 32 };

typedef struct Arrays {
    const char *place;    // borrowed
    const Form *settings; // borrowed
    bool is_archive;
    bool found[ROLES];
    const char *names[ROLES]; // "x_train.npy"; NULL if not found
    bool labels_alone;        // y without x
    bool is_single;           // no test samples of their own: a share of the samples is for tests
    bool are_last;            // channels are the last axis of the samples
    bool has_rows;            // of labels: zeros and ones, not each with a single one
    BytePart parts[ROLES];    // of an archive
    NpyHeader headers[ROLES];
    DatasetFileState states[ROLES];
    bool plain[ROLES];             // neither deflated nor a gzip file
    char said[ROLES][SAID_BYTES];  // names in sentences; paths for arrays in a folder
    char others[ZIP_OTHERS_BYTES]; // names of other arrays, for a sentence
} Arrays;

// Whether samples are pixels, which a net normalises; all other numbers become float32.
static inline bool array_has_pixels(const NpyHeader *header) {
    return strcmp(header->type, "|u1") == 0;
}

// Whether labels are rows of zeros with a one at their class.
static inline bool array_is_one_hot(const NpyHeader *header) {
    return header->rank == 2 && header->extent[1] > 1;
}

// Whether labels are targets of the squared loss.
static inline bool array_has_targets(const NpyHeader *header) {
    return header->kind == 'f' && !array_is_one_hot(header);
}

// Finds the arrays of a place, and their types and shapes.
Status arrays_look_up(Arrays *arrays, const char *place, const Form *settings, Error *err);

// Sets has_rows, by the values of y_train.
Status arrays_look_at_labels(Arrays *arrays, Error *err);

// Opens an array at its header, which it reads.
Status arrays_open(ByteStream *stream, NpyHeader *header, const Arrays *arrays, ArrayRole role, Error *err);

// Compares the headers of all arrays before any values are read: a contradiction is found at once, also in large
// arrays. Sets shape, items and counts; of a single set the first count is of all samples.
Status arrays_check(DatasetSource *source, const Arrays *arrays, Error *err);

// Finds the users of the training samples, and moves the tests of a single set to the second count.
Status arrays_count(DatasetSource *source, const Arrays *arrays, Error *err);

Status arrays_read(DatasetBlock *block, const DatasetSource *source, Error *err);

#endif
