// Synchronous SGD: every step averages the gradients of all shards and updates one shared weight array.
//
// The data is cut into `clients` shards; a shard's gradient goes into its own slot. A step:
//   every worker   gradients of its shards' next batches -> their slots        (slot written by one worker)
//   barrier
//   every worker   sums its slice of all slots in shard order, steps its slice of velocity and weights
//   barrier
// Reduce-scatter and all-gather are nothing but who reads and writes what. Sums run over shards, not over workers, in
// one fixed order: the model's bits depend on the number of shards, not on the number of workers.
//
// When a worker dies the supervisor cancels the step barrier, everybody returns, and the parent restores the weights of
// the round's start and has the survivors (or a replacement) do the round again, to the same bits.
#ifndef SOUNDER_FEDAVG_SSGD_H
#define SOUNDER_FEDAVG_SSGD_H

#include "fedavg/client.h"

// Trains one round as the worker at order.position[rank] of order.members. Jobs of the queue are the shards in order
// (jobs[s].client == s); a worker fills in and finishes those of its own shards. CANCELLED when the step barrier was.
Status ssgd_train(Trainer *trainer, uint32_t round, pid_t parent);

// The parts of it that are the same on the card (cuda_ssgd.c).

// Steps that a round takes: those of the largest shard.
uint32_t ssgd_round_steps(const RunMemory *memory);

// Samples of a shard, and those of all shards, in batch `number` of an epoch.
uint32_t ssgd_shard_samples(const RunMemory *memory, uint32_t shard, uint32_t number);
uint32_t ssgd_step_samples(const RunMemory *memory, uint32_t number);

// Parameters [*first, *end) are summed and stepped by the member at `position`.
void ssgd_slice(size_t *first, size_t *end, const PhaseOrder *order, uint32_t position, size_t parameters);

// Finishes the jobs of the shards at `position`, which began with the round.
void ssgd_finish(const RunMemory *memory, uint32_t rank, uint64_t start_nanoseconds);

#endif
