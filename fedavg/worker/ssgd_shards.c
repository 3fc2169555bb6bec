// Part of ssgd.h: the shards, vectors and samples of each node, worker and step.
#include <assert.h>

#include "ssgd.h"

#include "base/clock.h"

// Consecutive shards per node, as even as whole shards allow: a node then covers whole branches of the tree of sums,
// and sends few of them.
ShardRange ssgd_node_shards(const RunConfig *config, uint32_t node) {
    const uint64_t shards = config->clients, nodes = config->nodes;
    assert(nodes >= 1 && node < nodes);
    return (ShardRange){(uint32_t)(shards * node / nodes), (uint32_t)(shards * (node + 1) / nodes)};
}

static ShardRange own_shards(const RunConfig *config) {
    return ssgd_node_shards(config, config->node);
}

static uint32_t end_of_gradients(const RunConfig *config) {
    ShardRange own = own_shards(config);
    return SSGD_FIRST_GRADIENT + own.end - own.first;
}

void ssgd_plan(SlotPlan *slots, const RunConfig *config) {
    ShardRange sums[SHARD_MAX_SUMS];
    uint32_t exchanged = config->nodes > 1 ? 1 + shard_sums(sums, config->clients, own_shards(config)) : 0;
    slots->vectors = end_of_gradients(config) + exchanged;
}

float *ssgd_velocity(const RunMemory *memory) {
    return run_memory_vector(memory, SSGD_VELOCITY);
}

float *ssgd_gradient(const RunMemory *memory, uint32_t shard) {
    assert(shard >= own_shards(memory->config).first && shard < own_shards(memory->config).end);
    return run_memory_vector(memory, SSGD_FIRST_GRADIENT + shard - own_shards(memory->config).first);
}

float *ssgd_mean(const RunMemory *memory) {
    assert(memory->config->nodes > 1);
    return run_memory_vector(memory, end_of_gradients(memory->config));
}

float *ssgd_node_sum(const RunMemory *memory, uint32_t index) {
    return run_memory_vector(memory, end_of_gradients(memory->config) + 1 + index);
}

static uint32_t shard_count(const RunMemory *memory, uint32_t shard) {
    uint32_t count;
    partition_client(&memory->partition, shard, &count);
    return count;
}

// Shards of different sizes run out of samples at different steps; from then on their part is empty. A shard's part of
// a global batch is a constant fraction, computed by multiplication so that the parts tile the batch.
ShardPart ssgd_shard_part(const RunMemory *memory, uint32_t shard, uint32_t number) {
    const Training *training = &memory->config->training;
    uint64_t first = (uint64_t)number * training->batch_size, shards = memory->config->clients;
    uint64_t batch = shard_batch_samples(shard_count(memory, shard), number, training->batch_size);
    if (batch == 0) return (ShardPart){0, 0};
    if (!training->global_batch) return (ShardPart){(uint32_t)first, (uint32_t)batch};
    uint64_t begin = batch * shard / shards, end = batch * (shard + 1) / shards;
    assert(begin <= end && end <= batch);
    return (ShardPart){(uint32_t)(first + begin), (uint32_t)(end - begin)};
}

uint32_t ssgd_step_samples(const RunMemory *memory, uint32_t number) {
    uint32_t total = 0;
    for (uint32_t shard = 0; shard < memory->config->clients; shard++)
        total += ssgd_shard_part(memory, shard, number).count;
    return total;
}

uint32_t ssgd_round_steps(const RunMemory *memory) {
    const RunConfig *config = memory->config;
    uint32_t most = 0, size = config->training.batch_size;
    for (uint32_t shard = 0; shard < config->clients; shard++) {
        uint32_t count = shard_count(memory, shard);
        uint32_t steps = count / size + (count % size != 0);
        if (steps > most) most = steps;
    }
    const uint32_t limit = memory->control->order.most_steps;
    if (limit > 0 && most > limit) most = limit;
    return most * config->training.local_epochs;
}

// Finishes the jobs of this worker's shards. Jobs of this engine are not taken from the queue: a worker's place among
// the members says which are its own.
void ssgd_finish(const RunMemory *memory, uint32_t rank, uint64_t start_nanoseconds) {
    const PhaseOrder *order = &memory->control->order;
    Queue *queue = memory->queue;
    for (uint32_t place = order->position[rank]; place < queue->count; place += order->members) {
        Job *job = &queue->jobs[place];
        job->seconds = clock_seconds_since(start_nanoseconds);
        atomic_store_explicit(&job->owner, rank + 1, memory_order_relaxed);
        queue_finish(job, JOB_DONE);
    }
}
