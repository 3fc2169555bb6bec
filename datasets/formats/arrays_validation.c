// Part of arrays.h: the arrays of a validation set. A data set has two splits, so that its samples become the last ones
// of the training split (Dataset.validation_count), which no client gets (partition/validation.h).
#include <inttypes.h>
#include <string.h>

#include "datasets/formats/arrays.h"

Status arrays_add_validation(DatasetSource *source, const Arrays *arrays, Error *err) {
    const NpyHeader *headers = arrays->headers;
    DatasetSource validation = *source;
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
    TRY(arrays_check_samples(&validation, arrays, X_VALIDATION, err));
    const bool differ = memcmp(&source->shape, &validation.shape, sizeof validation.shape) != 0 ||
                        source->items.pixel_bytes != validation.items.pixel_bytes;
    TRY(arrays_check_pair(arrays, X_TRAIN, X_VALIDATION, differ, err));
    TRY(arrays_check_column(arrays, Y_VALIDATION, X_VALIDATION, err));
    TRY(arrays_check_labels(arrays, Y_TRAIN, Y_VALIDATION, err));
    const uint64_t all = source->counts[DATASET_TRAIN] + headers[X_VALIDATION].extent[0];
    if (all > INT32_MAX)
        return fail(err, STATUS_DATA, "%s: %" PRIu64 " training and validation samples; give at most %d", arrays->place,
                    all, INT32_MAX);
    source->validation_count = (uint32_t)headers[X_VALIDATION].extent[0];
    source->counts[DATASET_TRAIN] = (uint32_t)all;
    return STATUS_OK;
}

// No user owns a sample of the validation set: a partition never asks for the owner.
Status arrays_read_validation(DatasetBlock *block, const Arrays *arrays, Error *err) {
    const DatasetArrays to = dataset_arrays(block, DATASET_TRAIN);
    const size_t first = to.count - block->validation_count;
    const size_t sample_bytes = shape_size(block->shape) * block->items.pixel_bytes;
    if (block->validation_count == 0) return STATUS_OK;
    TRY(arrays_read_samples((uint8_t *)to.samples + first * sample_bytes, block, arrays, X_VALIDATION, err));
    TRY(arrays_read_targets((uint8_t *)to.labels + first * block->items.label_bytes, block, arrays, Y_VALIDATION, err));
    if (to.owners) memset(to.owners + first, 0, block->validation_count * sizeof *to.owners);
    return STATUS_OK;
}
