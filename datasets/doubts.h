// Doubts about a data set that can be read, but was perhaps meant otherwise: training would not tell.
//
//   dataset_warn_of_doubts(&data, &source);   // or, to have the sentences:
//   dataset_find_doubts(&doubts, &data, &source);
//
// Only sets from files are looked at, their labels all, of their samples a part.
#ifndef SOUNDER_DATASETS_DOUBTS_H
#define SOUNDER_DATASETS_DOUBTS_H

#include "datasets/dataset.h"

enum { DATASET_MOST_DOUBTS = 3, DATASET_DOUBT_BYTES = DATASET_NAME_BYTES + 256 };

typedef struct DatasetDoubts {
    int count;
    char sentences[DATASET_MOST_DOUBTS][DATASET_DOUBT_BYTES]; // each names the data set and a remedy
} DatasetDoubts;

// data: with its samples, those in files included.
void dataset_find_doubts(DatasetDoubts *doubts, const Dataset *data, const DatasetSource *source);

// A warning in the log of each.
void dataset_warn_of_doubts(const Dataset *data, const DatasetSource *source);

#endif
