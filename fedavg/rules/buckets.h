// Buckets: runs of parameters whose gradients are summed together, while those of earlier layers are still computed.
//
// The way back through a net completes gradients from the last layer to the first, so bucket 0 begins at the end of the
// parameter array. As in PyTorch's DistributedDataParallel (Li et al. 2020) the first bucket closes at 1 MiB, so that
// summing starts early, the others at 25 MiB. A bucket holds whole layers.
#ifndef SOUNDER_FEDAVG_RULES_BUCKETS_H
#define SOUNDER_FEDAVG_RULES_BUCKETS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "nn/spec.h"

enum { MAX_BUCKETS = 32 };

typedef struct Buckets {
    uint32_t count;
    size_t first[MAX_BUCKETS], end[MAX_BUCKETS]; // parameters; end of bucket b + 1 == first of bucket b
} Buckets;

void buckets_cut(Buckets *buckets, const Spec *spec);

// The elements of a bucket that the member at `position` of `members` sums: they begin on cache lines (but for the
// bucket's own ends), so that no two write the same one at the same time. May be empty.
typedef struct Slice {
    size_t first, end;
} Slice;
Slice bucket_slice(const Buckets *buckets, uint32_t bucket, uint32_t position, uint32_t members);

#endif
