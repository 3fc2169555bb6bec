// The sum of gradients over shards, along one fixed binary tree, so that its bits depend on the shards alone and not on
// who computes which part of it.
//
// Floating-point addition is not associative: the order decides the bits. Here it is a tree over the shards 0 to S - 1:
// a block of shards splits at the largest power of two below its length, down to single shards. Workers sum slices of
// the parameters, each along the same tree. Nodes own runs of shards: a run is a few whole blocks of the tree (one,
// when shards and nodes are powers of two; at most 2 log2 S). A node sends the sums of its blocks, and what is added
// above them is added in the same order everywhere. So a step over any number of workers and nodes gives the same bits,
// and each node sends one gradient or a few, however many workers it has. (64-bit fixed point, as fedavg has it for
// whole updates, would do so too, for twice the bytes in every step.)
//
//   leaf (share_s * gradient_s) -> block of a node -> root: the mean gradient, as the shares sum to 1
#ifndef SOUNDER_FEDAVG_RULES_SUM_SHARD_SUM_H
#define SOUNDER_FEDAVG_RULES_SUM_SHARD_SUM_H

#include <stddef.h>
#include <stdint.h>

#include "base/host_device.h"
#include "nn/spec.h"
#include <stdbool.h>

// Samples of a shard of `count` in batch `number` of `size`: full batches, one remainder, then none.
BOTH uint32_t shard_batch_samples(uint32_t count, uint32_t number, uint32_t size) {
    uint64_t first = (uint64_t)number * size;
    if (first >= count) return 0;
    uint32_t left = count - (uint32_t)first;
    return left < size ? left : size;
}

enum { SHARD_MAX_SUMS = 64, SHARD_SUM_BLOCK = 1024 };

typedef struct ShardRange {
    uint32_t first, end;
} ShardRange;

// Something that has been summed already, or a single shard's gradient.
typedef struct ShardLeaf {
    ShardRange range;    // a block of the tree
    const float *values; // (parameters)
    float share;         // factor; 0: values are not read
} ShardLeaf;

// The blocks of the tree over `shards` shards that make up `own`, in order. Returns how many, at most SHARD_MAX_SUMS.
uint32_t shard_sums(ShardRange *sums, uint32_t shards, ShardRange own);

// out (count) = the sum over the block `root` of the elements first to first + count - 1, from the leaves that make it
// up, in order. count <= SHARD_SUM_BLOCK.
void shard_sum(float *out, const ShardLeaf *leaves, ShardRange root, size_t first, size_t count);

// Buckets: runs of parameters whose gradients are summed together, while those of earlier layers are still computed.
//
// The way back through a net completes gradients from the last layer to the first, so bucket 0 begins at the end of the
// parameter array. As in PyTorch's DistributedDataParallel (Li et al. 2020) the first bucket closes at 1 MiB, so that
// summing starts early, the others at 25 MiB. A bucket holds whole layers.

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
