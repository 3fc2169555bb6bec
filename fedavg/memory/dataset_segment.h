// A data set in memory that processes share: an earlier run's unpacked copy, mapped from its file, or a segment of our
// own into which its files were read, but for samples that are mapped where they lie (datasets/samples_file.h).
//
//   parent:  TRY(dataset_segment_load(&segment, &source, err));
//            TRY(dataset_segment_view(&data, &segment, err));
//            ... workers inherit what dataset_segment_worker_fds tells ...
//            TRY(dataset_segment_check(&segment, err));  // now and then
//            dataset_segment_keep(&segment, &source);    // when nobody waits any more
//   worker:  TRY(dataset_segment_attach(&segment, fds, err));
//   both:    dataset_segment_free(&segment);
#ifndef SOUNDER_FEDAVG_MEMORY_DATASET_SEGMENT_H
#define SOUNDER_FEDAVG_MEMORY_DATASET_SEGMENT_H

#include <stdbool.h>
#include <time.h>

#include "base/err.h"
#include "datasets/dataset.h"
#include "datasets/samples_file.h"
#include "shm/segment.h"

// The descriptors by which a data set is handed on: the block's and those of its samples' files.
enum { DATASET_FDS = 1 + DATASET_SPLITS };

typedef struct DatasetSegment {
    Segment segment;         // raw; starts with the data set's block
    int worker_fd;           // read-only; owned by this or the same as the segment's
    bool is_copy;            // mapped from the unpacked cache
    bool is_kept;            // there is a copy in the cache, or there shall be none
    struct timespec changed; // a copy's file, when it was checked
    SamplesFile samples[DATASET_SPLITS];
} DatasetSegment;

static const DatasetSegment NO_DATASET_SEGMENT = {
    .segment.fd = -1, .worker_fd = -1, .samples = {{.fd = -1}, {.fd = -1}}};

// OS or DATA. Nothing to free on failure.
Status dataset_segment_load(DatasetSegment *segment, const DatasetSource *source, Error *err);

// In a worker, which takes the descriptors over. Nothing to free on failure.
Status dataset_segment_attach(DatasetSegment *segment, const int fds[DATASET_FDS], Error *err);

// Pointers into the caller's mappings.
Status dataset_segment_view(Dataset *data, const DatasetSegment *segment, Error *err);

// Read-only ones, owned by the segment. For a split whose samples lie in the block it is the block's once more.
void dataset_segment_worker_fds(int fds[DATASET_FDS], const DatasetSegment *segment);

// DATA when somebody has written to the file of a copy or of samples since it was checked (see unpacked_cache.h).
Status dataset_segment_check(const DatasetSegment *segment, Error *err);

// Leaves an unpacked copy for later runs, once, and unless this was loaded from one.
void dataset_segment_keep(DatasetSegment *segment, const DatasetSource *source);

// Does nothing for NO_DATASET_SEGMENT, or one that was freed.
void dataset_segment_free(DatasetSegment *segment);

#endif
