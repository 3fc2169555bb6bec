// A data set in memory that processes share: an earlier run's unpacked copy, mapped from its file, or a segment of our
// own into which its files were read.
//
//   TRY(dataset_segment_load(&segment, &source, err));
//   TRY(dataset_view(&data, segment.segment.memory, segment.segment.bytes, err));
//   ... workers inherit segment.worker_fd and call segment_map_raw(..., SEGMENT_READ) ...
//   TRY(dataset_segment_check(&segment, err));  // now and then
//   dataset_segment_keep(&segment, &source);    // when nobody waits any more
//   dataset_segment_free(&segment);
#ifndef SOUNDER_FEDAVG_MEMORY_DATASET_SEGMENT_H
#define SOUNDER_FEDAVG_MEMORY_DATASET_SEGMENT_H

#include <stdbool.h>
#include <time.h>

#include "base/err.h"
#include "datasets/dataset.h"
#include "shm/segment.h"

typedef struct DatasetSegment {
    Segment segment;         // raw; starts with the data set's block
    int worker_fd;           // read-only; owned by this or the same as the segment's
    bool is_copy;            // mapped from the unpacked cache
    bool is_kept;            // there is a copy in the cache, or there shall be none
    struct timespec changed; // a copy's file, when it was checked
} DatasetSegment;

// OS or DATA. Nothing to free on failure.
Status dataset_segment_load(DatasetSegment *segment, const DatasetSource *source, Error *err);

// DATA when somebody has written to the file of a copy since it was checked (see unpacked_cache.h).
Status dataset_segment_check(const DatasetSegment *segment, Error *err);

// Leaves an unpacked copy for later runs, once, and unless this was loaded from one.
void dataset_segment_keep(DatasetSegment *segment, const DatasetSource *source);

// Does nothing for a segment that is zeroed but for its descriptors of -1, or already freed.
void dataset_segment_free(DatasetSegment *segment);

#endif
