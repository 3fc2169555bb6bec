#include "shard_sum.h"

// Where a block of more than one shard splits.
static uint32_t middle(ShardRange block) {
    uint32_t half = 1;
    while (half * 2 < block.end - block.first)
        half *= 2;
    return block.first + half;
}

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

static void scale(float *restrict out, const ShardLeaf *leaf, size_t first, size_t count) {
    const float *values = leaf->values + first;
    for (size_t i = 0; i < count; i++)
        out[i] = leaf->share == 0 ? 0 : leaf->share * values[i];
}

static void add(float *restrict out, const float *restrict more, size_t count) {
    for (size_t i = 0; i < count; i++)
        out[i] += more[i];
}

// Returns the leaf behind those of the block.
static const ShardLeaf *sum_block(float *out, const ShardLeaf *leaf, ShardRange block, size_t first, size_t count) {
    if (leaf->range.first == block.first && leaf->range.end == block.end) {
        scale(out, leaf, first, count);
        return leaf + 1;
    }
    uint32_t split = middle(block);
    float right[SHARD_SUM_BLOCK];
    leaf = sum_block(out, leaf, (ShardRange){block.first, split}, first, count);
    leaf = sum_block(right, leaf, (ShardRange){split, block.end}, first, count);
    add(out, right, count);
    return leaf;
}

void shard_sum(float *out, const ShardLeaf *leaves, ShardRange root, size_t first, size_t count) {
    sum_block(out, leaves, root, first, count);
}
