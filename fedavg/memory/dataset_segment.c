#include "dataset_segment.h"

#include <assert.h>
#include <sys/stat.h>
#include <unistd.h>

#include "datasets/unpacked_cache.h"

// The block is written while only this process maps it; workers get a descriptor that is read-only.
static Status read_files(DatasetSegment *segment, const DatasetSource *source, Error *err) {
    TRY(segment_create_raw(&segment->segment, "data set", source->block_bytes, err));
    Status status = dataset_read(segment->segment.memory, source, err);
    if (status == STATUS_OK) status = segment_reopen_readonly(&segment->worker_fd, &segment->segment, err);
    for (DatasetSplitKind split = 0; split < DATASET_SPLITS && status == STATUS_OK; split++)
        if (source->items.outside & 1u << split)
            status = samples_file_open(&segment->samples[split], source, split, err);
    if (status != STATUS_OK) dataset_segment_free(segment);
    return status;
}

// A copy in the cache is mapped, so that runs share its pages and none of them reads the files again.
Status dataset_segment_load(DatasetSegment *segment, const DatasetSource *source, Error *err) {
    int fd;
    assert(source->block_bytes > 0);
    *segment = NO_DATASET_SEGMENT;
    segment->is_kept = source->model != NULL; // later runs read the samples without this model
    if (!unpacked_cache_open(&fd, &segment->changed, source)) return read_files(segment, source, err);
    segment->is_copy = segment->is_kept = true;
    segment->worker_fd = fd;
    return segment_map_raw(&segment->segment, fd, SEGMENT_READ, err);
}

Status dataset_segment_view(Dataset *data, const DatasetSegment *segment, Error *err) {
    TRY(dataset_view(data, segment->segment.memory, segment->segment.bytes, err));
    assert(segment->segment.memory);
    if (segment->samples[DATASET_TRAIN].fd >= 0) data->train.pixels = segment->samples[DATASET_TRAIN].samples;
    if (segment->samples[DATASET_TEST].fd >= 0) data->test.pixels = segment->samples[DATASET_TEST].samples;
    return STATUS_OK;
}

// The descriptor of a split whose samples are in the block is one more of the block.
Status dataset_segment_attach(DatasetSegment *segment, const int fds[DATASET_FDS], Error *err) {
    Dataset data = {0};
    *segment = NO_DATASET_SEGMENT;
    Status status = segment_map_raw(&segment->segment, fds[0], SEGMENT_READ, err);
    if (status == STATUS_OK) status = dataset_view(&data, segment->segment.memory, segment->segment.bytes, err);
    for (DatasetSplitKind split = 0; split < DATASET_SPLITS; split++) {
        const size_t bytes = dataset_sample_bytes(&data, split == DATASET_TRAIN ? &data.train : &data.test);
        if (status == STATUS_OK && data.items.outside & 1u << split)
            status = samples_file_map(&segment->samples[split], fds[1 + split], data.begins[split], bytes, err);
        else
            close(fds[1 + split]);
    }
    if (status != STATUS_OK) dataset_segment_free(segment);
    return status;
}

void dataset_segment_worker_fds(int fds[DATASET_FDS], const DatasetSegment *segment) {
    fds[0] = segment->worker_fd;
    for (DatasetSplitKind split = 0; split < DATASET_SPLITS; split++)
        fds[1 + split] = segment->samples[split].fd >= 0 ? segment->samples[split].fd : segment->worker_fd;
}

// Another process may write to a mapped file, and the samples would change in the middle of the run. Size and time of
// the last change tell.
Status dataset_segment_check(const DatasetSegment *segment, Error *err) {
    struct stat about;
    for (DatasetSplitKind split = 0; split < DATASET_SPLITS; split++)
        TRY(samples_file_check(&segment->samples[split], err));
    if (!segment->is_copy) return STATUS_OK;
    if (fstat(segment->segment.fd, &about) == 0 && about.st_size == (off_t)segment->segment.bytes &&
        about.st_mtim.tv_sec == segment->changed.tv_sec && about.st_mtim.tv_nsec == segment->changed.tv_nsec)
        return STATUS_OK;
    return fail(err, STATUS_DATA,
                "the data set's unpacked copy (sounder/unpacked in the cache folder) was written to while this run was "
                "using it; run again, or with --resume from the last checkpoint");
}

// A copy is made after the run and not before it: the first round does not wait for a file that only later runs use.
void dataset_segment_keep(DatasetSegment *segment, const DatasetSource *source) {
    if (!segment->is_kept) unpacked_cache_keep(segment->segment.memory, source);
    segment->is_kept = true;
}

void dataset_segment_free(DatasetSegment *segment) {
    if (segment->worker_fd >= 0 && segment->worker_fd != segment->segment.fd) close(segment->worker_fd);
    segment_free(&segment->segment);
    for (DatasetSplitKind split = 0; split < DATASET_SPLITS; split++)
        samples_file_free(&segment->samples[split]);
    *segment = NO_DATASET_SEGMENT;
}
