// Which samples belong to which client. Names and semantics follow Flower Datasets' partitioners.
//
// A partition is one relocatable block: header, offsets (clients + 1), sample indices; a client's samples are
// indices[offsets[c]] to indices[offsets[c + 1] - 1]. The view borrows the block.
#ifndef SOUNDER_DATASETS_PARTITION_H
#define SOUNDER_DATASETS_PARTITION_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

typedef enum PartitionKind {
    PARTITION_CONTIGUOUS, // equal runs of the file's order; the last client takes the remainder
    PARTITION_IID,        // a random permutation, then equal runs (sizes differ by at most one)
    PARTITION_DIRICHLET,  // class proportions per client from Dirichlet(alpha); self-balancing; redrawn until every
                          // client has min(10, samples / clients / 2, at least 1) samples; an error after 10 tries
    PARTITION_SHARDS,     // sorted by label, cut into clients * shards_per_client equal shards, dealt at random
    PARTITION_WHOLE,      // every client has all samples (Hogwild on the full data); one index list serves all
} PartitionKind;

typedef struct PartitionSpec {
    PartitionKind kind;
    uint32_t clients;
    double alpha;               // dirichlet, > 0
    uint32_t shards_per_client; // shards, >= 1
    uint64_t seed;
} PartitionSpec;

typedef struct Partition {
    uint32_t clients;
    const uint32_t *indices; // (samples)
    const uint32_t *offsets; // (clients + 1); whole: NULL
    uint32_t samples;        // length of indices
} Partition;

size_t partition_block_bytes(const PartitionSpec *spec, uint32_t samples);

// Fills block (partition_block_bytes, of the caller's). labels (samples). USAGE when the partition is impossible
// (more clients than samples, for example), with the numbers.
Status partition_build(void *block, const PartitionSpec *spec, const uint8_t *labels, uint32_t samples, int classes,
                       Error *err);

Status partition_view(Partition *partition, const void *block, size_t bytes, Error *err);

// The samples of one client: returns a pointer to *count indices.
const uint32_t *partition_client(const Partition *partition, uint32_t client, uint32_t *count);

#endif
