// ssgd on several machines, the parent's part: the mean gradient over all nodes, bucket by bucket.
//
//   exchange_begin(&exchange, round, steps);             // before each attempt at a round
//   ... supervisor_gather calls exchange_serve in every turn ...
//   TRY(exchange_finish(&exchange, err));            // after it, however it went on this node
//
// When the workers have summed a bucket over this node's shards, the parent sends each node its slice of those sums
// (reduce-scatter), adds what comes in above them along the tree of shard_sum.h, and spreads the result (all-gather)
// into the slot of the mean; when that is done for all buckets of a step it arrives at the workers' barrier. While a
// bucket is under way the workers compute the gradients of the next.
//
// A round is all or nothing on all nodes. A node on which a worker died says so in place of its next sums: then
// everywhere the barriers are cancelled and the round starts over.
#ifndef SOUNDER_FEDAVG_PARENT_SSGD_EXCHANGE_H
#define SOUNDER_FEDAVG_PARENT_SSGD_EXCHANGE_H

#include "base/owned.h"
#include "fedavg/memory/run_memory.h"
#include "fedavg/nodes/nodes.h"
#include "fedavg/rules/sum/shard_sum.h"
#include "fedavg/worker/ssgd.h"

typedef enum ExchangeState { EXCHANGE_IDLE, EXCHANGE_SUMS, EXCHANGE_MEAN, EXCHANGE_FAILED } ExchangeState;

// The parent's alone: workers meet it at the exchange barrier, in the counts of GradientSync, and in the vectors of the
// slots.
typedef struct Exchange {
    Nodes *nodes;            // borrowed
    const RunMemory *memory; // borrowed
    Buckets buckets;
    Owned owned;
    uint32_t *sum_counts; // owned (nodes)
    ShardLeaf *leaves;    // owned (sum_count): the sums of all nodes, in the shards' order
    uint32_t sum_count;
    size_t *sent_bytes, *received_bytes, *mean_bytes; // owned (nodes)
    float *sent, *received, *mean;                    // owned: sums for the others; of the others; this node's slice
    ExchangeState state;
    uint64_t done, total; // buckets in this round
    uint32_t round;
    uint64_t started_nanoseconds; // the bucket under way
    uint64_t exchange_nanoseconds,
        hidden_nanoseconds; // since the round began: under way; while gradients were computed
    uint64_t step_started[MAX_BUCKETS], step_ended[MAX_BUCKETS];
} Exchange;

// Nothing to free on failure.
Status exchange_init(Exchange *exchange, const RunMemory *memory, Nodes *nodes, Error *err);
void exchange_begin(Exchange *exchange, uint32_t round, uint32_t steps);
Status exchange_serve(Exchange *exchange, bool *busy, Error *err);
Status exchange_finish(Exchange *exchange, Error *err);
void exchange_free(Exchange *exchange);

#endif
