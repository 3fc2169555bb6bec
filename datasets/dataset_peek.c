// Part of dataset.h: a data set for a caller that needs owners and labels before the run loads it.
#include <stdlib.h>
#include <unistd.h>

#include "datasets/dataset_block.h"
#include "datasets/unpacked_cache.h"

Status dataset_peek(Dataset *data, void **block, const DatasetSource *source, Error *err) {
    const size_t bytes = source->block_bytes;
    struct timespec changed;
    int fd;
    *block = aligned_alloc(DATASET_ALIGNMENT, bytes);
    if (!*block) return fail(err, STATUS_OS, "no memory for %zu bytes of %s", bytes, source->name);
    bool is_read = false;
    if (unpacked_cache_open(&fd, &changed, source)) {
        is_read = pread(fd, *block, bytes, 0) == (ssize_t)bytes;
        close(fd);
    }
    Status status = is_read ? STATUS_OK : dataset_read(*block, source, err);
    if (status == STATUS_OK) status = dataset_view(data, *block, bytes, err);
    if (status != STATUS_OK) free(*block);
    return status;
}
