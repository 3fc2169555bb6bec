#include "ssgd.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "datasets/order.h"
#include "fedavg/rules/sum/shard_sum.h"

typedef struct Lockstep {
    LocalModel *model;
    const RunMemory *memory;
    GradientSync *sync;
    TraceBuffer *trace;
    Buckets buckets;
    ShardRange shards; // of this node
    uint32_t sums;     // that this node contributes (several nodes)
    ShardRange sum_blocks[SHARD_MAX_SUMS];
    ShardLeaf *leaves; // owned (shards of this node): their gradients, with their shares in this step
    uint32_t round, position, members;
    pid_t parent;
    uint32_t number, step; // of the batch in its epoch; since the round began
    bool is_last_shard;    // of this worker's in this step
    uint32_t complete;     // buckets in this step
    uint64_t synchronising_nanoseconds, hidden_nanoseconds;
} Lockstep;

// Shards --------------------------------------------------------------------------------------------------------------

// Returns where the shuffled order of a shard is stored in the worker's buffer: where its indices are stored in the
// partition, so that shards need no table of offsets. All shards of a global batch share indices and order.
static uint32_t *shard_order(const LocalModel *model, uint32_t shard, uint32_t *count) {
    assert(shard < model->memory->config->clients);
    const uint32_t *indices = partition_client(&model->memory->partition, shard, count);
    return model->order + (indices - model->memory->partition.indices);
}

static void shuffle_shards(const Lockstep *self, uint32_t epoch) {
    const RunConfig *config = self->memory->config;
    const bool global = config->training.global_batch;
    const uint32_t end = global ? 1 : self->shards.end;
    for (uint32_t shard = global ? 0 : self->shards.first + self->position; shard < end; shard += self->members) {
        uint32_t count;
        const uint32_t *indices = partition_client(&self->memory->partition, shard, &count);
        batch_order(shard_order(self->model, shard, &count), indices, count, config->seed, self->round, shard, epoch);
    }
}

static void share_step(Lockstep *self) {
    const RunMemory *memory = self->memory;
    uint32_t total = ssgd_step_samples(memory, self->number);
    assert(total > 0); // a step in which no shard has a sample is none
    for (uint32_t shard = self->shards.first; shard < self->shards.end; shard++)
        self->leaves[shard - self->shards.first] =
            (ShardLeaf){.range = {shard, shard + 1},
                        .values = ssgd_gradient(memory, shard),
                        .share = (float)ssgd_shard_part(memory, shard, self->number).count / (float)total};
}

// Sums ----------------------------------------------------------------------------------------------------------------

// Counts buckets since the round began, so that a number never returns to a smaller value: no worker has to reset
// another worker's pulse between steps.
static uint64_t pulse_of(const Lockstep *self, uint32_t buckets) {
    assert(buckets <= self->buckets.count);
    return (uint64_t)self->step * self->buckets.count + buckets;
}

// Acquire, pairs with the store in mark_complete: a worker that sees a bucket complete sees its gradients.
static bool is_complete(const Lockstep *self, uint32_t bucket) {
    for (uint32_t member = 0; member < self->members; member++)
        if (atomic_load_explicit(&self->sync->members[member].complete, memory_order_acquire) <
            pulse_of(self, bucket + 1))
            return false;
    return true;
}

// Release: the buckets' gradients are in the slots before any other worker sees the count.
static void mark_complete(Lockstep *self, uint32_t buckets) {
    self->complete = buckets;
    assert(pulse_of(self, buckets) >=
           atomic_load_explicit(&self->sync->members[self->position].complete, memory_order_relaxed)); // it only grows
    atomic_store_explicit(&self->sync->members[self->position].complete, pulse_of(self, buckets), memory_order_release);
}

// A run on one node has all gradients, so that the mean of a slice is known at once, and the step follows while the
// slice is in the cache.
static void step_elements(const Lockstep *self, size_t first, size_t count) {
    const RunConfig *config = self->memory->config;
    float mean[SHARD_SUM_BLOCK];
    assert(count <= SHARD_SUM_BLOCK && first + count <= config->parameters);
    shard_sum(mean, self->leaves, (ShardRange){0, config->clients}, first, count);
    const Training training = run_memory_training(self->memory);
    self->model->net.kernels->sgd_step(self->memory->weights + first, ssgd_velocity(self->memory) + first, mean,
                                       &training.sgd, count);
}

// One of several nodes contributes sums, of the blocks of the fixed tree that its shards cover whole.
static void sum_elements(const Lockstep *self, size_t first, size_t count) {
    for (uint32_t sum = 0; sum < self->sums; sum++) {
        ShardRange block = self->sum_blocks[sum];
        shard_sum(ssgd_node_sum(self->memory, sum) + first, self->leaves + (block.first - self->shards.first), block,
                  first, count);
    }
}

static void sum_slice(const Lockstep *self, Slice slice) {
    bool alone = self->memory->config->nodes <= 1;
    for (size_t first = slice.first; first < slice.end; first += SHARD_SUM_BLOCK) {
        size_t count = slice.end - first < SHARD_SUM_BLOCK ? slice.end - first : SHARD_SUM_BLOCK;
        if (alone)
            step_elements(self, first, count);
        else
            sum_elements(self, first, count);
    }
}

// Sums a slice of a complete bucket, its own or another worker's, unless that is done or under way. The claim is a
// number of the step: a slice that was taken in an earlier step is free again without any reset. A worker that dies
// after its claim leaves a slice that no worker sums; the round is then done again as a whole, and give_order clears
// the claims.
static void take_slice(Lockstep *self, uint32_t bucket, uint32_t position) {
    _Atomic uint64_t *taken = &self->sync->taken[bucket][position];
    assert(bucket < self->buckets.count && position < self->members);
    uint64_t seen = atomic_load_explicit(taken, memory_order_relaxed), now = (uint64_t)self->step + 1;
    assert(seen <= now); // no worker is a step ahead
    // Relaxed: is_complete has seen the gradients of the slice, and the barrier at the step's end shows the result.
    if (seen == now ||
        !atomic_compare_exchange_strong_explicit(taken, &seen, now, memory_order_relaxed, memory_order_relaxed))
        return;
    uint64_t start = clock_nanoseconds();
    bool hidden = !is_complete(self, self->buckets.count - 1);
    sum_slice(self, bucket_slice(&self->buckets, bucket, position, self->members));
    // Release, pairs with the load in exchange_serve: the parent sends what it sees counted.
    uint64_t summed = atomic_fetch_add_explicit(&self->sync->summed[bucket], 1, memory_order_acq_rel) + 1;
    assert(summed <= now * self->members);
    if (self->memory->config->nodes > 1 && summed == now * self->members) worker_ring();
    if (hidden) self->hidden_nanoseconds += clock_nanoseconds() - start;
    trace_end(self->trace, TRACE_SUM, start, self->round, bucket);
}

static void take_own_slices(Lockstep *self) {
    for (uint32_t bucket = 0; bucket < self->buckets.count && is_complete(self, bucket); bucket++)
        take_slice(self, bucket, self->position);
}

// A worker that is done early helps the others. Its own slices are first, and each worker then starts with its
// neighbour's, so that helpers do not all try one slice.
static void take_all_slices(Lockstep *self) {
    take_own_slices(self);
    for (uint32_t bucket = 0; bucket < self->buckets.count && is_complete(self, bucket); bucket++)
        for (uint32_t other = 1; other < self->members; other++)
            take_slice(self, bucket, (self->position + other) % self->members);
}

// Steps ---------------------------------------------------------------------------------------------------------------

// The net's hook: the gradients from `first` on are complete. Layers finish from the last to the first, so that a
// bucket is summed while the backward pass goes through earlier layers. Gradients of the last bucket are complete only
// with the whole pass: compute_gradients marks them.
static void on_gradient(void *context, size_t first) {
    Lockstep *self = context;
    const Buckets *buckets = &self->buckets;
    if (!self->is_last_shard || first > buckets->first[self->complete]) return;
    if (self->complete + 1 == buckets->count) return; // that is said when all is done
    mark_complete(self, self->complete + 1);
    uint64_t hidden = self->hidden_nanoseconds;
    take_own_slices(self);
    self->synchronising_nanoseconds += self->hidden_nanoseconds - hidden;
}

static void compute_gradient(Lockstep *self, uint32_t shard, ShardPart part) {
    LocalModel *model = self->model;
    const RunMemory *memory = self->memory;
    const RunConfig *config = memory->config;
    uint32_t count;
    const uint32_t *order = shard_order(model, shard, &count);
    Batch batch = local_model_batch(model, order + part.first, 0, part.count);
    Noise noise = {.seed = config->seed, .round = self->round, .client = shard, .step = self->step};
    if (config->training.global_batch)
        noise.client = 0, noise.first_sample = part.first - self->number * config->training.batch_size;
    BatchResult result;
    net_gradient(&model->net, ssgd_gradient(memory, shard), &result, memory->weights, &batch, &noise);
    Job *job = &memory->queue->jobs[shard - self->shards.first];
    assert(job->client == shard && shard >= self->shards.first && shard < self->shards.end && part.count > 0);
    job->loss_sum += result.loss_sum;
    job->samples += batch.count;
}

// Returns the next of this worker's shards, from `shard` on, that has samples in this step.
static uint32_t next_shard(const Lockstep *self, uint32_t shard) {
    while (shard < self->shards.end && ssgd_shard_part(self->memory, shard, self->number).count == 0)
        shard += self->members;
    return shard;
}

// Computes the gradients of this worker's shards for one step into their slots. Buckets are complete only during the
// last shard; that one must be known in advance, because shards without samples are skipped.
static void compute_gradients(Lockstep *self) {
    uint64_t start = trace_begin(self->trace);
    self->complete = 0;
    uint32_t shard = next_shard(self, self->shards.first + self->position);
    while (shard < self->shards.end) {
        uint32_t next = next_shard(self, shard + self->members);
        self->is_last_shard = next >= self->shards.end;
        compute_gradient(self, shard, ssgd_shard_part(self->memory, shard, self->number));
        shard = next;
    }
    // Relaxed: other workers read it after they have seen the next bucket complete.
    atomic_store_explicit(&self->sync->members[self->position].finished_nanoseconds, clock_nanoseconds(),
                          memory_order_relaxed);
    mark_complete(self, self->buckets.count); // also by those who had nothing to compute
    trace_end(self->trace, TRACE_GRADIENT, start, self->round, self->step);
}

// The wait has no deadline of its own: after --hang-seconds the supervisor kills the worker that is missing and cancels
// the wait of the others.
static Status wait_for(const Lockstep *self, Barrier *barrier) {
    uint64_t start = trace_begin(self->trace);
    Status status = barrier_wait(barrier, self->position, self->parent, 0);
    trace_end(self->trace, TRACE_WAIT, start, self->round, self->step);
    return status;
}

// The parent gathers the mean over all nodes where all workers read it, and arrives at the exchange barrier when the
// last bucket is there. Each worker steps its own slices only, so that no two write one weight; the barrier at the end
// of the step publishes them.
static Status step_from_mean(const Lockstep *self) {
    const RunMemory *memory = self->memory;
    const Training training = run_memory_training(self->memory);
    TRY(wait_for(self, &memory->control->exchange));
    for (uint32_t bucket = 0; bucket < self->buckets.count; bucket++) {
        uint64_t start = trace_begin(self->trace);
        Slice slice = bucket_slice(&self->buckets, bucket, self->position, self->members);
        if (slice.first < slice.end)
            self->model->net.kernels->sgd_step(memory->weights + slice.first, ssgd_velocity(memory) + slice.first,
                                               ssgd_mean(memory) + slice.first, &training.sgd, slice.end - slice.first);
        trace_end(self->trace, TRACE_STEP, start, self->round, bucket);
    }
    return STATUS_OK;
}

// One step. Sums before and after the first wait differ only in time: before it a worker sums what is complete while
// others still compute; after it everything is complete, and it sums what is left. The barrier at the end keeps a fast
// worker from the next step, which reads weights and overwrites gradients that a slow one still uses. Both waits end
// with CANCELLED when a worker has died: gradients, sums and weights of this round are then worth nothing, and the
// worker returns at once.
static Status lockstep(Lockstep *self) {
    Barrier *barrier = &self->memory->control->step;
    share_step(self);
    compute_gradients(self);
    uint64_t start = clock_nanoseconds();
    uint32_t generation = barrier_arrive(barrier, self->position);
    take_all_slices(self);
    uint64_t wait = trace_begin(self->trace);
    TRY(barrier_sleep(barrier, generation, self->parent, 0));
    trace_end(self->trace, TRACE_WAIT, wait, self->round, self->step);
    take_all_slices(self);
    if (self->memory->config->nodes > 1) TRY(step_from_mean(self));
    TRY(wait_for(self, barrier));
    self->synchronising_nanoseconds += clock_nanoseconds() - start;
    return STATUS_OK;
}

static Status train_epochs(Lockstep *self) {
    const RunConfig *config = self->memory->config;
    uint32_t steps_per_epoch = ssgd_round_steps(self->memory) / config->training.local_epochs;
    for (uint32_t epoch = 0; epoch < config->training.local_epochs; epoch++) {
        shuffle_shards(self, epoch);
        for (self->number = 0; self->number < steps_per_epoch; self->number++, self->step++)
            TRY(lockstep(self));
    }
    return STATUS_OK;
}

// Reads the members once: the parent counts them before the phase, and a death in the middle cancels the barriers and
// with them the round, so that the number holds for the whole round. The hook points at this Lockstep, so that it is
// taken off before the function returns.
Status ssgd_train(LocalModel *model, uint32_t round, pid_t parent) {
    const RunMemory *memory = model->memory;
    const PhaseOrder *order = &memory->control->order;
    const RunConfig *config = memory->config;
    Lockstep self = {.model = model,
                     .memory = memory,
                     .sync = &memory->control->gradients,
                     .trace = run_memory_trace(memory, model->rank),
                     .shards = ssgd_node_shards(config, config->node),
                     .round = round,
                     .position = order->position[model->rank],
                     .members = order->members,
                     .parent = parent};
    buckets_cut(&self.buckets, &model->net.spec);
    assert(self.members >= 1 && self.position < self.members && self.buckets.count >= 1 &&
           !model->net.on_gradient.complete);
    self.sums = shard_sums(self.sum_blocks, config->clients, self.shards);
    self.leaves = malloc((self.shards.end - self.shards.first) * sizeof *self.leaves);
    if (!self.leaves) return STATUS_OS;
    uint64_t start = clock_nanoseconds();
    model->net.on_gradient = (GradientHook){on_gradient, &self};
    Status status = train_epochs(&self);
    model->net.on_gradient = (GradientHook){0};
    free(self.leaves);
    TRY(status);
    WorkerTally *tally = &memory->control->tallies[model->rank];
    tally->synchronising_nanoseconds += self.synchronising_nanoseconds;
    tally->hidden_nanoseconds += self.hidden_nanoseconds;
    ssgd_finish(memory, model->rank, start);
    return STATUS_OK;
}
