// Part of format.h: the form of a folder with four IDX files, as MNIST is distributed.
#include "datasets/formats/idx.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "datasets/formats/format.h"
#include "datasets/settings.h"

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
} IdxFolder;

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

// Sets the source's shape: images (N,H,W) have one channel, (N,C,H,W) have C.
static Status take_split(uint32_t *count, DatasetSource *source, const IdxFolder *files, IdxRole images, IdxRole labels,
                         Error *err) {
    const IdxHeader *header = &files->header[images];
    if (header->rank < 3)
        return fail(err, STATUS_DATA, "%s: rank %d at byte 3; images have rank 3 (N,H,W) or 4 (N,C,H,W)",
                    files->path[images], header->rank);
    if (files->header[labels].rank != 1)
        return fail(err, STATUS_DATA, "%s: rank %d at byte 3; labels have rank 1", files->path[labels],
                    files->header[labels].rank);
    *count = files->header[labels].extent[0];
    if (*count != header->extent[0])
        return fail(err, STATUS_DATA, "%s: %u labels (byte 4) for the %u images of %s", files->path[labels], *count,
                    header->extent[0], files->path[images]);
    const uint32_t *sides = header->extent + header->rank - 2;
    return dataset_take_shape(source, header->rank == 4 ? header->extent[1] : 1, sides[0], sides[1],
                              files->path[images], err);
}

// Finds the files, reads their headers, checks that they fit each other and sets the source's shape and counts. Fails
// with NOINPUT if one is missing, DATA with file and offset if one is damaged or they contradict each other.
static Status open_folder(DatasetSource *source, IdxFolder *files, const char *folder, Error *err) {
    for (IdxRole role = 0; role < IDX_ROLES; role++)
        TRY(find_file(files->path[role], folder, role, err));
    for (IdxRole role = 0; role < IDX_ROLES; role++)
        TRY(idx_header(&files->header[role], files->path[role], err));
    TRY(take_split(&source->counts[DATASET_TEST], source, files, IDX_TEST_IMAGES, IDX_TEST_LABELS, err));
    const Shape test = source->shape;
    TRY(take_split(&source->counts[DATASET_TRAIN], source, files, IDX_TRAIN_IMAGES, IDX_TRAIN_LABELS, err));
    if (memcmp(&source->shape, &test, sizeof test) == 0) return STATUS_OK;
    return fail(err, STATUS_DATA, "%s: images of %dx%dx%d (byte 8), but the training images are %dx%dx%d",
                files->path[IDX_TEST_IMAGES], test.channels, test.rows, test.columns, source->shape.channels,
                source->shape.rows, source->shape.columns);
}

// The form -----------------------------------------------------------------------------------------------------------

static DatasetPresence idx_is_here(const char *place) {
    char path[DATASET_PATH_BYTES];
    int found = 0;
    for (IdxRole role = 0; role < IDX_ROLES; role++)
        found += find_file(path, place, role, NULL) == STATUS_OK;
    return found == IDX_ROLES ? DATASET_WHOLE : found > 0 ? DATASET_IN_PART : DATASET_ABSENT;
}

static Status idx_find(DatasetSource *source, const char *place, Error *err) {
    IdxFolder files;
    TRY(open_folder(source, &files, place, err));
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
    const DatasetArrays train = dataset_arrays(block, DATASET_TRAIN), test = dataset_arrays(block, DATASET_TEST);
    uint8_t *const places[IDX_ROLES] = {
        [IDX_TRAIN_IMAGES] = train.samples,
        [IDX_TRAIN_LABELS] = (uint8_t *)train.labels + train.count,
        [IDX_TEST_IMAGES] = test.samples,
        [IDX_TEST_LABELS] = (uint8_t *)test.labels + test.count,
    };
    FileReading readings[IDX_ROLES];
    for (IdxRole role = 0; role < IDX_ROLES; role++)
        readings[role] =
            (FileReading){.payload = places[role], .header = &files->header[role], .path = files->path[role]};
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
    widen_labels(train.labels, train.count);
    widen_labels(test.labels, test.count);
    return STATUS_OK;
}

static Status idx_read_folder(DatasetBlock *block, const DatasetSource *source, Error *err) {
    IdxFolder files;
    DatasetSource again = {.items = source->items};
    TRY(open_folder(&again, &files, source->folder, err));
    if (!dataset_is_as_found(&again, source)) return dataset_changed(source->folder, err);
    TRY(read_files(block, &files, err));
    return dataset_count_classes(block, source, files.path[IDX_TEST_LABELS], err);
}

// The row is easier to read on few lines.
// clang-format off
const DatasetFormat idx_format = {
    .name = "IDX", .settings = 1 << SETTING_CLASSES, .files = "train-images-idx3-ubyte", .is_here = idx_is_here, .find = idx_find, .read = idx_read_folder,
    .help = "a folder with MNIST's four files, plain or .gz: train-images-idx3-ubyte, train-labels-idx1-ubyte, "
            "t10k-images-idx3-ubyte, t10k-labels-idx1-ubyte; bytes, images of rank 3 (N,H,W) or 4 (N,C,H,W)",
    .targets = "save them in a .npz as y.astype('float32')"};
// clang-format on
