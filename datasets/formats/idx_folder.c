// Part of format.h: the form of a folder with four IDX files, as MNIST is distributed.
#include "datasets/formats/idx.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "datasets/formats/format.h"

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

enum { GREATEST_SIDE = 65535 }; // in pixels; keeps rows * columns * channels far from overflow

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

// Sets the shape of one image: (N,H,W) has one channel, (N,C,H,W) has C.
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

// Finds the files, reads their headers and checks that they fit each other. Fails with NOINPUT if one is missing, DATA
// with file and offset if one is damaged or they contradict each other.
static Status open_folder(IdxFolder *files, const char *folder, Error *err) {
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

// The form -----------------------------------------------------------------------------------------------------------

DatasetPresence idx_is_here(const char *place) {
    char path[DATASET_PATH_BYTES];
    int found = 0;
    for (IdxRole role = 0; role < IDX_ROLES; role++)
        found += find_file(path, place, role, NULL) == STATUS_OK;
    return found == IDX_ROLES ? DATASET_WHOLE : found > 0 ? DATASET_IN_PART : DATASET_ABSENT;
}

Status idx_find(DatasetSource *source, const char *place, Error *err) {
    IdxFolder files;
    TRY(open_folder(&files, place, err));
    source->shape = files.shape;
    source->train_count = files.header[IDX_TRAIN_LABELS].extent[0];
    source->test_count = files.header[IDX_TEST_LABELS].extent[0];
    for (IdxRole role = 0; role < IDX_ROLES; role++) {
        const char *ending = strrchr(files.path[role], '.');
        TRY(dataset_note_file(source, files.path[role], err));
        if (ending && strcmp(ending, ".gz") == 0) source->packed = true;
    }
    return STATUS_OK;
}

// Labels are bytes in a file. They are read into the second half of their array and then widened in place, from the
// first one on.
static void widen_labels(uint16_t *labels, uint32_t count) {
    const uint8_t *bytes = (const uint8_t *)labels + count;
    for (uint32_t i = 0; i < count; i++)
        labels[i] = bytes[i];
}

// One file to read, by either thread.
typedef struct FileReading {
    uint8_t *payload;
    const IdxHeader *header;
    const char *path;
    Status status;
    Error err;
} FileReading;

static void *read_file(void *argument) {
    FileReading *reading = argument;
    reading->status = idx_read(reading->payload, reading->header, reading->path, &reading->err);
    return NULL;
}

// Reading the training images takes longer than all other files together, so a second thread reads the others at the
// same time.
static void *read_other_files(void *argument) {
    FileReading *readings = argument;
    for (IdxRole role = 0; role < IDX_ROLES; role++)
        if (role != IDX_TRAIN_IMAGES) read_file(&readings[role]);
    return NULL;
}

static Status read_files(DatasetBlock *block, const IdxFolder *files, Error *err) {
    const uint64_t places[IDX_ROLES] = {
        [IDX_TRAIN_IMAGES] = block->layout.train_pixels,
        [IDX_TRAIN_LABELS] = block->layout.train_labels + block->train_count,
        [IDX_TEST_IMAGES] = block->layout.test_pixels,
        [IDX_TEST_LABELS] = block->layout.test_labels + block->test_count,
    };
    FileReading readings[IDX_ROLES];
    for (IdxRole role = 0; role < IDX_ROLES; role++)
        readings[role] = (FileReading){
            .payload = dataset_at(block, places[role]), .header = &files->header[role], .path = files->path[role]};
    pthread_t thread;
    const bool threaded = pthread_create(&thread, NULL, read_other_files, readings) == 0;
    read_file(&readings[IDX_TRAIN_IMAGES]);
    if (threaded)
        pthread_join(thread, NULL);
    else
        read_other_files(readings);
    for (IdxRole role = 0; role < IDX_ROLES; role++) // report the first of the files, whichever failed first
        if (readings[role].status != STATUS_OK) {
            *err = readings[role].err;
            return readings[role].status;
        }
    widen_labels(dataset_at(block, block->layout.train_labels), block->train_count);
    widen_labels(dataset_at(block, block->layout.test_labels), block->test_count);
    return STATUS_OK;
}

Status idx_read_all(DatasetBlock *block, const DatasetSource *source, Error *err) {
    IdxFolder files;
    TRY(open_folder(&files, source->folder, err));
    if (memcmp(&files.shape, &source->shape, sizeof files.shape) != 0 ||
        files.header[IDX_TRAIN_LABELS].extent[0] != source->train_count ||
        files.header[IDX_TEST_LABELS].extent[0] != source->test_count)
        return fail(err, STATUS_DATA, "%s: the files' headers (byte 4) changed while the data set was being read",
                    source->folder);
    TRY(read_files(block, &files, err));
    return dataset_count_classes(block, files.path[IDX_TEST_LABELS], err);
}
