// What the fuzz targets of data sets' forms share: what is found is read, or refused with a sentence, and what is read
// is a whole data set. The cache of unpacked copies is off (fuzz.py).
#ifndef SOUNDER_TESTS_FUZZ_FUZZ_FORMAT_H
#define SOUNDER_TESTS_FUZZ_FUZZ_FORMAT_H

#include <sys/stat.h>

#include "datasets/formats/format.h"
#include "datasets/samples_file.h"
#include "datasets/settings.h"
#include "fuzz.h"

enum { MOST_BLOCK_BYTES = 1 << 24 };

static inline void must_be_whole(const Dataset *data) {
    must(data->test.count > 0);
    for (uint32_t i = 0; i < data->train.count && !dataset_has_targets(&data->items); i++)
        must(data->train.labels[i] < data->classes);
    for (uint32_t i = 0; i < data->test.count && !dataset_has_targets(&data->items); i++)
        must(data->test.labels[i] < data->classes);
    for (uint32_t i = 0; i < data->train.count && data->users > 0; i++)
        must(data->train.owners[i] < data->users);
    for (uint32_t i = 0; i < data->test.count && data->users > 0; i++)
        must(data->test.owners[i] < data->users || data->test.owners[i] == UINT32_MAX);
}

// Samples that stay in their file are all there.
static inline void must_have_its_samples(const Dataset *data, const DatasetSource *source, DatasetSplitKind split) {
    Error err = {.message = ""};
    SamplesFile file;
    uint8_t sum = 0;
    const size_t bytes = dataset_sample_bytes(data, split == DATASET_TRAIN ? &data->train : &data->test);
    must(samples_file_open(&file, source, split, &err) == STATUS_OK);
    for (size_t i = 0; i < bytes; i++)
        sum = (uint8_t)(sum + file.samples[i]);
    __asm__ volatile("" ::"r"(sum)); // or else the compiler reads nothing
    must(samples_file_check(&file, &err) == STATUS_OK);
    samples_file_free(&file);
}

// settings: as after a place in --data. model: NULL for samples that are to be seen by none.
static inline void find_and_read_with(const DatasetFormat *format, const char *place, const char *settings,
                                      const DatasetModel *model) {
    Error err = {.message = ""};
    DatasetLayout layout;
    DatasetSource source = {.name = "input", .items = DATASET_IMAGES, .format = format, .model = model};
    if (refused_with_a_sentence(settings_parse(&source.settings, settings, &err), &err) != STATUS_OK) return;
    if (settings_check(&source.settings, format->settings, format->name, &err) != STATUS_OK) return;
    if (refused_with_a_sentence(format->find(&source, place, &err), &err) != STATUS_OK) return;
    strcpy(source.folder, place);
    source.read_shape = source.shape;
    if (refused_with_a_sentence(settings_reshape(&source.shape, &source.settings, &err), &err) != STATUS_OK) return;
    const bool is_normalised = settings_say(&source.settings, SETTING_NORMALIZE, "yes");
    if (is_normalised && source.items.pixel_bytes == sizeof(float))
        source.items.scales = (uint32_t)(source.shape.channels > 1 || source.shape.rows > 1 ? source.shape.channels
                                                                                            : source.shape.columns);
    Status status = dataset_layout(&layout, source.shape, source.counts, &source.items, &err);
    if (refused_with_a_sentence(status, &err) != STATUS_OK || layout.block_bytes > MOST_BLOCK_BYTES) return;
    void *block = aligned_alloc(DATASET_ALIGNMENT, layout.block_bytes);
    must(block);
    Dataset data;
    if (refused_with_a_sentence(dataset_read(block, &source, &err), &err) == STATUS_OK) {
        must(dataset_view(&data, block, layout.block_bytes, &err) == STATUS_OK);
        must_be_whole(&data);
        for (DatasetSplitKind split = 0; split < DATASET_SPLITS; split++)
            if (data.items.outside & 1u << split) must_have_its_samples(&data, &source, split);
    }
    free(block);
}

static inline void find_and_read(const DatasetFormat *format, const char *place) {
    find_and_read_with(format, place, "", NULL);
}

// The tokens of a model, one per line, follow "###" in the input; NULL if they do not. Returns the bytes before that.
static inline size_t take_tokens(char **tokens, const uint8_t *input, size_t bytes) {
    const uint8_t *mark = bytes ? memmem(input, bytes, "###", 3) : NULL, *end = input + bytes;
    *tokens = NULL;
    if (!mark) return bytes;
    char *to = *tokens = calloc((size_t)(end - mark) + 1, 1);
    must(to);
    for (const uint8_t *from = mark + 3; from < end; from++)
        *to++ = (char)(*from == '\n' ? 0 : *from);
    return (size_t)(mark - input);
}

// Frees the tokens.
static inline void find_and_read_for(const DatasetFormat *format, const char *place, char *tokens) {
    const DatasetModel model = {.feature_names = tokens, .are_tokens = true, .outputs = 2};
    find_and_read_with(format, place, "", tokens ? &model : NULL);
    free(tokens);
}

static inline const DatasetFormat *format_named(const char *name) {
    uint32_t i = 0;
    while (i < dataset_format_count && strcmp(dataset_formats[i]->name, name) != 0)
        i++;
    must(i < dataset_format_count);
    return dataset_formats[i];
}

// Cuts the input into `count` files of the folder, at the first bytes of the marker between them; files that the input
// has no bytes for are not there.
static inline void write_files(const char *folder, const char *const *names, int count, const char *marker,
                               const uint8_t *input, size_t bytes) {
    char path[256];
    const size_t length = strlen(marker);
    mkdir(folder, 0700);
    for (int i = 0; i < count; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        unlink(path);
        if (!input) continue;
        const uint8_t *end = i + 1 < count && bytes > 0 ? memmem(input, bytes, marker, length) : NULL;
        const size_t own = end ? (size_t)(end - input) : bytes;
        write_file(path, input, own);
        bytes -= end ? own + length : own;
        input = end ? end + length : NULL;
    }
}

#endif
