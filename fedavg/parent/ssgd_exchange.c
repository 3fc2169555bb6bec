#include "ssgd_exchange.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"

// The states of a bucket: IDLE, until this node's workers have summed it; SUMS, while sums travel to the node of each
// slice; MEAN, while the means travel back to all nodes; then IDLE with the next bucket. FAILED ends the round on this
// node, and exchange_begin starts the next attempt.
//
// Every node starts its collectives in one order, bucket by bucket, since MPI matches them by their order. So a node
// that gives up must not leave one out: it sends its flag in place of the next sums, and all nodes stop after that
// collective.

// A message begins with one float: this, or 0 when all is well.
static const float round_failed = 1;

static uint32_t current_bucket(const Exchange *exchange) {
    return (uint32_t)(exchange->done % exchange->buckets.count);
}

// A bucket with fewer cache lines than there are nodes has empty slices.
static size_t slice_floats(const Exchange *exchange, uint32_t bucket, uint32_t node) {
    Slice slice = bucket_slice(&exchange->buckets, bucket, node, exchange->nodes->size);
    return slice.first < slice.end ? slice.end - slice.first : 0;
}

// Life ----------------------------------------------------------------------------------------------------------------

// All sizes are known before the first step, so that no buffer grows while the workers wait.
static size_t largest_slice(const Exchange *exchange) {
    size_t most = 0;
    for (uint32_t bucket = 0; bucket < exchange->buckets.count; bucket++)
        for (uint32_t node = 0; node < exchange->nodes->size; node++) {
            size_t floats = slice_floats(exchange, bucket, node);
            if (floats > most) most = floats;
        }
    return most;
}

// The sums that a node sends follow from its shards alone, so that every node knows the contents of all messages
// without asking.
static void list_sums(Exchange *exchange) {
    for (uint32_t node = 0; node < exchange->nodes->size; node++) {
        ShardRange sums[SHARD_MAX_SUMS];
        const RunConfig *config = exchange->memory->config;
        exchange->sum_counts[node] = shard_sums(sums, config->clients, ssgd_node_shards(config, node));
        for (uint32_t sum = 0; sum < exchange->sum_counts[node]; sum++)
            exchange->leaves[exchange->sum_count++] = (ShardLeaf){.range = sums[sum], .share = 1};
    }
}

// Buffers are sized for the largest slice of any bucket and used by all buckets in turn: one bucket at a time is under
// way.
Status exchange_init(Exchange *exchange, const RunMemory *memory, Nodes *nodes, Error *err) {
    *exchange = (Exchange){.nodes = nodes, .memory = memory};
    size_t size = nodes->size;
    buckets_cut(&exchange->buckets, &memory->config->spec);
    Owned *owned = &exchange->owned;
    exchange->sum_counts = own(owned, size, sizeof *exchange->sum_counts);
    exchange->leaves = own(owned, size * SHARD_MAX_SUMS, sizeof *exchange->leaves);
    exchange->sent_bytes = own(owned, size, sizeof *exchange->sent_bytes);
    exchange->received_bytes = own(owned, size, sizeof *exchange->received_bytes);
    exchange->mean_bytes = own(owned, size, sizeof *exchange->mean_bytes);
    if (!owned->lacks_memory) {
        list_sums(exchange);
        size_t slice = largest_slice(exchange), own_sums = exchange->sum_counts[nodes->rank];
        exchange->sent = own(owned, size * (1 + own_sums * slice), sizeof(float));
        exchange->received = own(owned, size + exchange->sum_count * slice, sizeof(float));
        exchange->mean = own(owned, 1 + slice, sizeof(float));
    }
    if (!owned->lacks_memory) return STATUS_OK;
    exchange_free(exchange);
    return fail(err, STATUS_OS, "no memory to exchange %llu gradients with %u nodes",
                (unsigned long long)memory->config->parameters, nodes->size);
}

void exchange_free(Exchange *exchange) {
    owned_free(&exchange->owned);
    *exchange = (Exchange){0};
}

// Also for a round that starts over: the messages of the failed attempt have all been received by then
// (exchange_finish), so that no old sums can be taken for new ones.
void exchange_begin(Exchange *exchange, uint32_t round, uint32_t steps) {
    exchange->state = EXCHANGE_IDLE;
    exchange->done = 0;
    exchange->total = (uint64_t)steps * exchange->buckets.count;
    exchange->round = round;
    exchange->exchange_nanoseconds = exchange->hidden_nanoseconds = 0;
}

// One bucket ----------------------------------------------------------------------------------------------------------

// Sends every node the flag, then its slice of each of this node's sums. The flag travels with the sums because nodes
// begin collectives in one order only: a node that failed cannot send anything else.
static Status begin_sums(Exchange *exchange, float flag, Error *err) {
    Nodes *nodes = exchange->nodes;
    uint32_t bucket = current_bucket(exchange), own_sums = exchange->sum_counts[nodes->rank];
    size_t own_floats = slice_floats(exchange, bucket, nodes->rank);
    float *next = exchange->sent;
    for (uint32_t node = 0; node < nodes->size; node++) {
        Slice slice = bucket_slice(&exchange->buckets, bucket, node, nodes->size);
        size_t floats = slice_floats(exchange, bucket, node);
        exchange->sent_bytes[node] = (1 + own_sums * floats) * sizeof(float);
        exchange->received_bytes[node] = (1 + exchange->sum_counts[node] * own_floats) * sizeof(float);
        *next++ = flag;
        for (uint32_t sum = 0; sum < own_sums; sum++, next += floats)
            memcpy(next, ssgd_node_sum(exchange->memory, sum) + slice.first, floats * sizeof(float));
    }
    exchange->started_nanoseconds = clock_nanoseconds();
    exchange->state = EXCHANGE_SUMS;
    return nodes->transport->begin_exchange(nodes->connection, exchange->received, exchange->sent,
                                            exchange->received_bytes, exchange->sent_bytes, err);
}

// Returns whether all nodes sent sums; their leaves then point at them. The leaves are in the order of the shards, so
// that the tree adds them as one node would.
static bool read_sums(Exchange *exchange) {
    const float *next = exchange->received;
    ShardLeaf *leaf = exchange->leaves;
    size_t floats = slice_floats(exchange, current_bucket(exchange), exchange->nodes->rank);
    bool all_well = true;
    for (uint32_t node = 0; node < exchange->nodes->size; node++) {
        all_well &= *next++ != round_failed;
        for (uint32_t sum = 0; sum < exchange->sum_counts[node]; sum++, leaf++, next += floats)
            leaf->values = next;
    }
    return all_well;
}

// Adds this node's slice of all nodes' sums along the tree that a single node would use, so that the bits are those of
// one node, and sends it to all. The result is gathered straight into the vector that the workers read.
static Status begin_mean(Exchange *exchange, Error *err) {
    Nodes *nodes = exchange->nodes;
    uint32_t bucket = current_bucket(exchange);
    size_t floats = slice_floats(exchange, bucket, nodes->rank);
    for (size_t first = 0; first < floats; first += SHARD_SUM_BLOCK) {
        size_t count = floats - first < SHARD_SUM_BLOCK ? floats - first : SHARD_SUM_BLOCK;
        shard_sum(exchange->mean + first, exchange->leaves, (ShardRange){0, exchange->memory->config->clients}, first,
                  count);
    }
    for (uint32_t node = 0; node < nodes->size; node++)
        exchange->mean_bytes[node] = slice_floats(exchange, bucket, node) * sizeof(float);
    exchange->state = EXCHANGE_MEAN;
    return nodes->transport->begin_gather(nodes->connection,
                                          ssgd_mean(exchange->memory) + exchange->buckets.first[bucket], exchange->mean,
                                          exchange->mean_bytes, err);
}

// A bucket's time under way is hidden as far as this node still computed gradients: until its last one.
static void count_time(Exchange *exchange) {
    const Control *control = exchange->memory->control;
    uint64_t last = 0;
    for (uint32_t member = 0; member < control->order.members; member++) {
        const GradientPulse *pulse = &control->gradients.members[member];
        uint64_t finished = atomic_load_explicit(&pulse->finished_nanoseconds, memory_order_relaxed);
        if (finished > last) last = finished;
    }
    for (uint32_t bucket = 0; bucket < exchange->buckets.count; bucket++) {
        uint64_t begin = exchange->step_started[bucket], end = exchange->step_ended[bucket];
        exchange->exchange_nanoseconds += end - begin;
        if (begin < last) exchange->hidden_nanoseconds += (end < last ? end : last) - begin;
    }
}

// The last bucket of a step releases the workers, which wait at the exchange barrier for the whole mean. Times are
// collected until then, because only now is known when the last gradient was done.
static void end_bucket(Exchange *exchange) {
    uint32_t bucket = current_bucket(exchange);
    exchange->step_started[bucket] = exchange->started_nanoseconds;
    exchange->step_ended[bucket] = clock_nanoseconds();
    trace_end(run_memory_trace(exchange->memory, exchange->memory->config->workers), TRACE_EXCHANGE,
              exchange->started_nanoseconds, exchange->round, bucket);
    exchange->done++;
    exchange->state = EXCHANGE_IDLE;
    if (bucket + 1 < exchange->buckets.count) return;
    count_time(exchange);
    barrier_arrive(&exchange->memory->control->exchange, exchange->memory->control->order.members);
}

// The message under way has arrived: sums become a mean, which is sent on; a mean ends the bucket.
static Status take_in(Exchange *exchange, Error *err) {
    if (exchange->state == EXCHANGE_MEAN) {
        end_bucket(exchange);
        return STATUS_OK;
    }
    if (read_sums(exchange)) return begin_mean(exchange, err);
    // Another node's flag says that one of its workers has died. This node's workers are well, but wait for a mean that
    // never arrives: their barriers are cancelled, and they return to the phase's barrier.
    exchange->state = EXCHANGE_FAILED;
    barrier_cancel(&exchange->memory->control->step);
    barrier_cancel(&exchange->memory->control->exchange);
    return STATUS_OK;
}

// At most one collective is under way: the transport allows no more, and a bucket needs its sums before its mean.
static bool is_under_way(const Exchange *exchange) {
    return exchange->state == EXCHANGE_SUMS || exchange->state == EXCHANGE_MEAN;
}

// Whether the workers of this node have summed the bucket that is next.
static bool is_summed(const Exchange *exchange) {
    const Control *control = exchange->memory->control;
    uint64_t step = exchange->done / exchange->buckets.count;
    // Acquire, pairs with the addition in take_slice: the sums of a slice that is counted are complete.
    return exchange->done < exchange->total &&
           atomic_load_explicit(&control->gradients.summed[current_bucket(exchange)], memory_order_acquire) ==
               (step + 1) * control->order.members;
}

// Whole rounds --------------------------------------------------------------------------------------------------------

// The parent exchanges while its workers compute: it waits for no message here, but tests the message under way and
// starts the next one as soon as the workers have summed a bucket. The supervisor looks for deaths between two calls.
Status exchange_serve(Exchange *exchange, bool *busy, Error *err) {
    for (;;) {
        if (exchange->state == EXCHANGE_IDLE && is_summed(exchange)) TRY(begin_sums(exchange, 0, err));
        *busy = is_under_way(exchange);
        if (!*busy) return STATUS_OK;
        bool done;
        TRY(nodes_test(exchange->nodes, &done, err));
        if (!done) break;
        TRY(take_in(exchange, err));
    }
    // The workers may need the core: with fewer cores than processes this one sleeps between two looks.
    if (exchange->memory->control->phase.spins == 0) nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
    return STATUS_OK;
}

// A node on which a worker died still owes the others an answer: they wait for its sums. It sends the flag in their
// place, so that all nodes give the round up together.
Status exchange_finish(Exchange *exchange, Error *err) {
    while (is_under_way(exchange)) {
        TRY(nodes_wait(exchange->nodes, err));
        TRY(take_in(exchange, err));
    }
    if (exchange->state == EXCHANGE_FAILED || exchange->done == exchange->total) return STATUS_OK;
    TRY(begin_sums(exchange, round_failed, err));
    exchange->state = EXCHANGE_FAILED;
    return nodes_wait(exchange->nodes, err);
}
