#include "datasets/dataset_block.h"

#include <stdbool.h>

// Appends an array of count * item_bytes at the next aligned byte; false when the size overflows.
static bool append(uint64_t *first_byte, uint64_t *end, uint64_t count, uint64_t item_bytes) {
    uint64_t bytes;
    if (__builtin_mul_overflow(count, item_bytes, &bytes)) return false;
    *first_byte = *end;
    if (__builtin_add_overflow(*end, bytes, end) || *end > PTRDIFF_MAX / 2) return false;
    *end = (*end + DATASET_ALIGNMENT - 1) / DATASET_ALIGNMENT * DATASET_ALIGNMENT;
    return true;
}

Status dataset_layout(DatasetLayout *layout, Shape shape, uint32_t train_count, uint32_t test_count, Error *err) {
    uint64_t header, size = shape_size(shape);
    layout->block_bytes = 0;
    if (append(&header, &layout->block_bytes, 1, sizeof(DatasetBlock)) &&
        append(&layout->train_pixels, &layout->block_bytes, train_count, size) &&
        append(&layout->train_labels, &layout->block_bytes, train_count, 1) &&
        append(&layout->test_pixels, &layout->block_bytes, test_count, size) &&
        append(&layout->test_labels, &layout->block_bytes, test_count, 1))
        return STATUS_OK;
    return fail(err, STATUS_USAGE, "a data set of %u + %u samples of %dx%dx%d does not fit in memory", train_count,
                test_count, shape.channels, shape.rows, shape.columns);
}
