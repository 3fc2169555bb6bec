// Part of partition.h: the validation set, training samples that belong to no client. They are drawn before the others
// are assigned: a share of each class, or of all samples with targets; or they are the last training samples, if the
// data set has some for this purpose.
#ifndef SOUNDER_DATASETS_PARTITION_VALIDATION_H
#define SOUNDER_DATASETS_PARTITION_VALIDATION_H

#include "base/owned.h"
#include "datasets/partition.h"

// The samples that remain for the clients, numbered again from 0, for a partitioner to assign.
typedef struct Remaining {
    uint32_t *numbers; // (all samples): of the remaining ones, then of the validation set, each in rising order
    uint16_t *labels;  // (samples); NULL with targets
    uint32_t *owners;  // (samples); NULL: samples have no owners
    uint32_t samples, validation;
    double share;       // the caller's --validation
    PartitionSpec spec; // the caller's with these owners and numbers, and without a validation set
    Owned owned;
} Remaining;

static inline bool has_validation(const PartitionSpec *spec) {
    return spec->validation > 0 || spec->validation_last > 0;
}

// Draws the validation set of `samples` samples with labels below `classes`. USAGE if no sample remains. Nothing to
// free on failure.
Status remaining_init(Remaining *remaining, const PartitionSpec *spec, const uint16_t *labels, uint32_t samples,
                      int classes, Error *err);
void remaining_free(Remaining *remaining);

#endif
