// A data set in memory, as a run has it, for tests that read it.
#ifndef SOUNDER_TESTS_DATASETS_LOADED_H
#define SOUNDER_TESTS_DATASETS_LOADED_H

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "datasets/dataset.h"
#include "datasets/samples_file.h"
#include "datasets/unpacked_cache.h"
#include "idx_files.h"

typedef struct Loaded {
    void *block; // malloc'ed; samples that a run maps from their files are copied behind it
    size_t bytes;
    bool from_copy;
    Dataset data;
} Loaded;

// Samples that lie in files.
static inline Status copy_samples(Loaded *loaded, const DatasetSource *source, Error *err) {
    uint8_t *to = (uint8_t *)loaded->block + loaded->bytes;
    DatasetSplit *const parts[] = {&loaded->data.train, &loaded->data.test};
    for (DatasetSplitKind split = 0; split < DATASET_SPLITS; split++) {
        SamplesFile file;
        if (!(source->items.outside & 1u << split)) continue;
        TRY(samples_file_open(&file, source, split, err));
        assert_int_equal(dataset_sample_bytes(&loaded->data, parts[split]), source->samples[split].bytes);
        parts[split]->pixels = memcpy(to, file.samples, source->samples[split].bytes);
        to += source->samples[split].bytes;
        samples_file_free(&file);
    }
    return STATUS_OK;
}

// As a run does: an earlier run's unpacked copy if there is a good one, otherwise the files, of which a copy is kept.
static inline Status load_for(Loaded *loaded, const char *data, uint64_t seed, const DatasetModel *model, Error *err) {
    DatasetSource source;
    struct timespec changed;
    int fd;
    Status status = STATUS_OK;
    TRY(dataset_find_for(&source, data, seed, model, err));
    assert_in_range(source.block_bytes, 1, 1 << 24);
    loaded->bytes = source.block_bytes;
    const size_t outside = source.samples[DATASET_TRAIN].bytes + source.samples[DATASET_TEST].bytes;
    loaded->block = aligned_alloc(64, source.block_bytes + (outside + 63) / 64 * 64);
    memset(loaded->block, 0xa5, loaded->bytes); // shared memory need not be clean either
    loaded->from_copy = unpacked_cache_open(&fd, &changed, &source);
    if (loaded->from_copy) {
        assert_int_equal(read(fd, loaded->block, loaded->bytes), loaded->bytes);
        close(fd);
    } else {
        status = dataset_read(loaded->block, &source, err);
        if (status == STATUS_OK && !model) unpacked_cache_keep(loaded->block, &source);
    }
    if (status == STATUS_OK) status = dataset_view(&loaded->data, loaded->block, loaded->bytes, err);
    if (status == STATUS_OK) status = copy_samples(loaded, &source, err);
    if (status != STATUS_OK) free(loaded->block);
    return status;
}

static inline Status load(Loaded *loaded, const char *data, uint64_t seed, Error *err) {
    return load_for(loaded, data, seed, NULL, err);
}

// A new folder within the test's.
static inline const char *new_folder(char path[SCRATCH_PATH_BYTES], const char *parent, const char *name) {
    assert_int_equal(mkdir(scratch_path(path, parent, name), 0700), 0);
    return path;
}

static inline void expect_gray_set(const Loaded *loaded) {
    const Dataset *data = &loaded->data;
    assert_int_equal(data->shape.channels, 1);
    assert_int_equal(data->shape.rows, 2);
    assert_int_equal(data->shape.columns, 3);
    assert_int_equal(data->classes, 3);
    assert_int_equal(data->train.count, 3);
    assert_int_equal(data->test.count, 2);
    assert_memory_equal(data->train.pixels, GRAY_SET[0].bytes + 16, 18);
    for (int i = 0; i < 3; i++)
        assert_int_equal(data->train.labels[i], GRAY_SET[1].bytes[8 + i]);
    assert_memory_equal(data->test.pixels, GRAY_SET[2].bytes + 16, 12);
    for (int i = 0; i < 2; i++)
        assert_int_equal(data->test.labels[i], GRAY_SET[3].bytes[8 + i]);
}

#endif
