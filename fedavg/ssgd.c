#include "ssgd.h"

#include <string.h>

#include "base/clock.h"
#include "datasets/batch.h"
#include "fedavg/ssgd_index.h"

// One worker's view of a round.
typedef struct Lockstep {
    Trainer *trainer;
    uint32_t round, position, members;
    pid_t parent;
    size_t slice_first, slice_end; // parameters this worker sums and steps
    uint64_t synchronising_nanoseconds;
} Lockstep;

static uint32_t shard_count(const RunMemory *memory, uint32_t shard) {
    uint32_t count;
    partition_client(&memory->partition, shard, &count);
    return count;
}

uint32_t ssgd_round_steps(const RunMemory *memory) {
    const RunConfig *config = &memory->control->config;
    uint32_t most = 0;
    for (uint32_t shard = 0; shard < config->clients; shard++) {
        uint32_t count = shard_count(memory, shard);
        uint32_t steps = count / config->batch_size + (count % config->batch_size != 0);
        if (steps > most) most = steps;
    }
    return most * config->local_epochs;
}

uint32_t ssgd_shard_samples(const RunMemory *memory, uint32_t shard, uint32_t number) {
    return ssgd_batch_samples(shard_count(memory, shard), number, memory->control->config.batch_size);
}

uint32_t ssgd_step_samples(const RunMemory *memory, uint32_t number) {
    uint32_t total = 0;
    for (uint32_t shard = 0; shard < memory->control->config.clients; shard++)
        total += ssgd_shard_samples(memory, shard, number);
    return total;
}

void ssgd_slice(size_t *first, size_t *end, const PhaseOrder *order, uint32_t position, size_t parameters) {
    // Slices begin on cache lines, so that no two workers write the same one.
    size_t lines = (parameters + 15) / 16;
    *first = lines * position / order->members * 16;
    *end = lines * (position + 1) / order->members * 16;
    if (*end > parameters) *end = parameters;
}

// Where a shard's shuffled order lies in the worker's buffer: as its indices lie in the partition.
static uint32_t *shard_order(const Trainer *trainer, const uint32_t *indices) {
    return trainer->order + (indices - trainer->memory->partition.indices);
}

static void shuffle_shards(const Lockstep *self, uint32_t epoch) {
    const RunMemory *memory = self->trainer->memory;
    const RunConfig *config = &memory->control->config;
    for (uint32_t shard = self->position; shard < config->clients; shard += self->members) {
        uint32_t count;
        const uint32_t *indices = partition_client(&memory->partition, shard, &count);
        batch_order(shard_order(self->trainer, indices), indices, count, config->seed, self->round, shard, epoch);
    }
}

// Gradients of this worker's shards for one step into their slots.
static void compute_gradients(const Lockstep *self, uint32_t number, uint32_t step) {
    Trainer *trainer = self->trainer;
    const RunMemory *memory = trainer->memory;
    const RunConfig *config = &memory->control->config;
    for (uint32_t shard = self->position; shard < config->clients; shard += self->members) {
        if (ssgd_shard_samples(memory, shard, number) == 0) continue;
        uint32_t count;
        const uint32_t *indices = partition_client(&memory->partition, shard, &count);
        Batch batch = trainer_batch(trainer, shard_order(trainer, indices), number, count);
        Noise noise = {.seed = config->seed, .round = self->round, .client = shard, .step = step};
        BatchResult result;
        net_gradient(&trainer->net, run_memory_floats(memory, shard), &result, memory->weights, &batch, &noise);
        Job *job = &memory->queue->jobs[shard];
        job->loss_sum += result.loss_sum;
        job->samples += batch.count;
    }
}

// Mean gradient of this worker's slice over all shards that had samples in this step, in shard order; then the SGD
// step.
static void step_slice(const Lockstep *self, uint32_t number) {
    const Trainer *trainer = self->trainer;
    const RunMemory *memory = trainer->memory;
    const RunConfig *config = &memory->control->config;
    size_t first = self->slice_first, count = self->slice_end - first;
    float *mean = trainer->gradient + first;
    uint32_t total = ssgd_step_samples(memory, number);
    memset(mean, 0, count * sizeof *mean);
    for (uint32_t shard = 0; shard < config->clients; shard++) {
        float share = (float)ssgd_shard_samples(memory, shard, number) / (float)total;
        const float *gradient = run_memory_floats(memory, shard) + first;
        for (size_t i = 0; share > 0 && i < count; i++)
            mean[i] += share * gradient[i];
    }
    trainer->net.kernels->sgd_step(memory->weights + first, run_memory_floats(memory, config->clients) + first, mean,
                                   config->lr, config->momentum, config->weight_decay, count);
}

static Status lockstep(Lockstep *self, uint32_t number, uint32_t step) {
    Barrier *barrier = &self->trainer->memory->control->step;
    compute_gradients(self, number, step);
    uint64_t start = clock_nanoseconds();
    // No deadline of their own: the supervisor's --hang-seconds is theirs, it kills who does not come and cancels the
    // wait.
    TRY(barrier_wait(barrier, self->position, self->parent, 0));
    step_slice(self, number);
    TRY(barrier_wait(barrier, self->position, self->parent, 0));
    self->synchronising_nanoseconds += clock_nanoseconds() - start;
    return STATUS_OK;
}

void ssgd_finish(const RunMemory *memory, uint32_t rank, uint64_t start_nanoseconds) {
    const PhaseOrder *order = &memory->control->order;
    Queue *queue = memory->queue;
    for (uint32_t shard = order->position[rank]; shard < queue->count; shard += order->members) {
        Job *job = &queue->jobs[shard];
        job->seconds = clock_seconds_since(start_nanoseconds);
        atomic_store_explicit(&job->owner, rank + 1, memory_order_relaxed);
        queue_finish(job, JOB_DONE);
    }
}

Status ssgd_train(Trainer *trainer, uint32_t round, pid_t parent) {
    const RunMemory *memory = trainer->memory;
    const PhaseOrder *order = &memory->control->order;
    const RunConfig *config = &memory->control->config;
    Lockstep self = {.trainer = trainer,
                     .round = round,
                     .position = order->position[trainer->rank],
                     .members = order->members,
                     .parent = parent};
    ssgd_slice(&self.slice_first, &self.slice_end, order, self.position, config->parameters);
    uint64_t start = clock_nanoseconds();
    uint32_t steps_per_epoch = ssgd_round_steps(memory) / config->local_epochs, step = 0;
    for (uint32_t epoch = 0; epoch < config->local_epochs; epoch++) {
        shuffle_shards(&self, epoch);
        for (uint32_t number = 0; number < steps_per_epoch; number++, step++)
            TRY(lockstep(&self, number, step));
    }
    memory->control->tallies[trainer->rank].synchronising_nanoseconds += self.synchronising_nanoseconds;
    ssgd_finish(memory, trainer->rank, start);
    return STATUS_OK;
}
