// Doubts about a data set that can be read but may have been saved wrongly, which training would not show.
//
//   dataset_warn_of_doubts(&data, &source);   // or, to get the sentences:
//   dataset_find_doubts(&doubts, &data, &source);
//
// Only sets from files are checked: all labels, a part of the samples, and the columns of tables, by their names.
#ifndef SOUNDER_DATASETS_DOUBTS_H
#define SOUNDER_DATASETS_DOUBTS_H

#include "datasets/dataset.h"

enum { DATASET_MOST_DOUBTS = 10, DATASET_DOUBT_BYTES = DATASET_NAME_BYTES + 1024 };

typedef struct DatasetDoubts {
    int count;
    char sentences[DATASET_MOST_DOUBTS][DATASET_DOUBT_BYTES]; // each names the data set and a remedy
} DatasetDoubts;

// data: with the pointers of all samples, also of those in files.
void dataset_find_doubts(DatasetDoubts *doubts, const Dataset *data, const DatasetSource *source);

// Logs each doubt as a warning.
void dataset_warn_of_doubts(const Dataset *data, const DatasetSource *source);

#endif
