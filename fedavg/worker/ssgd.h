// Synchronous SGD: every step averages the gradients of all shards and updates one shared weight array.
//
// The data is cut into `clients` shards; a shard's gradient goes into its own slot. A step:
//   every worker   gradients of its shards' next batches -> their slots, bucket by bucket from the last layer back
//   as soon as everybody's gradients of a bucket are complete
//   every worker   sums its slice of that bucket over all shards, and steps its slice of velocity and weights: nobody
//                  reads those weights again in this step
//   barrier
// A worker that comes to the end of its gradients before the others sums what is complete meanwhile, its own slices and
// then anybody's. That time is hidden behind the others' work; what comes after the last gradient is exposed. Reduce-
// scatter and all-gather are nothing but who reads and writes what. Sums run over shards, along a fixed tree
// (shard_sum.h): the model's bits depend on the number of shards, not on that of workers or machines.
//
// On several machines the slices are sums over this node's shards; the parents exchange them (parent/ssgd_exchange.h)
// while earlier layers' gradients are still computed, and the workers step when the mean is back.
//
// With one global batch (PyTorch's DataParallel) the shards are parts of each batch of all samples: the model is that
// of one worker with the whole batch, to rounding.
//
// When a worker dies the supervisor cancels the step's barriers, everybody returns, and the parent restores the weights
// of the round's start and has the survivors (or a replacement) do the round again, to the same bits.
#ifndef SOUNDER_FEDAVG_WORKER_SSGD_H
#define SOUNDER_FEDAVG_WORKER_SSGD_H

#include "fedavg/memory/run_memory.h"
#include "fedavg/rules/sum/shard_sum.h"
#include "fedavg/worker/local_model.h"

// Trains one round as the worker at order.position[rank] of order.members. Jobs of the queue are this node's shards in
// order; a worker fills in and finishes those of its own. CANCELLED when a barrier was.
Status ssgd_train(LocalModel *model, uint32_t round, pid_t parent);

// Synchronous SGD, who has what: the shards of each node, the vectors of the slots segment, and which samples of a
// shard belong to which step. Parent and workers, on the CPU and on the GPU, read it here.

// The vectors, in this order: the velocity, common to all; the gradient of each shard of this node; on several nodes
// the mean gradient, and the sums that this node sends (parent/ssgd_exchange.h).
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

// A shard's part of batch `number` of an epoch: full batches, one remainder, then none.
ShardPart ssgd_shard_part(const RunMemory *memory, uint32_t shard, uint32_t number);

// Samples of all shards in batch `number`.
uint32_t ssgd_step_samples(const RunMemory *memory, uint32_t number);

// Finishes the jobs of the shards of this rank, which began with the round.
void ssgd_finish(const RunMemory *memory, uint32_t rank, uint64_t start_nanoseconds);

#endif
