// IDX, the file format of MNIST (yann.lecun.com/exdb/mnist): two zero bytes, a type byte, a rank byte, one big-endian
// 32-bit extent per dimension, then the values in row-major order. Supported: type 8 (uint8), rank 1 to 4, plain or
// .gz.
//
//   IdxHeader header;
//   TRY(idx_header(&header, path, err));             // sizes are known and agree with the file's, nothing is unpacked
//   uint8_t *payload = ...header.payload_bytes of the caller's...
//   TRY(idx_read(payload, &header, path, err));      // straight into place
//
// All other contents are DATA with the file and the offset; NOINPUT if there is no file.
#ifndef SOUNDER_DATASETS_FORMATS_IDX_H
#define SOUNDER_DATASETS_FORMATS_IDX_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/shape.h"
#include "datasets/dataset.h"

enum { IDX_MAX_RANK = 4 };

typedef struct IdxHeader {
    int rank;                      // 1 to 4
    uint32_t extent[IDX_MAX_RANK]; // each at least 1; 1 beyond rank
    size_t header_bytes, payload_bytes;
} IdxHeader;

Status idx_header(IdxHeader *header, const char *path, Error *err);

// Fills the caller's payload (header->payload_bytes). The file must still have the header that idx_header saw.
Status idx_read(uint8_t *payload, const IdxHeader *header, const char *path, Error *err);

// A folder with the four IDX files of an image data set, as MNIST and similar sets are distributed:
//
//   train-images-idx3-ubyte  train-labels-idx1-ubyte  t10k-images-idx3-ubyte  t10k-labels-idx1-ubyte
//
// Each name may have '.' for the second '-' (train-images.idx3-ubyte), and each file may be plain or end in .gz; a
// plain one is preferred. Images are (N,H,W), or (N,C,H,W) in files that may be called idx4; labels are (N).
typedef enum IdxRole { IDX_TRAIN_IMAGES, IDX_TRAIN_LABELS, IDX_TEST_IMAGES, IDX_TEST_LABELS, IDX_ROLES } IdxRole;

typedef struct IdxFolder {
    char path[IDX_ROLES][DATASET_PATH_BYTES];
    IdxHeader header[IDX_ROLES];
    Shape shape; // of one image, the same in both splits
} IdxFolder;

// Finds the files, reads their headers and checks that they fit each other. Fails with NOINPUT if one is missing, DATA
// with file and offset if one is damaged or they contradict each other.
Status idx_folder_open(IdxFolder *files, const char *folder, Error *err);

#endif
