// A data set that is in memory before the run begins: a sweep reads it once and forks its runs, which take it as it is.
// So they neither look for its files nor read or check them, and all of them have one copy.
//
//   sweep:  TRY(ready_data_load(&ready, options.data, options.seed, err));
//           fork; train_with(count, arguments, &ready, &exit_code, &err)         // in the process of the run
//           ready_data_free(&ready);
//   run:    if (ready_data_serves(ready, options.data, options.seed)) ... take source, segment and hash from it
//
// What the process of a run takes, it frees for itself; the sweep's own mapping and descriptors stay.
#ifndef SOUNDER_APP_TRAIN_READY_DATA_H
#define SOUNDER_APP_TRAIN_READY_DATA_H

#include "app/options/options.h"
#include "datasets/dataset.h"
#include "fedavg/memory/dataset_segment.h"

typedef struct ReadyData {
    char name[OPTION_TEXT_BYTES];    // the --data it was asked for by; empty: there is none
    char folder[DATASET_PATH_BYTES]; // the full path that a run makes of it; empty: it has none
    DatasetSource source;
    DatasetSegment segment; // owned
    uint64_t hash;          // run_hash_data of it
} ReadyData;

// As dataset_find and dataset_segment_load, whose copy is kept at once. On failure there is nothing to free, and it
// serves nobody.
Status ready_data_load(ReadyData *ready, const char *data, uint64_t seed, Error *err);

// Whether a run with this --data and --seed has that very data set. ready: NULL for none.
bool ready_data_serves(const ReadyData *ready, const char *data, uint64_t seed);

// Does nothing for one that was freed or is zeroed.
void ready_data_free(ReadyData *ready);

#endif
