#include "dataset_segment.h"

#include <sys/stat.h>
#include <unistd.h>

#include "datasets/unpacked_cache.h"

static const DatasetSegment EMPTY = {.segment.fd = -1, .worker_fd = -1};

static Status map_copy(DatasetSegment *segment, int fd, Error *err) {
    segment->is_copy = segment->is_kept = true;
    segment->worker_fd = fd;
    return segment_map_raw(&segment->segment, fd, SEGMENT_READ, err);
}

static Status read_files(DatasetSegment *segment, const DatasetSource *source, Error *err) {
    TRY(segment_create_raw(&segment->segment, "data set", source->block_bytes, err));
    Status status = dataset_read(segment->segment.memory, source, err);
    if (status == STATUS_OK) status = segment_reopen_readonly(&segment->worker_fd, &segment->segment, err);
    if (status != STATUS_OK) segment_free(&segment->segment);
    return status;
}

Status dataset_segment_load(DatasetSegment *segment, const DatasetSource *source, Error *err) {
    int fd;
    *segment = EMPTY;
    if (unpacked_cache_open(&fd, &segment->changed, source)) return map_copy(segment, fd, err);
    return read_files(segment, source, err);
}

Status dataset_segment_check(const DatasetSegment *segment, Error *err) {
    struct stat about;
    if (!segment->is_copy) return STATUS_OK;
    if (fstat(segment->segment.fd, &about) == 0 && about.st_size == (off_t)segment->segment.bytes &&
        about.st_mtim.tv_sec == segment->changed.tv_sec && about.st_mtim.tv_nsec == segment->changed.tv_nsec)
        return STATUS_OK;
    return fail(err, STATUS_DATA,
                "the data set's unpacked copy (sounder/unpacked in the cache folder) was written to while this run was "
                "using it; run again, or with --resume from the last checkpoint");
}

void dataset_segment_keep(DatasetSegment *segment, const DatasetSource *source) {
    if (!segment->is_kept) unpacked_cache_keep(segment->segment.memory, source);
    segment->is_kept = true;
}

void dataset_segment_free(DatasetSegment *segment) {
    if (segment->worker_fd >= 0 && segment->worker_fd != segment->segment.fd) close(segment->worker_fd);
    segment_free(&segment->segment);
    *segment = EMPTY;
}
