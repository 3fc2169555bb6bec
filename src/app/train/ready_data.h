// A data set that is in memory before the run begins: a sweep loads it once and forks its runs, which use it. The runs
// neither search nor read nor check its files, and share one copy.
//
//   sweep:  TRY(ready_data_load(&ready, options.data, options.seed, err));
//           fork; train_with(count, arguments, &ready, 0, &exit_code, &err)      // in the process of the run
//           ready_data_free(&ready);
//   run:    if (ready_data_serves(ready, options.data, options.seed)) ... take source, segment and hash from it
//
// A run's process frees what it takes; the sweep's own mapping and descriptors stay.
#ifndef SOUNDER_APP_TRAIN_READY_DATA_H
#define SOUNDER_APP_TRAIN_READY_DATA_H

#include "app/options/options.h"
#include "datasets/dataset.h"
#include "fedavg/memory/dataset_segment.h"

typedef struct ReadyData {
    char name[OPTION_TEXT_BYTES];    // its --data; empty: no data set is loaded
    char folder[DATASET_PATH_BYTES]; // full path in the run's config; empty: the data has no folder
    DatasetSource source;
    DatasetSegment segment; // owned
    uint64_t hash;          // run_hash_data of the data set
} ReadyData;

// Does dataset_find and dataset_segment_load, and keeps the copy in the cache at once. After a failure nothing must be
// freed, and ready_data_serves is always false.
Status ready_data_load(ReadyData *ready, const char *data, uint64_t seed, Error *err);

// Whether a run with this --data and --seed can use the data set. ready: NULL for none.
bool ready_data_serves(const ReadyData *ready, const char *data, uint64_t seed);

// Does nothing if it is zeroed or freed already.
void ready_data_free(ReadyData *ready);

#endif
