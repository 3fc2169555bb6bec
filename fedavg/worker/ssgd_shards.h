// Synchronous SGD, who has what: the shards of each node, the vectors of the slots segment, and which samples of a shard
// belong to which step. Parent and workers, on the CPU and on the card, read it here.
#ifndef SOUNDER_FEDAVG_WORKER_SSGD_SHARDS_H
#define SOUNDER_FEDAVG_WORKER_SSGD_SHARDS_H

#include "fedavg/memory/run_memory.h"
#include "fedavg/rules/shard_sum.h"

// The vectors, in this order: the velocity, common to all; the gradient of each shard of this node; on several nodes the
// mean gradient, and the sums that this node sends (parent/ssgd_exchange.h).
enum { SSGD_VELOCITY, SSGD_FIRST_GRADIENT };
void ssgd_plan(SlotPlan *slots, const RunConfig *config);
float *ssgd_velocity(const RunMemory *memory);
float *ssgd_gradient(const RunMemory *memory, uint32_t shard);
float *ssgd_mean(const RunMemory *memory);
float *ssgd_node_sum(const RunMemory *memory, uint32_t index);

// The shards of a node: a run of clients, so that its sums are few (shard_sum.h).
ShardRange ssgd_node_shards(const RunConfig *config, uint32_t node);

// Steps that a round takes: those of the largest shard.
uint32_t ssgd_round_steps(const RunMemory *memory);

// Samples first to first + count - 1 of an epoch's order.
typedef struct ShardPart {
    uint32_t first, count;
} ShardPart;

// What a shard has of batch `number` of an epoch: full batches, one remainder, then none.
ShardPart ssgd_shard_part(const RunMemory *memory, uint32_t shard, uint32_t number);

// Samples of all shards in batch `number`.
uint32_t ssgd_step_samples(const RunMemory *memory, uint32_t number);

// Finishes the jobs of the shards of this rank, which began with the round.
void ssgd_finish(const RunMemory *memory, uint32_t rank, uint64_t start_nanoseconds);

#endif
