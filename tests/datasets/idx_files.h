// A tiny image data set on disk: 3 training and 2 test images, in the four IDX files of MNIST.
#ifndef SOUNDER_TESTS_DATASETS_IDX_FILES_H
#define SOUNDER_TESTS_DATASETS_IDX_FILES_H

#include <stdbool.h>
#include <stdint.h>

#include "gzip_bytes.h"
#include "tests/scratch.h"

enum { IDX_FILES = 4, IDX_FILE_ROOM = 512 };

typedef struct IdxFile {
    const char *name; // in the folder; .gz is added when packed
    size_t count;
    uint8_t bytes[IDX_FILE_ROOM];
} IdxFile;

// Images are 1x2x3.
static const IdxFile GRAY_SET[IDX_FILES] = {
    {"train-images-idx3-ubyte", 34, {0,  0,  8,  3,  0,  0,  0,  3,  0,  0,  0,  2,  0,  0,  0,  3,  11,
                                     12, 13, 14, 15, 16, 21, 22, 23, 24, 25, 26, 31, 32, 33, 34, 35, 36}},
    {"train-labels-idx1-ubyte", 11, {0, 0, 8, 1, 0, 0, 0, 3, 0, 2, 1}},
    {"t10k-images-idx3-ubyte", 28, {0, 0, 8,  3,  0,  0,  0,  2,  0,  0,  0,  2,  0,  0,
                                    0, 3, 41, 42, 43, 44, 45, 46, 51, 52, 53, 54, 55, 56}},
    {"t10k-labels-idx1-ubyte", 10, {0, 0, 8, 1, 0, 0, 0, 2, 1, 2}},
};

// Images are 2x1x2, in files of rank 4 under the names of idx4. Channel 1 is constant in the training split.
static const IdxFile COLOUR_SET[IDX_FILES] = {
    {"train-images-idx4-ubyte", 28, {0, 0, 8, 4, 0, 0, 0, 2,   0,  0,  0,   2,  0,  0,
                                     0, 1, 0, 0, 0, 2, 0, 100, 51, 51, 200, 20, 51, 51}},
    {"train-labels-idx1-ubyte", 10, {0, 0, 8, 1, 0, 0, 0, 2, 0, 1}},
    {"t10k-images-idx4-ubyte", 24, {0, 0, 8, 4, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 2, 1, 2, 3, 4}},
    {"t10k-labels-idx1-ubyte", 9, {0, 0, 8, 1, 0, 0, 0, 1, 1}},
};

static inline const char *idx_file_path(char path[SCRATCH_PATH_BYTES], const char *folder, const IdxFile *file,
                                        bool packed) {
    assert_in_range(snprintf(path, SCRATCH_PATH_BYTES, "%s/%s%s", folder, file->name, packed ? ".gz" : ""), 1,
                    SCRATCH_PATH_BYTES - 1);
    return path;
}

// The file as it stands on disk; returns its size.
static inline size_t idx_file_bytes(uint8_t bytes[IDX_FILE_ROOM], const IdxFile *file, bool packed) {
    if (packed) return gzip_bytes(bytes, IDX_FILE_ROOM, file->bytes, file->count);
    memcpy(bytes, file->bytes, file->count);
    return file->count;
}

static inline void idx_files_write(const char *folder, const IdxFile files[IDX_FILES], bool packed) {
    char path[SCRATCH_PATH_BYTES];
    uint8_t bytes[IDX_FILE_ROOM];
    for (int f = 0; f < IDX_FILES; f++)
        scratch_write(idx_file_path(path, folder, &files[f], packed), bytes, idx_file_bytes(bytes, &files[f], packed));
}

#endif
