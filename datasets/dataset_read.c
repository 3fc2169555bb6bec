// Part of dataset.h: reads a source into a block, and shows a block as a Dataset.
#include "datasets/dataset.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "datasets/dataset_block.h"
#include "datasets/formats/format.h"
#include "datasets/samples_file.h"
#include "datasets/settings.h"
#include "datasets/synthetic.h"
#include "datasets/synthetic/federation.h"
#include <stdbool.h>

// Number of a split's samples that are in the block.
static uint64_t held_samples(const DatasetItems *items, DatasetSplitKind split, uint32_t count) {
    return items->outside & 1u << split ? 0 : count;
}

// Makes an empty block with its final header, except classes and normalisation, which depend on the samples. Zeroes the
// last line before each array and before the end, which contains the gap after the array before: equal sets then have
// equal blocks. The rest of the line is filled later, or now in the case of the header.
static Status lay_out(DatasetBlock *block, const DatasetSource *source, Error *err) {
    DatasetLayout at;
    TRY(dataset_layout(&at, source->shape, source->counts, &source->items, err));
    const DatasetSplitLayout *train = &at.splits[DATASET_TRAIN], *test = &at.splits[DATASET_TEST];
    const uint64_t ends[] = {train->labels, train->owners, test->samples, test->labels, test->owners, at.names,
                             at.features,   at.users,      at.lines,      at.scales,    at.fills,     at.block_bytes};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        memset(dataset_at(block, ends[i] - DATASET_ALIGNMENT), 0, DATASET_ALIGNMENT);
    memset(block, 0, train->samples);
    *block = (DatasetBlock){.magic = DATASET_MAGIC,
                            .version = DATASET_VERSION,
                            .shape = source->shape,
                            .counts = {source->counts[DATASET_TRAIN], source->counts[DATASET_TEST]},
                            .layout = at,
                            .items = source->items,
                            .users = source->users,
                            .validation_count = source->validation_count,
                            .begins = {source->samples[DATASET_TRAIN].begin, source->samples[DATASET_TEST].begin}};
    memcpy(block->name, source->name, sizeof block->name);
    return STATUS_OK;
}

static Status read_synthetic(DatasetBlock *block, const DatasetSource *source, Error *err) {
    Synthetic synthetic;
    TRY(synthetic_init(&synthetic, source->shape, source->seed, err));
    const size_t size = shape_size(source->shape);
    for (DatasetSplitKind split = 0; split < DATASET_SPLITS; split++) {
        const DatasetArrays to = dataset_arrays(block, split);
        for (uint32_t i = 0; i < to.count; i++)
            to.labels[i] = synthetic_sample((uint8_t *)to.samples + i * size, &synthetic, split, i);
    }
    synthetic_free(&synthetic);
    block->classes = SYNTHETIC_CLASSES;
    return STATUS_OK;
}

// A model notes six digits: samples that agree with them are its own, whose mean and deviation are exact.
static void take_models(double *mean, double *stddev, const DatasetModel *model, size_t channel) {
    const double of_model = model->pixel_means[channel], deviation = model->pixel_stddevs[channel];
    if (fabs(*mean - of_model) < 1e-3 * deviation && fabs(*stddev - deviation) < 1e-3 * deviation) return;
    *mean = of_model;
    *stddev = deviation;
}

// With one channel: MNIST's constants, so that every such set enters a net as in the published scripts. With several,
// or if the settings ask for it: mean and standard deviation of each channel over the training split, from exact
// integer sums. Samples that a model is to see enter as its own did.
static void normalise(DatasetBlock *block, const uint8_t *pixels, const DatasetSource *source) {
    const DatasetModel *model = source->model;
    const bool is_asked = settings_say(&source->settings, SETTING_NORMALIZE, "yes");
    if (block->items.pixel_bytes != 1) return; // float samples enter a net unchanged
    if (block->scale[0] != 0) return;          // the reader has set the files' own normalisation
    const size_t plane = (size_t)block->shape.rows * (size_t)block->shape.columns;
    assert(block->validation_count <= block->counts[DATASET_TRAIN] && block->shape.channels <= DATASET_MAX_CHANNELS);
    const size_t channels = (size_t)block->shape.channels,
                 samples = block->counts[DATASET_TRAIN] - block->validation_count;
    for (size_t c = 0; c < channels; c++) {
        double mean = 0.1307, stddev = 0.3081; // of p / 255
        if ((channels > 1 || is_asked) && samples > 0) {
            uint64_t sum = 0, squares = 0;
            for (size_t i = 0; i < samples; i++)
                for (size_t p = 0; p < plane; p++) {
                    uint64_t value = pixels[(i * channels + c) * plane + p];
                    sum += value;
                    squares += value * value;
                }
            double count = (double)samples * (double)plane;
            mean = (double)sum / count / 255;
            double variance = (double)squares / count / (255 * 255) - mean * mean;
            stddev = variance > 1e-9 ? sqrt(variance) : 1; // a constant channel is only centred
        }
        if (model && model->channels == channels) take_models(&mean, &stddev, model, c);
        assert(stddev > 0 && isfinite(mean));
        block->scale[c] = (float)(1 / (255 * stddev));
        block->shift[c] = (float)(-mean / stddev);
    }
}

static Status read_federation(DatasetBlock *block, const DatasetSource *source, Error *err) {
    const DatasetArrays arrays[] = {dataset_arrays(block, DATASET_TRAIN), dataset_arrays(block, DATASET_TEST)};
    block->classes = source->classes;
    return federation_fill(arrays, source, err);
}

// Applies to samples that stay in their files the checks that a reader applies to what it reads.
static Status verify_samples(DatasetBlock *block, const DatasetSource *source, DatasetSplitKind split, Error *err) {
    SamplesFile file;
    TRY(samples_file_open(&file, source, split, err));
    Status status = samples_file_verify(&file, source, split, err);
    if (status == STATUS_OK && split == DATASET_TRAIN) normalise(block, file.samples, source);
    samples_file_free(&file);
    return status;
}

// A form reads samples in their own shape, of which only the product matters for the layout.
static Status read_files(DatasetBlock *block, const DatasetSource *source, Error *err) {
    block->shape = source->read_shape;
    const Status status = source->format->read(block, source, err);
    block->shape = source->shape;
    TRY(status);
    for (int c = source->read_shape.channels; c < block->shape.channels && block->items.pixel_bytes == 1; c++) {
        block->scale[c] = block->scale[0]; // of the files' own normalisation, if they have one
        block->shift[c] = block->shift[0];
    }
    return STATUS_OK;
}

Status dataset_read(void *memory, const DatasetSource *source, Error *err) {
    DatasetBlock *block = memory;
    assert((uintptr_t)memory % DATASET_ALIGNMENT == 0);
    TRY(lay_out(block, source, err));
    TRY(source->is_federation ? read_federation(block, source, err)
        : source->folder[0]   ? read_files(block, source, err)
                              : read_synthetic(block, source, err));
    if (held_samples(&source->items, DATASET_TRAIN, 1))
        normalise(block, dataset_arrays(block, DATASET_TRAIN).samples, source);
    for (DatasetSplitKind split = 0; split < DATASET_SPLITS; split++)
        if (!held_samples(&source->items, split, 1)) TRY(verify_samples(block, source, split, err));
    return STATUS_OK;
}

static bool has_names(const char *names, uint64_t bytes, size_t expected) {
    size_t count = 0;
    for (uint64_t i = 0; i < bytes; i++)
        count += names[i] == '\0';
    return bytes == 0 || (count == expected && names[bytes - 1] == '\0');
}

// Classes, or one or more float32 numbers.
static bool are_labels(uint32_t bytes) {
    return bytes == sizeof(uint16_t) || (bytes > 0 && bytes % sizeof(float) == 0);
}

static DatasetSplit view_split(const DatasetBlock *block, DatasetSplitKind split) {
    const DatasetArrays arrays = dataset_arrays((DatasetBlock *)(uintptr_t)block, split);
    return (DatasetSplit){.count = arrays.count,
                          .pixels = held_samples(&block->items, split, 1) ? arrays.samples : NULL,
                          .labels = arrays.labels,
                          .owners = arrays.owners};
}

// A block may come from a cache file or another process: every field that a pointer is computed from is checked before
// it is used, and the layout is computed again from the counts and has to be the same.
Status dataset_view(Dataset *data, const void *memory, size_t bytes, Error *err) {
    const DatasetBlock *block = memory;
    const uint8_t *base = memory;
    DatasetLayout layout;
    if (bytes < sizeof *block || block->magic != DATASET_MAGIC || block->version != DATASET_VERSION)
        return fail(err, STATUS_DATA, "the data set's block: no header of version %d at byte 0", DATASET_VERSION);
    const bool are_pixels = block->items.pixel_bytes == 1; // numbers have no scale per channel
    if (block->shape.channels < 1 || (are_pixels && block->shape.channels > DATASET_MAX_CHANNELS) ||
        block->shape.rows < 1 || block->shape.columns < 1 || block->classes < 1 || block->classes > DATASET_MAX_CLASSES)
        return fail(err, STATUS_DATA, "the data set's block: %dx%dx%d samples of %d classes", block->shape.channels,
                    block->shape.rows, block->shape.columns, block->classes);
    const DatasetItems *items = &block->items;
    if ((items->pixel_bytes != 0 && items->pixel_bytes != 1 && items->pixel_bytes != 4) ||
        !are_labels(items->label_bytes) || (items->owner_bytes != 0 && items->owner_bytes != 4) ||
        (items->line_bytes != 0 && items->line_bytes != 4) || (items->owner_bytes != 0) != (block->users != 0) ||
        items->outside >= 1u << DATASET_SPLITS)
        return fail(err, STATUS_DATA, "the data set's block: items of %u, %u and %u bytes for %u users",
                    items->pixel_bytes, items->label_bytes, items->owner_bytes, block->users);
    if (block->validation_count > 0 && block->validation_count >= block->counts[DATASET_TRAIN])
        return fail(err, STATUS_DATA, "the data set's block: %u of %u training samples are for validation",
                    block->validation_count, block->counts[DATASET_TRAIN]);
    TRY(dataset_layout(&layout, block->shape, block->counts, items, err));
    if (memcmp(&layout, &block->layout, sizeof layout) != 0 || layout.block_bytes > bytes)
        return fail(err, STATUS_DATA, "the data set's block: %zu bytes, but its counts need %llu", bytes,
                    (unsigned long long)layout.block_bytes);
    const char *names = (const char *)base + layout.names;
    const char *features = (const char *)base + layout.features, *users = (const char *)base + layout.users;
    const size_t named =
        items->vocabulary ? items->vocabulary - !!(items->texts & DATASET_TEXTS_WITH_GAPS) : shape_size(block->shape);
    if (!has_names(features, items->feature_bytes, named))
        return fail(err, STATUS_DATA, "the data set's block: %llu bytes of names for %zu features",
                    (unsigned long long)items->feature_bytes, named);
    if (!has_names(names, items->names_bytes, (size_t)block->classes))
        return fail(err, STATUS_DATA, "the data set's block: %u bytes of names for %d classes", items->names_bytes,
                    block->classes);
    if (!has_names(users, items->user_bytes, block->users))
        return fail(err, STATUS_DATA, "the data set's block: %llu bytes of names for %u users",
                    (unsigned long long)items->user_bytes, block->users);
    *data = (Dataset){
        .shape = block->shape,
        .classes = block->classes,
        .items = *items,
        .users = block->users,
        .validation_count = block->validation_count,
        .train = view_split(block, DATASET_TRAIN),
        .test = view_split(block, DATASET_TEST),
    };
    if (items->names_bytes) data->class_names = names;
    if (items->feature_bytes) data->feature_names = features;
    if (items->user_bytes) data->user_names = users;
    if (items->line_bytes) data->test_lines = (const uint32_t *)(const void *)(base + layout.lines);
    if (items->scales) data->means = (const double *)(const void *)(base + layout.scales);
    if (items->scales) data->stddevs = data->means + items->scales;
    if (items->fills) data->fills = (const double *)(const void *)(base + layout.fills);
    snprintf(data->name, sizeof data->name, "%.*s", (int)sizeof data->name - 1, block->name);
    memcpy(data->scale, block->scale, sizeof data->scale);
    memcpy(data->shift, block->shift, sizeof data->shift);
    memcpy(data->begins, block->begins, sizeof data->begins);
    return STATUS_OK;
}

const char **dataset_list_users(const Dataset *data) {
    const char **users = data->user_names ? malloc(data->users * sizeof *users) : NULL, *name = data->user_names;
    for (uint32_t user = 0; users && user < data->users; user++, name += strlen(name) + 1)
        users[user] = name;
    return users;
}

// Appends an array of count * item_bytes bytes at the next aligned offset. Returns false if the size overflows.
static bool append(uint64_t *first_byte, uint64_t *end, uint64_t count, uint64_t item_bytes) {
    uint64_t bytes;
    if (__builtin_mul_overflow(count, item_bytes, &bytes)) return false;
    *first_byte = *end;
    if (__builtin_add_overflow(*end, bytes, end) || *end > PTRDIFF_MAX / 2) return false;
    *end = (*end + DATASET_ALIGNMENT - 1) / DATASET_ALIGNMENT * DATASET_ALIGNMENT;
    assert(*first_byte % DATASET_ALIGNMENT == 0 && *first_byte + bytes <= *end);
    return true;
}

Status dataset_layout(DatasetLayout *layout, Shape shape, const uint32_t counts[DATASET_SPLITS],
                      const DatasetItems *items, Error *err) {
    uint64_t header, size = shape_size(shape) * items->pixel_bytes, *end = &layout->block_bytes;
    *end = 0;
    bool fits = append(&header, end, 1, sizeof(DatasetBlock));
    for (DatasetSplitKind split = 0; split < DATASET_SPLITS; split++)
        fits = fits && append(&layout->splits[split].samples, end, held_samples(items, split, counts[split]), size) &&
               append(&layout->splits[split].labels, end, counts[split], items->label_bytes) &&
               append(&layout->splits[split].owners, end, counts[split], items->owner_bytes);
    if (fits && append(&layout->names, end, items->names_bytes, 1) &&
        append(&layout->features, end, items->feature_bytes, 1) && append(&layout->users, end, items->user_bytes, 1) &&
        append(&layout->lines, end, counts[DATASET_TEST], items->line_bytes) &&
        append(&layout->scales, end, items->scales, 2 * sizeof(double)) &&
        append(&layout->fills, end, items->fills, sizeof(double)))
        return STATUS_OK;
    return fail(err, STATUS_USAGE, "a data set of %u + %u samples of %dx%dx%d does not fit in memory",
                counts[DATASET_TRAIN], counts[DATASET_TEST], shape.channels, shape.rows, shape.columns);
}
