// A data set in memory that processes share: an earlier run's unpacked copy, mapped from its file, or a segment into
// which the parent reads the files. Samples that are mapped from their own files stay there (datasets/samples_file.h).
//
//   parent:  TRY(dataset_segment_load(&segment, &source, err));
//            TRY(dataset_segment_view(&data, &segment, err));
//            ... workers inherit the descriptors of dataset_segment_worker_fds ...
//            TRY(dataset_segment_check(&segment, err));  // now and then
//            dataset_segment_keep(&segment, &source);    // at the end, when no worker waits for it
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

// The descriptors of a data set: of its block, and of the files of its samples.
enum { DATASET_FDS = 1 + DATASET_SPLITS };

typedef struct DatasetSegment {
    Segment segment;         // raw; starts with the data set's block
    int worker_fd;           // read-only; owned, or the same as the segment's
    bool is_copy;            // mapped from the unpacked cache
    bool is_kept;            // the cache has a copy, or must not get one
    struct timespec changed; // modification time of the copy's file when it was checked
    SamplesFile samples[DATASET_SPLITS];
} DatasetSegment;

static const DatasetSegment NO_DATASET_SEGMENT = {
    .segment.fd = -1, .worker_fd = -1, .samples = {{.fd = -1}, {.fd = -1}}};

// OS or DATA. Nothing to free on failure.
Status dataset_segment_load(DatasetSegment *segment, const DatasetSource *source, Error *err);

// In a worker; takes over the descriptors. Nothing to free on failure.
Status dataset_segment_attach(DatasetSegment *segment, const int fds[DATASET_FDS], Error *err);

// Fills in pointers into the caller's mappings.
Status dataset_segment_view(Dataset *data, const DatasetSegment *segment, Error *err);

// Read-only descriptors, owned by the segment. For a split whose samples are stored in the block, the descriptor of the
// block.
void dataset_segment_worker_fds(int fds[DATASET_FDS], const DatasetSegment *segment);

// DATA if the file of a copy or of samples was written to since it was checked (see unpacked_cache.h).
Status dataset_segment_check(const DatasetSegment *segment, Error *err);

// Leaves an unpacked copy for later runs, once, unless the data set was loaded from one.
void dataset_segment_keep(DatasetSegment *segment, const DatasetSource *source);

// Does nothing for NO_DATASET_SEGMENT, or after a first call.
void dataset_segment_free(DatasetSegment *segment);

#endif
