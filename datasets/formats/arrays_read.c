// Part of arrays.h: reads the values of the arrays into a data set's block.
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "datasets/formats/arrays.h"
#include "datasets/holdout.h"

// Arrays --------------------------------------------------------------------------------------------------------------

// Opens an array and checks that its header is still the one that was found.
static Status reopen(ByteStream *stream, const Arrays *arrays, ArrayRole role, Error *err) {
    NpyHeader again;
    TRY(arrays_open(stream, &again, arrays, role, err));
    const NpyHeader *before = &arrays->headers[role];
    if (strcmp(again.type, before->type) == 0 && again.by_columns == before->by_columns &&
        memcmp(again.extent, before->extent, sizeof again.extent) == 0)
        return STATUS_OK;
    byte_stream_close(stream);
    return dataset_changed(arrays->said[role], err);
}

// Reads the values of an array into `to` (count): pixels unchanged, whole numbers up to `greatest` as uint32_t if
// `what` names them, all others as floats.
static Status read_array(void *to, const Arrays *arrays, ArrayRole role, uint32_t greatest, const char *what,
                         Error *err) {
    const NpyHeader *header = &arrays->headers[role];
    const bool are_pixels = (role == X_TRAIN || role == X_TEST || role == X_VALIDATION) && array_has_pixels(header);
    ByteStream stream;
    TRY(reopen(&stream, arrays, role, err));
    Status status = what         ? npy_read_wholes(to, header, &stream, greatest, what, err)
                    : are_pixels ? npy_read_bytes(to, header, &stream, err)
                                 : npy_read_reals(to, header, &stream, err);
    byte_stream_close(&stream);
    return status;
}

static Status read_doubles(double *values, const Arrays *arrays, ArrayRole role, Error *err) {
    ByteStream stream;
    TRY(reopen(&stream, arrays, role, err));
    const Status status = npy_read_doubles(values, &arrays->headers[role], &stream, err);
    byte_stream_close(&stream);
    return status;
}

// The class of a row of zeros with a single one; `classes` if it is none.
static uint32_t class_of(const float *row, uint32_t classes) {
    uint32_t class = classes;
    for (uint32_t k = 0; k < classes; k++) {
        if (row[k] == 0) continue;
        if (row[k] != 1 || class < classes) return classes;
        class = k;
    }
    return class;
}

// rows: (count), the caller frees them.
static Status read_rows(float **rows, const Arrays *arrays, ArrayRole role, Error *err) {
    const uint64_t count = arrays->headers[role].count;
    *rows = malloc(count * sizeof **rows);
    if (!*rows) return fail(err, STATUS_OS, "no memory for %" PRIu64 " numbers of labels", count);
    const Status status = read_array(*rows, arrays, role, 0, NULL, err);
    if (status != STATUS_OK) free(*rows);
    return status;
}

static Status read_one_hot(uint32_t *labels, const Arrays *arrays, ArrayRole role, Error *err) {
    const NpyHeader *header = &arrays->headers[role];
    const uint32_t classes = (uint32_t)header->extent[1];
    float *rows;
    Status status = STATUS_OK;
    TRY(read_rows(&rows, arrays, role, err));
    for (uint64_t i = 0; i < header->extent[0] && status == STATUS_OK; i++) {
        labels[i] = class_of(rows + i * classes, classes);
        if (labels[i] == classes)
            status = fail(err, STATUS_DATA,
                          "%s: row %" PRIu64 " is not one-hot (zeros and a single 1); give one label or one target for "
                          "each sample",
                          arrays->said[role], i);
    }
    free(rows);
    return status;
}

// One row with more or fewer ones makes all of them rows of labels; a value that is neither 0 nor 1 makes them neither.
Status arrays_look_at_labels(Arrays *arrays, Error *err) {
    const NpyHeader *header = &arrays->headers[Y_TRAIN];
    if (!arrays->found[Y_TRAIN] || !array_is_one_hot(header) || header->by_columns) return STATUS_OK;
    float *rows;
    const uint32_t classes = (uint32_t)header->extent[1];
    bool are_bits = true, are_classes = true;
    TRY(read_rows(&rows, arrays, Y_TRAIN, err));
    for (uint64_t i = 0; i < header->count && are_bits; i++)
        are_bits = rows[i] == 0 || rows[i] == 1;
    for (uint64_t i = 0; i < header->extent[0] && are_bits; i++)
        are_classes &= class_of(rows + i * classes, classes) < classes;
    arrays->has_rows = are_bits && !are_classes;
    free(rows);
    return STATUS_OK;
}

static Status check_bits(const float *rows, const Arrays *arrays, ArrayRole role, Error *err) {
    const NpyHeader *header = &arrays->headers[role];
    for (uint64_t i = 0; i < header->count; i++)
        if (rows[i] != 0 && rows[i] != 1)
            return fail(err, STATUS_DATA, "%s: %g in row %" PRIu64 "; labels of several per sample are 0 or 1",
                        arrays->said[role], (double)rows[i], i / header->extent[1]);
    return STATUS_OK;
}

// Classes that are stored as floating-point numbers, as classes=N in --data says.
static Status read_whole_reals(uint32_t *labels, const Arrays *arrays, ArrayRole role, Error *err) {
    float *numbers;
    Status status = STATUS_OK;
    TRY(read_rows(&numbers, arrays, role, err));
    for (uint64_t i = 0; i < arrays->headers[role].count && status == STATUS_OK; i++) {
        const bool is_class = numbers[i] >= 0 && numbers[i] < DATASET_MAX_CLASSES && numbers[i] == floorf(numbers[i]);
        labels[i] = is_class ? (uint32_t)numbers[i] : 0;
        if (!is_class)
            status = fail(err, STATUS_DATA, "%s: %g of sample %" PRIu64 " is no class, though --data says classes=%u",
                          arrays->said[role], (double)numbers[i], i, settings_classes(arrays->settings));
    }
    free(numbers);
    return status;
}

// labels: (samples).
static Status read_labels(uint32_t *labels, const Arrays *arrays, ArrayRole role, Error *err) {
    if (array_is_one_hot(&arrays->headers[role])) return read_one_hot(labels, arrays, role, err);
    if (array_has_targets(&arrays->headers[role])) return read_whole_reals(labels, arrays, role, err);
    return read_array(labels, arrays, role, DATASET_MAX_CLASSES - 1, "labels", err);
}

// Counting ------------------------------------------------------------------------------------------------------------

// Chooses the tests of a single set, for each user or else for each class. is_test: (samples).
static Status choose_tests(uint8_t *is_test, uint32_t *tests, const Arrays *arrays, bool has_targets, Error *err) {
    const uint32_t samples = (uint32_t)arrays->headers[X_TRAIN].extent[0];
    const bool by_users = arrays->found[CLIENT_TRAIN];
    uint32_t *kinds_of = malloc(samples * sizeof *kinds_of), kinds = 0;
    if (!kinds_of) return fail(err, STATUS_OS, "no memory for the labels of %u samples", samples);
    Status status = by_users      ? read_array(kinds_of, arrays, CLIENT_TRAIN, samples - 1, "clients", err)
                    : has_targets ? STATUS_OK
                                  : read_labels(kinds_of, arrays, Y_TRAIN, err);
    const bool has_kinds = by_users || !has_targets;
    for (uint32_t i = 0; i < samples && has_kinds && status == STATUS_OK; i++)
        if (kinds_of[i] >= kinds) kinds = kinds_of[i] + 1;
    if (status == STATUS_OK)
        status = holdout_choose(is_test, tests, has_kinds ? kinds_of : NULL, samples, kinds, arrays->settings,
                                arrays->place, err);
    free(kinds_of);
    return status;
}

static Status find_users(DatasetSource *source, const Arrays *arrays, Error *err) {
    if (!arrays->found[CLIENT_TRAIN]) return STATUS_OK;
    const uint32_t count = source->counts[DATASET_TRAIN] - source->validation_count;
    uint32_t *owners = malloc(count * sizeof *owners);
    if (!owners) return fail(err, STATUS_OS, "no memory for the clients of %u samples", count);
    Status status = read_array(owners, arrays, CLIENT_TRAIN, count - 1, "clients, numbered without gaps,", err);
    if (status == STATUS_OK)
        status = dataset_count_users(&source->users, owners, count, arrays->said[CLIENT_TRAIN], err);
    free(owners);
    source->items.owner_bytes = sizeof *owners;
    return status;
}

enum { MOST_TOKENS = 1 << 24 }; // whole numbers that a float32 tells apart

static Status find_vocabulary(DatasetSource *source, const Arrays *arrays, Error *err) {
    if (!arrays->found[VOCABULARY]) return STATUS_OK;
    TRY(read_array(&source->items.tokens, arrays, VOCABULARY, MOST_TOKENS, "vocabularies", err));
    if (source->items.tokens > 0) return STATUS_OK;
    return fail(err, STATUS_DATA, "%s: 0; give the number that all tokens are below", arrays->said[VOCABULARY]);
}

Status arrays_count(DatasetSource *source, const Arrays *arrays, Error *err) {
    TRY(find_users(source, arrays, err));
    TRY(find_vocabulary(source, arrays, err));
    if (!arrays->is_single) return STATUS_OK;
    uint32_t *counts = source->counts;
    uint8_t *is_test = malloc(counts[DATASET_TRAIN]);
    if (!is_test) return fail(err, STATUS_OS, "no memory for %u samples", counts[DATASET_TRAIN]);
    const Status status =
        choose_tests(is_test, &counts[DATASET_TEST], arrays, dataset_has_targets(&source->items), err);
    counts[DATASET_TRAIN] -= counts[DATASET_TEST];
    free(is_test);
    return status;
}

// Samples -------------------------------------------------------------------------------------------------------------

// The samples of an array as they are read: bytes, floats or, if they are scaled later, doubles.
typedef struct Samples {
    uint8_t *at;
    size_t number_bytes;
} Samples;

static size_t number_bytes(const DatasetArrays *to, const DatasetBlock *block) {
    return to->exact ? sizeof *to->exact : block->items.pixel_bytes;
}

static Samples samples_from(const DatasetArrays *to, const DatasetBlock *block, size_t first) {
    const size_t bytes = number_bytes(to, block);
    uint8_t *samples = to->exact ? (uint8_t *)to->exact : to->samples;
    return (Samples){samples + first * shape_size(block->shape) * bytes, bytes};
}

// Moves the channels of images (N,H,W,C) before their rows, sample by sample.
static Status move_channels(uint8_t *pixels, uint64_t samples, Shape shape, size_t bytes, Error *err) {
    const size_t channels = (size_t)shape.channels, plane = (size_t)shape.rows * (size_t)shape.columns;
    const size_t size = channels * plane * bytes;
    uint8_t *last = malloc(size);
    if (!last) return fail(err, STATUS_OS, "no memory for a sample of %zu bytes", size);
    for (uint64_t i = 0; i < samples; i++, pixels += size) {
        memcpy(last, pixels, size);
        for (size_t p = 0; p < plane; p++)
            for (size_t c = 0; c < channels; c++)
                memcpy(pixels + (c * plane + p) * bytes, last + (p * channels + c) * bytes, bytes);
    }
    free(last);
    return STATUS_OK;
}

// to: has room for all samples of the array.
static Status read_samples(Samples to, const DatasetBlock *block, const Arrays *arrays, ArrayRole role, Error *err) {
    TRY(to.number_bytes == sizeof(double) ? read_doubles((double *)(void *)to.at, arrays, role, err)
                                          : read_array(to.at, arrays, role, 0, NULL, err));
    if (!arrays->are_last || block->shape.channels == 1) return STATUS_OK;
    return move_channels(to.at, arrays->headers[role].extent[0], block->shape, to.number_bytes, err);
}

// labels: (samples of the array), uint16 classes or float32 targets.
static Status read_targets(void *labels, const DatasetBlock *block, const Arrays *arrays, ArrayRole role, Error *err) {
    const uint64_t count = arrays->headers[role].extent[0];
    if (dataset_has_targets(&block->items)) TRY(read_array(labels, arrays, role, 0, NULL, err));
    if (dataset_has_rows(&block->items)) return check_bits(labels, arrays, role, err);
    if (dataset_has_targets(&block->items)) return STATUS_OK;
    uint32_t *values = malloc(count * sizeof *values);
    if (!values) return fail(err, STATUS_OS, "no memory for %" PRIu64 " labels", count);
    const Status status = read_labels(values, arrays, role, err);
    for (uint64_t i = 0; i < count && status == STATUS_OK; i++)
        ((uint16_t *)labels)[i] = (uint16_t)values[i];
    free(values);
    return status;
}

// Reads the owners; without client_test the test samples have no owners.
static Status read_owners(DatasetBlock *block, const Arrays *arrays, Error *err) {
    const DatasetArrays train = dataset_arrays(block, DATASET_TRAIN), test = dataset_arrays(block, DATASET_TEST);
    if (!arrays->found[CLIENT_TRAIN]) return STATUS_OK;
    TRY(read_array(train.owners, arrays, CLIENT_TRAIN, block->users - 1, "clients", err));
    if (arrays->found[CLIENT_TEST])
        return read_array(test.owners, arrays, CLIENT_TEST, block->users - 1, "clients with training samples", err);
    memset(test.owners, 0xff, test.count * sizeof *test.owners);
    return STATUS_OK;
}

// No user owns a sample of the validation set: a partition never asks for the owner.
static Status read_validation(DatasetBlock *block, const DatasetArrays *to, const Arrays *arrays, Error *err) {
    const size_t first = to->count - block->validation_count;
    if (block->validation_count == 0) return STATUS_OK;
    TRY(read_samples(samples_from(to, block, first), block, arrays, X_VALIDATION, err));
    TRY(read_targets((uint8_t *)to->labels + first * block->items.label_bytes, block, arrays, Y_VALIDATION, err));
    if (to->owners) memset(to->owners + first, 0, block->validation_count * sizeof *to->owners);
    return STATUS_OK;
}

// A single set --------------------------------------------------------------------------------------------------------

// Copies items (count, bytes each) to the training or the test samples.
static void part_out(void *train, void *test, const uint8_t *items, size_t count, size_t bytes,
                     const uint8_t *is_test) {
    uint8_t *to[] = {train, test};
    for (size_t i = 0; i < count; i++) {
        memcpy(to[is_test[i]], items + i * bytes, bytes);
        to[is_test[i]] += bytes;
    }
}

static Status part_single(DatasetBlock *block, const DatasetArrays to[DATASET_SPLITS], uint8_t *items,
                          const uint8_t *is_test, const Arrays *arrays, Error *err) {
    const DatasetArrays *train = &to[DATASET_TRAIN], *test = &to[DATASET_TEST];
    const size_t count = (size_t)train->count + test->count, bytes = number_bytes(train, block);
    TRY(read_samples((Samples){items, bytes}, block, arrays, X_TRAIN, err));
    part_out(samples_from(train, block, 0).at, samples_from(test, block, 0).at, items, count,
             shape_size(block->shape) * bytes, is_test);
    TRY(read_targets(items, block, arrays, Y_TRAIN, err));
    part_out(train->labels, test->labels, items, count, block->items.label_bytes, is_test);
    if (!arrays->found[CLIENT_TRAIN]) return STATUS_OK;
    TRY(read_array(items, arrays, CLIENT_TRAIN, block->users - 1, "clients", err));
    part_out(train->owners, test->owners, items, count, block->items.owner_bytes, is_test);
    return STATUS_OK;
}

static Status read_single(DatasetBlock *block, const DatasetArrays to[DATASET_SPLITS], const Arrays *arrays,
                          Error *err) {
    const size_t samples = (size_t)block->counts[DATASET_TRAIN] + block->counts[DATASET_TEST];
    const size_t sample = shape_size(block->shape) * number_bytes(to, block), label = block->items.label_bytes;
    const size_t bytes = sample > label ? sample : label;
    uint8_t *is_test = malloc(samples), *items = malloc(samples * (bytes > 4 ? bytes : 4));
    uint32_t tests = 0;
    Status status = is_test && items ? choose_tests(is_test, &tests, arrays, dataset_has_targets(&block->items), err)
                                     : fail(err, STATUS_OS, "no memory for %zu samples", samples);
    if (status == STATUS_OK && tests != block->counts[DATASET_TEST]) status = dataset_changed(arrays->place, err);
    if (status == STATUS_OK) status = part_single(block, to, items, is_test, arrays, err);
    free(is_test);
    free(items);
    return status;
}

// Normalisation -------------------------------------------------------------------------------------------------------

// Pixels are normalised by the net's first op, numbers are normalised here.
static void apply_normalisation(DatasetBlock *block, const DatasetArrays of[DATASET_SPLITS], const double *mean,
                                const double *std, size_t kinds) {
    if (block->items.pixel_bytes > 1) {
        dataset_apply_scales(of, shape_size(block->shape), mean, std, kinds);
        return;
    }
    for (size_t c = 0; c < (size_t)block->shape.channels; c++) {
        block->scale[c] = (float)(1 / (255 * std[c % kinds]));
        block->shift[c] = (float)(-mean[c % kinds] / std[c % kinds]);
    }
}

static Status read_normalisation(DatasetBlock *block, const DatasetArrays of[DATASET_SPLITS], const Arrays *arrays,
                                 Error *err) {
    if (!arrays->found[MEAN]) return STATUS_OK;
    const size_t kinds = arrays->headers[MEAN].count;
    double *mean = malloc(2 * kinds * sizeof *mean);
    if (!mean) return fail(err, STATUS_OS, "no memory for the means of %zu features", kinds);
    double *std = mean + kinds;
    Status status = read_doubles(mean, arrays, MEAN, err);
    if (status == STATUS_OK) status = read_doubles(std, arrays, STD, err);
    for (size_t i = 0; i < kinds && status == STATUS_OK; i++)
        if (!(std[i] > 0))
            status = fail(err, STATUS_DATA, "%s: value %zu is %g; a standard deviation is above 0", arrays->said[STD],
                          i, std[i]);
        else if (block->items.pixel_bytes == 1 && !(mean[i] <= 1 && std[i] <= 1))
            status =
                fail(err, STATUS_DATA,
                     "%s: value %zu is %g, and that of std %g; those of pixels are of p / 255, from 0 to 1: mean / "
                     "255, std / 255",
                     arrays->said[MEAN], i, mean[i], std[i]);
    if (status == STATUS_OK) apply_normalisation(block, of, mean, std, kinds);
    free(mean);
    return status;
}

// The data set --------------------------------------------------------------------------------------------------------

static bool are_scaled_from_wide(const DatasetBlock *block, const Arrays *arrays) {
    const NpyHeader *headers = arrays->headers;
    const bool are_scaled = block->items.pixel_bytes > 1 && (block->items.scales > 0 || arrays->found[MEAN]);
    return are_scaled &&
           (npy_is_wide(&headers[X_TRAIN]) || npy_is_wide(&headers[X_TEST]) || npy_is_wide(&headers[X_VALIDATION]));
}

static Status read_both(DatasetBlock *block, const DatasetArrays of[DATASET_SPLITS], const DatasetSource *source,
                        const Arrays *arrays, Error *err) {
    static const ArrayRole x[] = {X_TRAIN, X_TEST}, y[] = {Y_TRAIN, Y_TEST};
    if (arrays->is_single) return read_single(block, of, arrays, err);
    for (DatasetSplitKind split = 0; split < DATASET_SPLITS; split++) {
        const DatasetArrays *to = &of[split];
        if (!arrays->labels_alone && !(source->items.outside & 1u << split))
            TRY(read_samples(samples_from(to, block, 0), block, arrays, x[split], err));
        TRY(read_targets(to->labels, block, arrays, y[split], err));
    }
    TRY(read_validation(block, &of[DATASET_TRAIN], arrays, err));
    return read_owners(block, arrays, err);
}

// Labels that are classes are tokens that follow: there are as many classes as tokens.
static Status settle_tokens(DatasetBlock *block, const DatasetArrays of[DATASET_SPLITS], const char *place,
                            Error *err) {
    const uint32_t tokens = block->items.tokens;
    const size_t length = shape_size(block->shape);
    for (DatasetSplitKind split = 0; split < DATASET_SPLITS && tokens > 0; split++)
        for (size_t i = 0; i < of[split].count * length; i++) {
            float token;
            memcpy(&token, of[split].samples + i * sizeof token, sizeof token);
            if (!(token >= 0 && token < (float)tokens))
                return fail(err, STATUS_DATA, "%s: token %g in row %zu, and the vocabulary says that all are below %u",
                            place, (double)token, i / length, tokens);
        }
    if (tokens > 0 && !dataset_has_targets(&block->items) && tokens <= DATASET_MAX_CLASSES &&
        (int)tokens > block->classes)
        block->classes = (int)tokens;
    return STATUS_OK;
}

Status arrays_read(DatasetBlock *block, const DatasetSource *source, Error *err) {
    Arrays arrays;
    DatasetSource again = {0};
    TRY(arrays_look_up(&arrays, source->folder, &source->settings, err));
    TRY(arrays_check(&again, &arrays, err));
    if (arrays.is_single) again.counts[DATASET_TEST] = source->counts[DATASET_TEST]; // which are among the others
    if (arrays.is_single) again.counts[DATASET_TRAIN] -= source->counts[DATASET_TEST];
    if (memcmp(&again.shape, &source->read_shape, sizeof again.shape) != 0 ||
        memcmp(again.counts, source->counts, sizeof again.counts) != 0 ||
        again.validation_count != source->validation_count || again.items.pixel_bytes != source->items.pixel_bytes ||
        again.items.label_bytes != source->items.label_bytes || arrays.found[CLIENT_TRAIN] != (source->users != 0))
        return dataset_changed(source->folder, err);
    DatasetArrays of[] = {dataset_arrays(block, DATASET_TRAIN), dataset_arrays(block, DATASET_TEST)};
    if (are_scaled_from_wide(block, &arrays)) TRY(dataset_exact_begin(of, shape_size(block->shape), err));
    Status status = read_both(block, of, source, &arrays, err);
    if (status == STATUS_OK) status = read_normalisation(block, of, &arrays, err);
    if (status == STATUS_OK) status = dataset_scale_numbers(block, of, source, err);
    dataset_exact_free(of);
    TRY(status);
    TRY(dataset_count_classes(block, source, arrays.said[arrays.is_single ? Y_TRAIN : Y_TEST], err));
    // Columns of one-hot rows are classes, also without samples.
    if (array_is_one_hot(&arrays.headers[Y_TRAIN]) && (int)arrays.headers[Y_TRAIN].extent[1] > block->classes)
        block->classes = (int)arrays.headers[Y_TRAIN].extent[1];
    return settle_tokens(block, of, source->folder, err);
}
