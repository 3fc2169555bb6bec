// Part of arrays.h: compares types and shapes of the arrays.
#include <inttypes.h>
#include <stdio.h>

#include "base/text.h"
#include "datasets/formats/arrays.h"

static const char *shape_text(char text[96], const NpyHeader *header) {
    strcpy(text, header->rank == 0 ? "a single number" : "");
    for (int d = 0; d < header->rank; d++)
        text_add(text, 96, "%s%" PRIu64, d ? ", " : "", header->extent[d]);
    return text;
}

static Status check_samples(DatasetSource *source, const Arrays *arrays, ArrayRole role, Error *err) {
    const NpyHeader *x = &arrays->headers[role];
    const char *said = arrays->said[role];
    char text[96];
    if (x->by_columns && x->rank > 1)
        return fail(err, STATUS_DATA, "%s: stored column by column; save numpy.ascontiguousarray(x)", said);
    if (x->rank < 1 || x->extent[0] < 1 || x->extent[0] > INT32_MAX)
        return fail(err, STATUS_DATA, "%s: of shape (%s); samples are (N), (N,F), (N,H,W) or (N,C,H,W)", said,
                    shape_text(text, x));
    const uint64_t *of = x->extent + 1; // extents of one sample
    source->items.pixel_bytes = array_has_pixels(x) ? 1 : sizeof(float);
    if (arrays->are_last && x->rank != 4)
        return fail(err, STATUS_USAGE, "%s: of shape (%s); channels=last is for samples of (N,H,W,C)", said,
                    shape_text(text, x));
    if (arrays->are_last) return dataset_take_shape(source, of[2], of[0], of[1], said, err);
    if (x->rank == 4) return dataset_take_shape(source, of[0], of[1], of[2], said, err);
    return dataset_take_shape(source, 1, x->rank == 3 ? of[0] : 1, x->rank == 3 ? of[1] : of[0], said, err);
}

// Checks an array of one number or one-hot row per sample: labels, targets or clients.
static Status check_column(const Arrays *arrays, ArrayRole role, ArrayRole samples, Error *err) {
    const NpyHeader *column = &arrays->headers[role], *x = &arrays->headers[samples];
    char text[96];
    const bool is_label = role == Y_TRAIN || role == Y_TEST || role == Y_VALIDATION;
    if (is_label && array_is_one_hot(column) && column->extent[0] == x->extent[0] && !column->by_columns &&
        column->extent[1] <= DATASET_MAX_CLASSES)
        return STATUS_OK;
    if (column->rank >= 1 && column->count == column->extent[0] && column->count == x->extent[0]) return STATUS_OK;
    return fail(err, STATUS_DATA, "%s: of shape (%s), for %" PRIu64 " samples; give one number for each sample%s",
                arrays->said[role], shape_text(text, column), x->extent[0],
                is_label ? ", or a row of zeros and ones, stored row by row" : "");
}

// DATA if two arrays differ in what they must have in common: `test` is named, and compared with `train`.
static Status check_pair(const Arrays *arrays, ArrayRole train, ArrayRole test, bool differ, Error *err) {
    if (!differ) return STATUS_OK;
    char train_text[96], test_text[96];
    return fail(err, STATUS_DATA, "%s: of type %s and shape (%s), and the training set's of type %s and shape (%s)",
                arrays->said[test], arrays->headers[test].type, shape_text(test_text, &arrays->headers[test]),
                arrays->headers[train].type, shape_text(train_text, &arrays->headers[train]));
}

static Status check_normalisation(const DatasetSource *source, const Arrays *arrays, Error *err) {
    const bool are_numbers = source->items.pixel_bytes > 1;
    if (arrays->found[MEAN] != arrays->found[STD])
        return fail(err, STATUS_DATA, "%s: only one of mean and std; give both, or leave both out", arrays->place);
    if (!arrays->found[MEAN]) return STATUS_OK;
    if (settings_say(&source->settings, SETTING_NORMALIZE, "yes"))
        return fail(err, STATUS_USAGE, "%s: has mean and std of its own; leave out normalize=yes", arrays->place);
    if (arrays->labels_alone)
        return fail(err, STATUS_DATA, "%s: mean and std of samples that are not there; leave them out", arrays->place);
    const uint64_t means = arrays->headers[MEAN].count, stds = arrays->headers[STD].count;
    const uint64_t channels = (uint64_t)source->shape.channels;
    if (means == stds && (means == 1 || means == channels || (are_numbers && means == shape_size(source->shape))))
        return STATUS_OK;
    return fail(err, STATUS_DATA,
                "%s: %" PRIu64 " values of mean, %" PRIu64 " of std; give one of each, or one for each of %" PRIu64
                " channels%s",
                arrays->place, means, stds, channels, are_numbers ? ", or for each feature" : "");
}

static Status check_training(DatasetSource *source, const Arrays *arrays, Error *err) {
    if (!arrays->labels_alone) {
        TRY(check_samples(source, arrays, X_TRAIN, err));
        return check_column(arrays, Y_TRAIN, X_TRAIN, err);
    }
    source->shape = (Shape){1, 1, 1};
    source->items.pixel_bytes = 0;
    for (ArrayRole role = Y_TRAIN; role <= Y_TEST; role += Y_TEST - Y_TRAIN)
        if (arrays->headers[role].count < 1 || arrays->headers[role].count > INT32_MAX)
            return fail(err, STATUS_DATA, "%s: %" PRIu64 " labels; give one for each sample", arrays->said[role],
                        arrays->headers[role].count);
    return check_column(arrays, Y_TRAIN, Y_TRAIN, err);
}

// Checks the arrays of another split against those of the training samples. x: Y_TEST for labels alone.
static Status check_like_training(const DatasetSource *source, const Arrays *arrays, ArrayRole x, ArrayRole y,
                                  Error *err) {
    const NpyHeader *trains = &arrays->headers[Y_TRAIN], *tests = &arrays->headers[y];
    DatasetSource other = *source;
    if (x != y) TRY(check_samples(&other, arrays, x, err));
    TRY(check_pair(arrays, X_TRAIN, x,
                   memcmp(&source->shape, &other.shape, sizeof other.shape) != 0 ||
                       source->items.pixel_bytes != other.items.pixel_bytes,
                   err));
    TRY(check_column(arrays, y, x, err));
    return check_pair(arrays, Y_TRAIN, y,
                      array_has_targets(trains) != array_has_targets(tests) ||
                          array_is_one_hot(trains) != array_is_one_hot(tests) ||
                          (array_is_one_hot(trains) && trains->extent[1] != tests->extent[1]),
                      err);
}

static Status add_validation(DatasetSource *source, const Arrays *arrays, Error *err) {
    if (!arrays->found[X_VALIDATION] && !arrays->found[Y_VALIDATION]) return STATUS_OK;
    if (arrays->labels_alone)
        return fail(err, STATUS_DATA,
                    "%s: a validation set, but only labels of the others; leave it out, or give x_train "
                    "and x_test, too",
                    arrays->place);
    if (arrays->found[X_VALIDATION] != arrays->found[Y_VALIDATION])
        return fail(err, STATUS_DATA, "%s: only one of x_validation and y_validation; give both, or leave both out",
                    arrays->place);
    if (arrays->is_single)
        return fail(err, STATUS_USAGE,
                    "%s: a validation set, but no test set; save x_test and y_test, too, and leave out test-fraction",
                    arrays->place);
    TRY(check_like_training(source, arrays, X_VALIDATION, Y_VALIDATION, err));
    const uint64_t all = source->counts[DATASET_TRAIN] + arrays->headers[X_VALIDATION].extent[0];
    if (all > INT32_MAX)
        return fail(err, STATUS_DATA, "%s: %" PRIu64 " training and validation samples; give at most %d", arrays->place,
                    all, INT32_MAX);
    source->validation_count = (uint32_t)arrays->headers[X_VALIDATION].extent[0];
    source->counts[DATASET_TRAIN] = (uint32_t)all;
    return STATUS_OK;
}

// Tokens are rows of whole numbers. uint8 would be pixels.
static Status check_tokens(const DatasetSource *source, const Arrays *arrays, Error *err) {
    const NpyHeader *x = &arrays->headers[X_TRAIN], *vocabulary = &arrays->headers[VOCABULARY];
    char text[96];
    if (!arrays->found[VOCABULARY]) return STATUS_OK;
    if (vocabulary->count != 1)
        return fail(err, STATUS_DATA, "%s: of shape (%s); give one number, which all tokens are below",
                    arrays->said[VOCABULARY], shape_text(text, vocabulary));
    if (arrays->labels_alone || (x->kind != 'u' && x->kind != 'i') || x->item_bytes == 1 || x->rank != 2)
        return fail(err, STATUS_DATA,
                    "%s: of type %s and shape (%s), and a vocabulary says that they are tokens: rows (N,length) of "
                    "uint16 or uint32; save x.astype('uint16'), or leave the vocabulary out",
                    arrays->said[X_TRAIN], x->type, shape_text(text, x));
    if (!arrays->found[MEAN] && !settings_say(&source->settings, SETTING_NORMALIZE, "yes")) return STATUS_OK;
    return fail(err, STATUS_USAGE, "%s: tokens are not normalised; leave out mean and std, or normalize=yes",
                arrays->place);
}

Status arrays_check(DatasetSource *source, const Arrays *arrays, Error *err) {
    const NpyHeader *headers = arrays->headers;
    const ArrayRole train = arrays->labels_alone ? Y_TRAIN : X_TRAIN, test = arrays->labels_alone ? Y_TEST : X_TEST;
    TRY(check_training(source, arrays, err));
    if (!arrays->is_single) TRY(check_like_training(source, arrays, test, Y_TEST, err));
    if (arrays->found[CLIENT_TRAIN]) TRY(check_column(arrays, CLIENT_TRAIN, train, err));
    if (arrays->found[CLIENT_TEST]) TRY(check_column(arrays, CLIENT_TEST, test, err));
    if (arrays->found[CLIENT_TEST] && !arrays->found[CLIENT_TRAIN])
        return fail(err, STATUS_DATA, "%s: client_test without client_train; give both, or leave it out",
                    arrays->place);
    const uint32_t said = settings_classes(arrays->settings);
    if (said > 0 && array_is_one_hot(&headers[Y_TRAIN]) && !arrays->has_rows && headers[Y_TRAIN].extent[1] > said)
        return fail(err, STATUS_USAGE, "%s: rows of %" PRIu64 " classes, and --data says classes=%u; leave that out",
                    arrays->said[Y_TRAIN], headers[Y_TRAIN].extent[1], said);
    source->counts[DATASET_TRAIN] = (uint32_t)headers[train].extent[0];
    source->counts[DATASET_TEST] = arrays->is_single ? 0 : (uint32_t)headers[test].extent[0];
    const uint64_t columns =
        arrays->has_rows ? headers[Y_TRAIN].extent[1] : said == 0 && array_has_targets(&headers[Y_TRAIN]);
    source->items.label_bytes = columns > 0 ? (uint32_t)(columns * sizeof(float)) : sizeof(uint16_t);
    TRY(add_validation(source, arrays, err));
    TRY(check_tokens(source, arrays, err));
    return check_normalisation(source, arrays, err);
}
