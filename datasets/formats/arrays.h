// Part of format.h: NumPy's arrays as a data set, in two files: arrays.c finds and reads the arrays, and
// arrays_validation.c adds those of a validation set.
#ifndef SOUNDER_DATASETS_FORMATS_ARRAYS_H
#define SOUNDER_DATASETS_FORMATS_ARRAYS_H

#include "datasets/formats/format.h"
#include "datasets/formats/npy.h"
#include "datasets/formats/zip.h"

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
    ROLES
} ArrayRole;
enum { SAID_BYTES = DATASET_PATH_BYTES + 32 };
static const ArrayRole LAST_REQUIRED = Y_TEST;

typedef struct Arrays {
    const char *place; // borrowed
    bool is_archive;
    bool found[ROLES];
    bool labels_alone;     // y without x
    BytePart parts[ROLES]; // of an archive
    NpyHeader headers[ROLES];
    DatasetFileState states[ROLES];
    bool plain[ROLES];             // neither deflated nor a gzip file
    char said[ROLES][SAID_BYTES];  // names in sentences; paths for arrays in a folder
    char others[ZIP_OTHERS_BYTES]; // names of other arrays, for a sentence
} Arrays;

// Checks the samples of an array and stores their shape and type in the source.
Status arrays_check_samples(DatasetSource *source, const Arrays *arrays, ArrayRole role, Error *err);

// Checks an array of one number per sample: targets or clients.
Status arrays_check_column(const Arrays *arrays, ArrayRole role, ArrayRole samples, Error *err);

// DATA if two arrays differ in what they must have in common: `test` is named, and compared with `train`.
Status arrays_check_pair(const Arrays *arrays, ArrayRole train, ArrayRole test, bool differ, Error *err);

// Reads the values of an array into `to` (count): pixels unchanged, whole numbers up to `greatest` as uint32_t if
// `what` names them, all others as floats.
Status arrays_read_array(void *to, const Arrays *arrays, ArrayRole role, uint32_t greatest, const char *what,
                         Error *err);

// Reads labels or targets to `place`, an offset in the block.
Status arrays_read_targets(DatasetBlock *block, const Arrays *arrays, ArrayRole role, uint64_t place, Error *err);

// x_validation and y_validation, if there are such arrays: they follow the training samples, whose count includes them.
Status arrays_add_validation(DatasetSource *source, const Arrays *arrays, Error *err);
Status arrays_read_validation(DatasetBlock *block, const Arrays *arrays, Error *err);

#endif
