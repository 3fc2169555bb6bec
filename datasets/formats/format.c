#include "datasets/formats/format.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/log.h"
#include "datasets/settings.h"

enum { GREATEST_SIDE = 65535 }; // in pixels; keeps rows * columns * channels far from overflow

#define FORMAT(name) &name##_format,
const DatasetFormat *const dataset_formats[] = {DATASET_FORMATS(FORMAT)};
const uint32_t dataset_format_count = sizeof dataset_formats / sizeof *dataset_formats;

const DatasetFormat *dataset_format_of(const char *place) {
    const DatasetFormat *in_part = NULL;
    for (uint32_t i = 0; i < dataset_format_count; i++) {
        const DatasetPresence presence = dataset_formats[i]->is_here(place);
        if (presence == DATASET_WHOLE) return dataset_formats[i];
        if (presence == DATASET_IN_PART && !in_part) in_part = dataset_formats[i];
    }
    return in_part;
}

const DatasetFormat *dataset_rival_of(const DatasetFormat *format, const char *place) {
    for (uint32_t i = 0; i < dataset_format_count; i++)
        if (dataset_formats[i] != format && dataset_formats[i]->is_here(place) == DATASET_WHOLE)
            return dataset_formats[i];
    return NULL;
}

bool dataset_has_file(const char *folder, const char *name) {
    char path[DATASET_PATH_BYTES];
    return snprintf(path, sizeof path, "%s/%s", folder, name) < DATASET_PATH_BYTES && access(path, F_OK) == 0;
}

bool dataset_has_ending(const char *name, const char *ending) {
    const size_t length = strlen(name), bytes = strlen(ending);
    return length > bytes && strcasecmp(name + length - bytes, ending) == 0;
}

Status dataset_path(char path[DATASET_PATH_BYTES], const char *folder, const char *name, Error *err) {
    if (snprintf(path, DATASET_PATH_BYTES, "%s/%s", folder, name) < DATASET_PATH_BYTES) return STATUS_OK;
    return fail(err, STATUS_NOINPUT, "%.200s: a path of more than %d bytes", folder, DATASET_PATH_BYTES - 1);
}

bool dataset_is_as_found(const DatasetSource *again, const DatasetSource *source) {
    DatasetItems items = again->items;
    items.scales = source->items.scales; // by the settings, after find
    return memcmp(again->counts, source->counts, sizeof again->counts) == 0 && again->users == source->users &&
           shape_size(again->shape) == shape_size(source->read_shape) &&
           memcmp(&items, &source->items, sizeof items) == 0;
}

_Static_assert(sizeof(DatasetItems) == 80, "items are compared as bytes");

Status dataset_changed(const char *place, Error *err) {
    return fail(err, STATUS_DATA, "%s: changed while the data set was being read", place);
}

static void add_to_hash(uint64_t hash[2], const void *bytes, size_t count) {
    const XXH128_hash_t added = XXH3_128bits_withSeed(bytes, count, hash[0] ^ hash[1] << 1);
    hash[0] = added.low64;
    hash[1] = added.high64;
}

void dataset_note_text(DatasetSource *source, const char *text) {
    if (*text) add_to_hash(source->origin.paths, text, strlen(text));
}

Status dataset_note_file(DatasetSource *source, const char *path, Error *err) {
    struct stat about;
    if (stat(path, &about) != 0) return fail_errno(err, STATUS_NOINPUT, "%s", path);
    // Size and time of change of the contents; then inode and time of the last change of any kind, which tools that
    // restore the time of the contents cannot restore.
    const int64_t state[] = {about.st_size,         about.st_mtim.tv_sec, about.st_mtim.tv_nsec,
                             (int64_t)about.st_ino, about.st_ctim.tv_sec, about.st_ctim.tv_nsec};
    add_to_hash(source->origin.paths, path, strlen(path));
    add_to_hash(source->origin.states, state, sizeof state);
    return STATUS_OK;
}

Status dataset_take_shape(DatasetSource *source, uint64_t channels, uint64_t rows, uint64_t columns, const char *path,
                          Error *err) {
    const bool are_pixels = source->items.pixel_bytes == 1;
    const uint64_t most_channels = are_pixels ? DATASET_MAX_CHANNELS : GREATEST_SIDE;
    source->shape = (Shape){(int)channels, (int)rows, (int)columns};
    if (channels >= 1 && rows >= 1 && columns >= 1 && channels <= most_channels && rows <= GREATEST_SIDE &&
        columns <= GREATEST_SIDE && channels * rows * columns <= INT32_MAX)
        return STATUS_OK;
    const bool are_last = are_pixels && columns <= DATASET_MAX_CHANNELS && channels > DATASET_MAX_CHANNELS;
    return fail(err, STATUS_DATA,
                "%s: samples of %llux%llux%llu; from 1 to %llu channels and to %d rows and columns are read%s", path,
                (unsigned long long)channels, (unsigned long long)rows, (unsigned long long)columns,
                (unsigned long long)most_channels, GREATEST_SIDE,
                are_last ? ", channels first: x.transpose(0, 3, 1, 2), or say channels=last in --data" : "");
}

Status dataset_count_users(uint32_t *users, const uint32_t *owners, uint32_t count, const char *said, Error *err) {
    uint8_t *has = calloc(count, 1); // no more users than samples
    if (!has) return fail(err, STATUS_OS, "no memory for the clients of %u samples", count);
    uint32_t missing = 0;
    *users = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (owners[i] >= *users) *users = owners[i] + 1;
        if (owners[i] < count) has[owners[i]] = 1;
    }
    while (missing < count && has[missing])
        missing++;
    free(has);
    if (missing >= *users) return STATUS_OK;
    return fail(err, STATUS_DATA,
                "%s: client %u has no samples, client %u has; number them without gaps: numpy.unique(client, "
                "return_inverse=True)[1]",
                said, missing, *users - 1);
}

// The first label of a split that is not below `classes`; the split's count if there is none.
static uint32_t find_beyond(const DatasetArrays *split, uint32_t classes) {
    uint32_t i = 0;
    while (i < split->count && split->labels[i] < classes)
        i++;
    return i;
}

static Status refuse_beyond(const DatasetArrays *split, uint32_t classes, const DatasetSource *source, const char *part,
                            Error *err) {
    const uint32_t i = find_beyond(split, classes);
    if (i == split->count) return STATUS_OK;
    return fail(err, STATUS_DATA, "%s: label %d of %s sample %u; %s %u classes, from 0 to %u%s", source->folder,
                split->labels[i], part, i, settings_classes(&source->settings) ? "--data says" : "the model knows",
                classes, classes - 1, settings_classes(&source->settings) ? "; give a larger classes=" : "");
}

Status dataset_count_classes(DatasetBlock *block, const DatasetSource *source, const char *test, Error *err) {
    const DatasetArrays train = dataset_arrays(block, DATASET_TRAIN), tests = dataset_arrays(block, DATASET_TEST);
    const uint32_t said = settings_classes(&source->settings),
                   classes = said || !source->model ? said : source->model->outputs;
    block->classes = 1;
    if (dataset_has_targets(&block->items)) return STATUS_OK;
    if (classes > 0) {
        block->classes = (int)classes;
        if (source->model && source->model->class_names)
            log_warning("%s: its labels are taken for the numbers of the model's classes, of which 0 is called %.40s",
                        source->folder, source->model->class_names);
        TRY(refuse_beyond(&train, classes, source, "training", err));
        return refuse_beyond(&tests, classes, source, "test", err);
    }
    const DatasetArrays *counted = train.count > 0 ? &train : &tests; // all samples may be for tests
    for (uint32_t i = 0; i < counted->count; i++)
        if (counted->labels[i] >= block->classes) block->classes = counted->labels[i] + 1;
    const uint32_t beyond = find_beyond(&tests, (uint32_t)block->classes);
    if (beyond == tests.count) return STATUS_OK;
    return fail(
        err, STATUS_DATA,
        "%s: label %d of sample %u; the training labels go up to %d; classes=%d in --data makes it a class that "
        "no training sample has",
        test, tests.labels[beyond], beyond, block->classes - 1, tests.labels[beyond] + 1);
}
