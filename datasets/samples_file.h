// Samples that are used where they lie: a file of the user's, mapped read-only, whose pages all processes share. For
// arrays that are stored as they enter a net (see DatasetSamples); everything else is read into the data set's block.
//
//   parent:  TRY(samples_file_open(&file, &source, DATASET_TRAIN, err)); // after dataset_read, which has verified it
//            ... file.samples; workers inherit file.fd ...
//            TRY(samples_file_check(&file, err));                           // now and then
//   worker:  TRY(samples_file_map(&file, fd, begin, bytes, err));
//   both:    samples_file_free(&file);
//
// The file stays the user's, who may write to it or cut it off while a run has it mapped. Touching what was cut off
// would be a SIGBUS: a handler puts zeros in the place of the whole mapping, so that everybody goes on, and
// samples_file_check tells.
#ifndef SOUNDER_DATASETS_SAMPLES_FILE_H
#define SOUNDER_DATASETS_SAMPLES_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "datasets/dataset.h"

typedef struct SamplesFile {
    int fd; // owned; read-only, close-on-exec; -1: the samples lie in the block
    void *mapping;
    size_t mapping_bytes;
    const uint8_t *samples; // in the mapping, at any byte
    DatasetFileState state; // as dataset_find saw the file
    char said[DATASET_PATH_BYTES];
} SamplesFile;

// What a split has whose samples lie in the block.
static const SamplesFile NO_SAMPLES_FILE = {.fd = -1};

// What is to be compared later, of an open file.
Status samples_file_state(DatasetFileState *state, int fd, const char *path, Error *err);

// DATA when the file is no longer what dataset_find saw. Leaves nothing to free on failure.
Status samples_file_open(SamplesFile *file, const DatasetSource *source, DatasetSplitKind split, Error *err);

// DATA when a checksum is wrong, a number is not finite, or the file changed before all of it was seen.
Status samples_file_verify(const SamplesFile *file, const DatasetSource *source, DatasetSplitKind split, Error *err);

// Takes an inherited descriptor over, also on failure. `begin`: of the samples in the file.
Status samples_file_map(SamplesFile *file, int fd, uint64_t begin, size_t bytes, Error *err);

// DATA when somebody has written to the file since it was opened, or has cut it off. OK for NO_SAMPLES_FILE.
Status samples_file_check(const SamplesFile *file, Error *err);

// Does nothing for NO_SAMPLES_FILE or one that was freed.
void samples_file_free(SamplesFile *file);

#endif
