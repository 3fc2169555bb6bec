// The order in which samples are used: a client's epoch, and a rank's part of an epoch of all samples.
//
// A rank's part of an epoch: the arithmetic of PyTorch's DistributedSampler, and the contiguous split.
//
//   DistributedSampler sampler = {.samples = 60000, .ranks = 4, .rank = rank, .shuffle = true, .seed = 1};
//   TRY(distributed_sampler_check(&sampler, err));
//   indices: room for distributed_sampler_count(&sampler), order: workspace for sampler.samples
//   for each epoch: distributed_sampler_draw(indices, order, &sampler, epoch);
//
// Every rank computes the same order of all samples and takes every ranks-th of it, so the ranks need not communicate.
// All ranks take m samples: m = ceil(n / R), where the order is padded from its own head (some samples occur twice), or
// with drop_last m = floor(n / R), where the tail of the order is omitted in this epoch. A rank takes order[rank],
// order[rank + R], ..., m of them.
//
// Source: torch.utils.data.distributed.DistributedSampler. PyTorch writes floor(n / R) as ceil((n - R) / R) for n not
// divisible by R; the two are equal. Without shuffle the indices are PyTorch's; with it the order comes from Sounder's
// own generator, keyed by seed and epoch. (PyTorch seeds with their sum, so that epoch 1 of seed 0 is epoch 0 of seed
// 1.)
#ifndef SOUNDER_DATASETS_ORDER_H
#define SOUNDER_DATASETS_ORDER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

typedef struct DistributedSampler {
    uint32_t samples; // n: the length of the data set
    uint32_t ranks;   // R, >= 1
    uint32_t rank;    // below ranks
    bool shuffle;     // a new order for each epoch; false: the data set's order
    bool drop_last;   // omit the last n mod R samples of the order instead of padding it
    uint64_t seed;    // of the orders; the same on all ranks
} DistributedSampler;

// Fails with USAGE if the rank is not below ranks, or if padding (n is no multiple of R, no drop_last) gives more than
// 32 bits can count: ceil(n / R) * R must be below 2^32.
Status distributed_sampler_check(const DistributedSampler *sampler, Error *err);

// Returns m, the number of samples that every rank takes in every epoch.
uint32_t distributed_sampler_count(const DistributedSampler *sampler);

// Writes the rank's indices (m) of this epoch. order (samples): workspace, which contains the epoch's order afterwards.
void distributed_sampler_draw(uint32_t *indices, uint32_t *order, const DistributedSampler *sampler, uint32_t epoch);

// The contiguous split: `rank` takes the *count samples from *first on; each rank takes floor(n / R), the last rank
// also the remainder. rank < ranks.
void contiguous_split(uint32_t *first, uint32_t *count, uint32_t samples, uint32_t ranks, uint32_t rank);

// The order in which a client uses its samples in one local epoch.

// Copies indices (count) to the caller's order (count, not overlapping) and shuffles them. The order depends only on
// the arguments seed, round, client, epoch and count, not on the worker or the time. Batch b of size s is order[b * s]
// to order[min((b + 1) * s, count) - 1].
void batch_order(uint32_t *order, const uint32_t *indices, uint32_t count, uint64_t seed, uint32_t round,
                 uint32_t client, uint32_t epoch);

#endif
