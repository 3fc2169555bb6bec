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
// On several machines the slices are sums over this node's shards; the parents exchange them (exchange.h) while earlier
// layers' gradients are still computed, and the workers step when the mean is back.
//
// With one global batch (PyTorch's DataParallel) the shards are parts of each batch of all samples: the model is that
// of one worker with the whole batch, to rounding.
//
// When a worker dies the supervisor cancels the step's barriers, everybody returns, and the parent restores the weights
// of the round's start and has the survivors (or a replacement) do the round again, to the same bits.
#ifndef SOUNDER_FEDAVG_WORKER_SSGD_H
#define SOUNDER_FEDAVG_WORKER_SSGD_H

#include "fedavg/worker/client.h"
#include "fedavg/worker/ssgd_shards.h"

// Trains one round as the worker at order.position[rank] of order.members. Jobs of the queue are this node's shards in
// order; a worker fills in and finishes those of its own. CANCELLED when a barrier was.
Status ssgd_train(LocalModel *model, uint32_t round, pid_t parent);

#endif
