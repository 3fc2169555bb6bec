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
    size_t count = 0;
    if (unpacked_cache_open(&fd, &changed, source)) {
        for (ssize_t got = 1; got > 0 && count<bytes; count += got> 0 ? (size_t)got : 0)
            got = pread(fd, (char *)*block + count, bytes - count, (off_t)count); // at most 2 GiB at once
        close(fd);
    }
    Status status = count == bytes ? STATUS_OK : dataset_read(*block, source, err);
    if (status == STATUS_OK) status = dataset_view(data, *block, bytes, err);
    if (status != STATUS_OK) free(*block);
    return status;
}
