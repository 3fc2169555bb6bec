// Part of dataset.h: reads the owners of a data set's training samples, for callers that need them before the data set
// is loaded.
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "datasets/dataset_block.h"
#include "datasets/unpacked_cache.h"

static Status copy_owners(uint32_t **owners, const void *block, size_t bytes, Error *err) {
    Dataset data;
    TRY(dataset_view(&data, block, bytes, err));
    *owners = malloc((data.train.count + 1) * sizeof **owners);
    if (!*owners) return fail(err, STATUS_OS, "no memory for the owners of %u samples", data.train.count);
    memcpy(*owners, data.train.owners, data.train.count * sizeof **owners);
    return STATUS_OK;
}

// Returns false if there is no unpacked copy.
static bool read_copy(uint32_t **owners, const DatasetSource *source) {
    int fd;
    struct timespec changed;
    Error ignored;
    if (!unpacked_cache_open(&fd, &changed, source)) return false;
    void *block = mmap(NULL, source->block_bytes, PROT_READ, MAP_SHARED, fd, 0);
    close(fd);
    if (block == MAP_FAILED) return false;
    const bool copied = copy_owners(owners, block, source->block_bytes, &ignored) == STATUS_OK;
    munmap(block, source->block_bytes);
    return copied;
}

Status dataset_train_owners(uint32_t **owners, const DatasetSource *source, Error *err) {
    if (source->users == 0) return fail(err, STATUS_USAGE, "%s: its samples have no owners", source->name);
    if (read_copy(owners, source)) return STATUS_OK;
    void *block = aligned_alloc(DATASET_ALIGNMENT, source->block_bytes);
    if (!block) return fail(err, STATUS_OS, "no memory for %zu bytes of %s", source->block_bytes, source->name);
    Status status = dataset_read(block, source, err);
    if (status == STATUS_OK) status = copy_owners(owners, block, source->block_bytes, err);
    free(block);
    return status;
}
