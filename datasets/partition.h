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
    PARTITION_DIRICHLET,  // class proportions per client from Dirichlet(alpha), see below
    PARTITION_SHARDS,     // sorted by label, cut into clients * shards_per_client shards, dealt at random (McMahan et
                          // al. 2017); where samples do not divide evenly, shards differ by one sample, none is lost
    PARTITION_WHOLE,      // every client has all samples (Hogwild on the full data); one index list serves all
} PartitionKind;

// Dirichlet, as Flower's DirichletPartitioner: class after class, the samples of a class are split among the clients by
// proportions from Dirichlet(alpha); a client that has more than samples / clients already gets no more
// (self-balancing), and a client's samples are shuffled in the end. The whole is redrawn, up to 10 times, until every
// client has the minimum of min(10, samples / clients / 2), but at least 1, samples.
// Flower gives up after the tenth draw. With many clients and a small alpha, however, no draw ever meets any minimum:
// of 1,000 clients on 60,000 samples at alpha 0.1, each draw leaves 4 to 14 with nothing and over 100 below 10. So here
// the tenth draw is kept, and each client that is short takes what it lacks from the largest client, of the class that
// has most samples there. Everything else is as it was drawn.
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

// Bytes that partition_build needs.
size_t partition_block_bytes(const PartitionSpec *spec, uint32_t samples);

// Fills block (partition_block_bytes, 8-byte aligned, of the caller's). labels (samples), each below classes. Every
// sample goes to exactly one client, except for whole. USAGE when the partition is impossible (more clients than
// samples, for example), with the numbers.
Status partition_build(void *block, const PartitionSpec *spec, const uint8_t *labels, uint32_t samples, int classes,
                       Error *err);

// Checks the block against `bytes` and gives pointers into it.
Status partition_view(Partition *partition, const void *block, size_t bytes, Error *err);

// The samples of one client: returns a pointer to *count indices.
const uint32_t *partition_client(const Partition *partition, uint32_t client, uint32_t *count);

#endif
