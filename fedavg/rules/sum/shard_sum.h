// The sum of gradients over shards, along one fixed binary tree. Its bits depend on the shards alone, not on which
// worker computes which part of it.
//
// Floating-point addition is not associative: the order decides the bits. Here the order is a tree over the shards 0 to
// S - 1: a block of shards splits at the largest power of two below its length, down to single shards. Workers sum
// slices of the parameters, each along the same tree. Nodes own runs of shards; a run is a few whole blocks of the tree
// (one, if shards and nodes are powers of two; at most 2 log2 S). A node sends the sums of its blocks, and all nodes
// add them in the order of the tree. So a step over any number of workers and nodes gives the same bits, and each node
// sends one gradient or a few, independent of its number of workers. (64-bit fixed point, which fedavg uses for whole
// updates, would work as well, for twice the bytes in every step.)
//
//   leaf (share_s * gradient_s) -> block of a node -> root: the mean gradient, as the shares sum to 1
#ifndef SOUNDER_FEDAVG_RULES_SUM_SHARD_SUM_H
#define SOUNDER_FEDAVG_RULES_SUM_SHARD_SUM_H

#include <stddef.h>
#include <stdint.h>

#include "base/host_device.h"
#include "nn/spec.h"

// The number of samples of a shard of `count` in batch `number` of `size`: full batches, one remainder, then none.
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

// A block of the tree that is already summed, or a single shard's gradient.
typedef struct ShardLeaf {
    ShardRange range;    // a block of the tree
    const float *values; // (parameters)
    float share;         // factor; 0: values are not read
} ShardLeaf;

// Splits `own` into blocks of the tree over `shards` shards, in order. Returns their number, at most SHARD_MAX_SUMS.
uint32_t shard_sums(ShardRange *sums, uint32_t shards, ShardRange own);

// out (count) = elements first to first + count - 1 of the sum over the block `root`. The leaves, in order, must make
// up that block. count <= SHARD_SUM_BLOCK.
void shard_sum(float *out, const ShardLeaf *leaves, ShardRange root, size_t first, size_t count);

// Buckets: runs of parameters whose gradients are summed together, while gradients of earlier layers are still
// computed.
//
// The backward pass completes gradients from the last layer to the first, so bucket 0 begins at the end of the
// parameter array. As in PyTorch's DistributedDataParallel (Li et al. 2020), the first bucket closes at 1 MiB, so that
// summing starts early, the others at 25 MiB. A bucket holds whole layers.

enum { MAX_BUCKETS = 32 };

typedef struct Buckets {
    uint32_t count;
    size_t first[MAX_BUCKETS], end[MAX_BUCKETS]; // parameters; end of bucket b + 1 == first of bucket b
} Buckets;

// Layers without parameters belong to no bucket. At most MAX_BUCKETS are made; the last one takes what is left.
void buckets_cut(Buckets *buckets, const Spec *spec);

// The elements of a bucket that the member at `position` of `members` sums. Slices begin on cache lines (except at the
// bucket's own ends), so that no two members write the same line at the same time. May be empty.
typedef struct Slice {
    size_t first, end;
} Slice;
Slice bucket_slice(const Buckets *buckets, uint32_t bucket, uint32_t position, uint32_t members);

#endif
