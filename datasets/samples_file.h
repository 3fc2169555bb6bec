// Samples that are used in place: a file of the user's, mapped read-only, whose pages all processes share. For arrays
// that are stored as they enter a net (see DatasetSamples); all other data is read into the data set's block.
//
//   parent:  TRY(samples_file_open(&file, &source, DATASET_TRAIN, err)); // after dataset_read, which has verified it
//            ... file.samples; workers inherit file.fd ...
//            TRY(samples_file_check(&file, err));                           // now and then
//   worker:  TRY(samples_file_map(&file, fd, begin, bytes, err));
//   both:    samples_file_free(&file);
//
// The user may write to the file or truncate it while a run has it mapped. Access beyond the new end would raise
// SIGBUS: a handler then replaces the whole mapping by zeros, so that all processes continue, and samples_file_check
// reports the change.
#ifndef SOUNDER_DATASETS_SAMPLES_FILE_H
#define SOUNDER_DATASETS_SAMPLES_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "datasets/dataset.h"

typedef struct SamplesFile {
    int fd; // owned; read-only, close-on-exec; -1: the samples are in the block
    void *mapping;
    size_t mapping_bytes;
    const uint8_t *samples;        // in the mapping, at any address
    DatasetFileState state;        // of the file when dataset_find saw it
    char said[DATASET_PATH_BYTES]; // name of the samples in sentences
} SamplesFile;

// For a split whose samples are in the block.
static const SamplesFile NO_SAMPLES_FILE = {.fd = -1};

// Reads the state of an open file, for later comparison.
Status samples_file_state(DatasetFileState *state, int fd, const char *path, Error *err);

// Fails with DATA if the file is no longer in the state that dataset_find saw. Leaves nothing to free on failure.
Status samples_file_open(SamplesFile *file, const DatasetSource *source, DatasetSplitKind split, Error *err);

// Fails with DATA if a checksum is wrong, a number is not finite, or the file changed during the check.
Status samples_file_verify(const SamplesFile *file, const DatasetSource *source, DatasetSplitKind split, Error *err);

// Maps an inherited descriptor and takes ownership of it, also on failure. file: NO_SAMPLES_FILE. begin: offset of the
// samples in the file.
Status samples_file_map(SamplesFile *file, int fd, uint64_t begin, size_t bytes, Error *err);

// Fails with DATA if the file was changed or truncated since it was opened. Returns OK for NO_SAMPLES_FILE.
Status samples_file_check(const SamplesFile *file, Error *err);

// Does nothing for NO_SAMPLES_FILE and for a file that was freed.
void samples_file_free(SamplesFile *file);

#endif
