// A folder with the four IDX files of an image data set, as MNIST and its kin are distributed:
//
//   train-images-idx3-ubyte  train-labels-idx1-ubyte  t10k-images-idx3-ubyte  t10k-labels-idx1-ubyte
//
// Each may be spelled with '.' for the second '-' (train-images.idx3-ubyte), and be plain or end in .gz; the plain one
// is preferred. Images are (N,H,W), or (N,C,H,W) in files that may be called idx4; labels are (N).
#ifndef SOUNDER_DATASETS_IDX_FOLDER_H
#define SOUNDER_DATASETS_IDX_FOLDER_H

#include "base/err.h"
#include "base/shape.h"
#include "datasets/dataset.h"
#include "datasets/idx.h"

typedef enum IdxRole { IDX_TRAIN_IMAGES, IDX_TRAIN_LABELS, IDX_TEST_IMAGES, IDX_TEST_LABELS, IDX_ROLES } IdxRole;

typedef struct IdxFolder {
    char path[IDX_ROLES][DATASET_PATH_BYTES];
    IdxHeader header[IDX_ROLES];
    Shape shape; // of one image, the same in both splits
} IdxFolder;

// Finds the files, reads their headers and checks that they fit each other. NOINPUT when one is missing, DATA with file
// and offset when one is damaged or they contradict each other.
Status idx_folder_open(IdxFolder *files, const char *folder, Error *err);

#endif
