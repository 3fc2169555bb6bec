#include "datasets/idx.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { GREATEST_SIDE = 65535 }; // pixels; keeps rows * columns * channels within an int's reach of sanity

static const char *const STEM[IDX_ROLES] = {"train-images", "train-labels", "t10k-images", "t10k-labels"};

static Status find_file(char path[DATASET_PATH_BYTES], const char *folder, IdxRole role, Error *err) {
    static const char *const image_kinds[] = {"-idx3-ubyte", ".idx3-ubyte", "-idx4-ubyte", ".idx4-ubyte", NULL};
    static const char *const label_kinds[] = {"-idx1-ubyte", ".idx1-ubyte", NULL};
    static const char *const endings[] = {"", ".gz"};
    const char *const *kinds = role == IDX_TRAIN_IMAGES || role == IDX_TEST_IMAGES ? image_kinds : label_kinds;
    for (int e = 0; e < 2; e++)
        for (int k = 0; kinds[k]; k++) {
            int length = snprintf(path, DATASET_PATH_BYTES, "%s/%s%s%s", folder, STEM[role], kinds[k], endings[e]);
            if (length >= DATASET_PATH_BYTES)
                return fail(err, STATUS_NOINPUT, "%s: a path of more than %d bytes", folder, DATASET_PATH_BYTES - 1);
            if (access(path, F_OK) == 0) return STATUS_OK;
        }
    return fail(err, STATUS_NOINPUT, "%s: no file %s%s, plain or .gz, in this folder", folder, STEM[role], kinds[0]);
}

// The shape of one image: (N,H,W) is one channel, (N,C,H,W) says how many.
static Status image_shape(Shape *shape, const IdxHeader *images, const char *path, Error *err) {
    if (images->rank < 3)
        return fail(err, STATUS_DATA, "%s: rank %d at byte 3; images have rank 3 (N,H,W) or 4 (N,C,H,W)", path,
                    images->rank);
    uint32_t channels = images->rank == 4 ? images->extent[1] : 1;
    uint32_t rows = images->extent[images->rank - 2], columns = images->extent[images->rank - 1];
    if (channels > DATASET_MAX_CHANNELS || rows > GREATEST_SIDE || columns > GREATEST_SIDE)
        return fail(err, STATUS_DATA,
                    "%s: images of %ux%ux%u (bytes 8 to %zu); at most %d channels and %d rows and columns are read",
                    path, channels, rows, columns, images->header_bytes - 1, DATASET_MAX_CHANNELS, GREATEST_SIDE);
    *shape = (Shape){(int)channels, (int)rows, (int)columns};
    return STATUS_OK;
}

static Status check_split(Shape *shape, const IdxFolder *files, IdxRole images, IdxRole labels, Error *err) {
    TRY(image_shape(shape, &files->header[images], files->path[images], err));
    if (files->header[labels].rank != 1)
        return fail(err, STATUS_DATA, "%s: rank %d at byte 3; labels have rank 1", files->path[labels],
                    files->header[labels].rank);
    if (files->header[labels].extent[0] != files->header[images].extent[0])
        return fail(err, STATUS_DATA, "%s: %u labels (byte 4) for the %u images of %s", files->path[labels],
                    files->header[labels].extent[0], files->header[images].extent[0], files->path[images]);
    return STATUS_OK;
}

Status idx_folder_open(IdxFolder *files, const char *folder, Error *err) {
    for (IdxRole role = 0; role < IDX_ROLES; role++)
        TRY(find_file(files->path[role], folder, role, err));
    for (IdxRole role = 0; role < IDX_ROLES; role++)
        TRY(idx_header(&files->header[role], files->path[role], err));
    Shape test;
    TRY(check_split(&files->shape, files, IDX_TRAIN_IMAGES, IDX_TRAIN_LABELS, err));
    TRY(check_split(&test, files, IDX_TEST_IMAGES, IDX_TEST_LABELS, err));
    if (memcmp(&files->shape, &test, sizeof test) != 0)
        return fail(err, STATUS_DATA, "%s: images of %dx%dx%d (byte 8), but the training images are %dx%dx%d",
                    files->path[IDX_TEST_IMAGES], test.channels, test.rows, test.columns, files->shape.channels,
                    files->shape.rows, files->shape.columns);
    return STATUS_OK;
}
