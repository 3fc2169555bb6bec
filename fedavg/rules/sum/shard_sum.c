#include "shard_sum.h"

#include <assert.h>

#include "fedavg/rules/sum/shard_sum.h"

// The shard at which a block of more than one shard splits. The left half is a full tree. So a node with 2^k shards,
// aligned, owns one whole block, and one more shard at the end changes no sum on its left.
static uint32_t middle(ShardRange block) {
    uint32_t half = 1;
    assert(block.end - block.first >= 2);
    while (half * 2 < block.end - block.first)
        half *= 2;
    return block.first + half;
}

// Descends from the root: a block within `own` is taken whole, one that overlaps it partly is split.
static ShardRange *add_sums(ShardRange *next, ShardRange block, ShardRange own) {
    if (block.first >= own.end || block.end <= own.first) return next;
    if (block.first >= own.first && block.end <= own.end) {
        *next = block;
        return next + 1;
    }
    uint32_t split = middle(block);
    next = add_sums(next, (ShardRange){block.first, split}, own);
    return add_sums(next, (ShardRange){split, block.end}, own);
}

uint32_t shard_sums(ShardRange *sums, uint32_t shards, ShardRange own) {
    return (uint32_t)(add_sums(sums, (ShardRange){0, shards}, own) - sums);
}

// A shard without samples in this step has share 0. Its slot may still hold an old gradient, even one that is not
// finite, so that its values are not multiplied.
static void scale(float *restrict out, const ShardLeaf *leaf, size_t first, size_t count) {
    const float *values = leaf->values + first;
    for (size_t i = 0; i < count; i++)
        out[i] = leaf->share == 0 ? 0 : leaf->share * values[i];
}

static void add(float *restrict out, const float *restrict more, size_t count) {
    for (size_t i = 0; i < count; i++)
        out[i] += more[i];
}

// Sums a block recursively, left half before right half; returns the leaf after the block's last one. The left sum is
// made in the caller's block; only right halves need room, one block for each level of the tree.
static const ShardLeaf *sum_block(float *out, const ShardLeaf *leaf, ShardRange block, size_t first, size_t count) {
    if (leaf->range.first == block.first && leaf->range.end == block.end) {
        scale(out, leaf, first, count);
        return leaf + 1;
    }
    uint32_t split = middle(block);
    float right[SHARD_SUM_BLOCK];
    assert(leaf->range.first == block.first && leaf->range.end <= block.end); // leaves make up the block, in order
    leaf = sum_block(out, leaf, (ShardRange){block.first, split}, first, count);
    leaf = sum_block(right, leaf, (ShardRange){split, block.end}, first, count);
    add(out, right, count);
    return leaf;
}

void shard_sum(float *out, const ShardLeaf *leaves, ShardRange root, size_t first, size_t count) {
    assert(count <= SHARD_SUM_BLOCK && root.first < root.end && leaves->range.first == root.first);
    sum_block(out, leaves, root, first, count);
}

static const size_t first_bucket_bytes = 1u << 20, bucket_bytes = 25u << 20;

// Goes through the layers in the order in which the backward pass completes them. A bucket that has reached its limit
// closes; the last bucket takes all layers that remain. Layers are stored in their order, so that a bucket is one run
// of floats, which ends where the bucket before it begins.
void buckets_cut(Buckets *buckets, const Spec *spec) {
    *buckets = (Buckets){.count = 0};
    size_t end = spec->parameter_count;
    for (int l = spec->layer_count - 1; l >= 0; l--) {
        const Layer *layer = &spec->layers[l];
        if (!layer_has_parameters(layer)) continue;
        size_t limit = buckets->count == 0 ? first_bucket_bytes : bucket_bytes;
        bool is_full = (end - layer->weight) * sizeof(float) >= limit && buckets->count < MAX_BUCKETS - 1;
        if (!is_full && layer->weight > 0) continue;
        buckets->first[buckets->count] = layer->weight;
        buckets->end[buckets->count++] = end;
        assert(layer->weight < end && buckets->count <= MAX_BUCKETS);
        end = layer->weight;
    }
}

// Lines are counted from the start of the whole vector, because only that is aligned. Slices of two members differ by
// one line at most.
Slice bucket_slice(const Buckets *buckets, uint32_t bucket, uint32_t position, uint32_t members) {
    enum { LINE = 16 }; // floats
    size_t first = buckets->first[bucket], end = buckets->end[bucket];
    assert(bucket < buckets->count && position < members && first < end);
    size_t first_line = first / LINE, lines = (end + LINE - 1) / LINE - first_line;
    Slice slice = {(first_line + lines * position / members) * LINE,
                   (first_line + lines * (position + 1) / members) * LINE};
    if (slice.first < first) slice.first = first;
    if (slice.end > end) slice.end = end;
    return slice;
}
