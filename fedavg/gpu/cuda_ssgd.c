// Part of cuda_worker.h: synchronous SGD on the GPU (worker/ssgd.h). A worker's shards are the models of a launch; when
// it has more shards than a launch has models, it takes them in groups.
#include "base/clock.h"
#include "base/cuda_try.h"
#include "datasets/order.h"
#include "fedavg/gpu/cuda_aggregate.h"
#include "fedavg/gpu/cuda_worker.h"
#include "fedavg/worker/ssgd.h"

// One worker's view of a round.
typedef struct CudaLockstep {
    CudaWorker *worker;
    uint32_t round, position, members;
    pid_t parent;
    uint32_t shards; // of this worker: position, position + members, ...
    uint32_t steps_an_epoch;
    size_t slice_first, slice_count; // parameters this worker sums and steps
    uint64_t synchronising_nanoseconds;
} CudaLockstep;

// Shards are dealt in turn, by the members of this attempt: after a death the survivors have other shards, but every
// shard's gradient has the bits that it had before, and the sum over shards has one order.
static uint32_t shard_at(const CudaLockstep *self, uint32_t index) {
    return self->position + index * self->members;
}

// Returns where a shard's shuffled order is stored: where its indices are stored in the partition.
static uint32_t order_first(const CudaLockstep *self, uint32_t shard) {
    const Partition *partition = &self->worker->memory->partition;
    uint32_t count;
    return (uint32_t)(partition_client(partition, shard, &count) - partition->indices);
}

// Each shard has its own part of the order on the GPU, so that groups of shards may alternate from step to step without
// copying their orders again.
static Status shuffle_shards(const CudaLockstep *self, uint32_t epoch, Error *err) {
    CudaWorker *worker = self->worker;
    for (uint32_t index = 0; index < self->shards; index++) {
        uint32_t count, shard = shard_at(self, index), first = order_first(self, shard);
        const uint32_t *indices = partition_client(&worker->memory->partition, shard, &count);
        batch_order(worker->host_order + first, indices, count, self->worker->memory->config->seed, self->round, shard,
                    epoch);
        CUDA_TRY(cudaMemcpyAsync(worker->order + first, worker->host_order + first, count * sizeof *worker->order,
                                 cudaMemcpyHostToDevice, worker->stream),
                 err, "copying the order of %u samples", count);
    }
    return STATUS_OK;
}

// Gives the models the shards of a group from batch `number` on: to the end of the epoch, or, when the next step has
// other groups in between, that batch alone.
static Status assign(const CudaLockstep *self, uint32_t group, uint32_t number, uint32_t step, Error *err) {
    CudaWorker *worker = self->worker;
    const RunConfig *config = self->worker->memory->config;
    for (uint32_t m = 0; m < worker->models; m++) {
        CudaTask task = {0}; // idle
        if (group + m < self->shards) {
            uint32_t count, shard = shard_at(self, group + m);
            partition_client(&worker->memory->partition, shard, &count);
            if (self->shards > worker->models) count = ssgd_shard_part(worker->memory, shard, number).count;
            task.first = order_first(self, shard) + number * config->training.batch_size;
            task.count = count;
            task.noise = (Noise){.seed = config->seed, .round = self->round, .client = shard, .step = step};
        }
        TRY(cuda_net_assign(worker->net, (int)m, &task, true, err));
    }
    return STATUS_OK;
}

// The net sums losses since the last assignment. They are added to the jobs, because a shard is assigned in every step
// when groups alternate.
static Status collect_losses(const CudaLockstep *self, uint32_t group, Error *err) {
    CudaWorker *worker = self->worker;
    TRY(cuda_net_results(worker->net, worker->results, err));
    for (uint32_t m = 0; m < worker->models && group + m < self->shards; m++)
        worker->memory->queue->jobs[shard_at(self, group + m)].loss_sum += worker->results[m].loss_sum;
    return STATUS_OK;
}

// Counts a shard's samples in a step, also as progress, by which the parent tells a slow worker from a hung one.
// Returns their number.
static uint32_t note_samples(const CudaLockstep *self, uint32_t shard, uint32_t number) {
    const RunMemory *memory = self->worker->memory;
    const uint32_t samples = ssgd_shard_part(memory, shard, number).count;
    memory->queue->jobs[shard].samples += samples;
    atomic_fetch_add_explicit(&memory->control->pulses[self->worker->rank].progress, samples, memory_order_relaxed);
    return samples;
}

// Computes the gradients of a group's shards for one step and copies them into their slots. The losses of a group are
// collected before its models are given other shards. A kernel copies the gradients, since slots are shared memory: if
// this process dies with the copy still queued, the fence keeps it from a slot that the next attempt fills.
static Status compute_group(const CudaLockstep *self, uint32_t group, uint32_t number, uint32_t step, Error *err) {
    CudaWorker *worker = self->worker;
    const RunConfig *config = self->worker->memory->config;
    bool alone = self->shards <= worker->models; // then one assignment serves the whole epoch
    if (!alone || number == 0) TRY(assign(self, group, number, step, err));
    TRY(cuda_net_gradient(worker->net, err));
    for (uint32_t m = 0; m < worker->models && group + m < self->shards; m++) {
        const uint32_t shard = shard_at(self, group + m);
        if (note_samples(self, shard, number) == 0) continue;
        cuda_copy_shared(cuda_blocks_vector(&worker->blocks, &config->slots, SSGD_FIRST_GRADIENT + shard),
                         worker->gradient + m * config->gpu.stride, config->parameters * sizeof(float), &worker->fence,
                         worker->stream);
    }
    if (!alone || number + 1 == self->steps_an_epoch) return collect_losses(self, group, err);
    return STATUS_OK;
}

// One kernel makes the step of neighbouring parameters, since no other worker writes this one's slice.
static void step_run(const CudaLockstep *self, CudaShards shards, size_t first, size_t end) {
    const CudaWorker *worker = self->worker;
    const CudaBlocks *blocks = &worker->blocks;
    const Training training = run_memory_training(worker->memory);
    float *velocity = cuda_blocks_vector(blocks, &worker->memory->config->slots, SSGD_VELOCITY);
    shards.gradients += first;
    cuda_ssgd_step(blocks->weights + first, velocity + first, &shards, &training.sgd, end - first, &worker->fence,
                   worker->stream);
}

// Computes the mean gradient of this worker's slice over all shards that had samples in this step, and makes the SGD
// step. The share of a shard is computed on the GPU from the counts, exactly as share_step does on the CPU. Frozen
// tensors make no step, whatever their gradients hold; the parameters between two of them are one run. gradients: of
// shard 0; those of the others are `stride` floats apart.
static void step_slice(const CudaLockstep *self, uint32_t number, const float *gradients, size_t stride) {
    const RunMemory *memory = self->worker->memory;
    const CudaShards shards = {.gradients = gradients,
                               .stride = stride,
                               .counts = self->worker->counts,
                               .shards = memory->config->clients,
                               .batch_size = memory->config->training.batch_size,
                               .number = number,
                               .total = ssgd_step_samples(memory, number)};
    const TensorList *list = &memory->tensors;
    const size_t end = self->slice_first + self->slice_count;
    size_t first = self->slice_first;
    for (int t = 0; t < list->count; t++) {
        const ParameterTensor *tensor = &list->tensors[t];
        if (!tensor->frozen || tensor->first + tensor->count <= first || tensor->first >= end) continue;
        if (tensor->first > first) step_run(self, shards, first, tensor->first);
        first = tensor->first + tensor->count;
    }
    if (first < end) step_run(self, shards, first, end);
}

// No kernel of one process is ordered with another's: the stream is synchronised before each barrier. The first barrier
// separates gradients from sums, the second one new weights from the next gradients. Unlike on the CPU no bucket is
// summed early: kernels of several processes share the GPU, so that a sum would slow down the gradients of others.
//
// CANCELLED is returned without a sentence: a worker has died, and the parent starts the round over.
static Status lockstep(CudaLockstep *self, uint32_t number, uint32_t step, Error *err) {
    const CudaWorker *worker = self->worker;
    const RunConfig *config = worker->memory->config;
    Barrier *barrier = &worker->memory->control->step;
    TraceBuffer *trace = run_memory_trace(worker->memory, worker->rank);
    uint64_t begin = trace_begin(trace);
    for (uint32_t group = 0; group < self->shards; group += worker->models)
        TRY(compute_group(self, group, number, step, err));
    TRY(cuda_wait(worker->stream, err, "computing gradients"));
    uint64_t start = clock_nanoseconds();
    trace_end(trace, TRACE_GRADIENT, begin, self->round, step);
    Status status = barrier_wait(barrier, self->position, self->parent, 0);
    trace_end(trace, TRACE_WAIT, start, self->round, step);
    if (status == STATUS_OK) {
        begin = trace_begin(trace);
        step_slice(self, number, cuda_blocks_vector(&worker->blocks, &config->slots, SSGD_FIRST_GRADIENT),
                   config->slots.vector_bytes / sizeof(float));
        TRY(cuda_wait(worker->stream, err, "summing gradients"));
        trace_end(trace, TRACE_STEP, begin, self->round, 0);
        begin = trace_begin(trace);
        status = barrier_wait(barrier, self->position, self->parent, 0);
        trace_end(trace, TRACE_WAIT, begin, self->round, step);
    }
    self->synchronising_nanoseconds += clock_nanoseconds() - start;
    if (status == STATUS_OK || status == STATUS_CANCELLED) return status;
    return fail(err, status, "the step barrier failed (%s)", status_name(status));
}

// An epoch of the only worker, where one launch has all shards. No other process needs the gradients or the weights, so
// that the step reads the gradients where they were computed; one stream orders all steps. The worker waits only to
// report progress (cuda_pace.h).
static Status train_alone(CudaLockstep *self, uint32_t step, Error *err) {
    CudaWorker *worker = self->worker;
    TraceBuffer *trace = run_memory_trace(worker->memory, worker->rank);
    TRY(assign(self, 0, 0, step, err));
    for (uint32_t done = 0, now; done < self->steps_an_epoch; done += now) {
        const uint64_t begin = trace_begin(trace);
        now = cuda_pace_begin(&worker->training, self->steps_an_epoch - done);
        for (uint32_t number = done; number < done + now; number++) {
            TRY(cuda_net_gradient(worker->net, err));
            step_slice(self, number, worker->gradient, worker->memory->config->gpu.stride);
        }
        TRY(cuda_wait(worker->stream, err, "stepping by the gradients"));
        cuda_pace_end(&worker->training);
        for (uint32_t number = done; number < done + now; number++)
            for (uint32_t shard = 0; shard < self->shards; shard++)
                note_samples(self, shard, number);
        trace_end(trace, TRACE_GRADIENT, begin, self->round, step + done);
    }
    return collect_losses(self, 0, err);
}

static Status train_epoch(CudaLockstep *self, uint32_t step, Error *err) {
    if (self->members == 1 && self->shards <= self->worker->models) return train_alone(self, step, err);
    for (uint32_t number = 0; number < self->steps_an_epoch; number++)
        TRY(lockstep(self, number, step + number, err));
    return STATUS_OK;
}

// Position and members are read once, as in ssgd_train: they hold for the whole attempt. An error leaves the round
// unfinished: this worker's death then cancels the barriers of the others.
Status cuda_ssgd_train(CudaWorker *worker, uint32_t round, pid_t parent, Error *err) {
    const RunMemory *memory = worker->memory;
    const RunConfig *config = memory->config;
    const PhaseOrder *order = &memory->control->order;
    CudaLockstep self = {.worker = worker,
                         .round = round,
                         .position = order->position[worker->rank],
                         .members = order->members,
                         .parent = parent,
                         .steps_an_epoch = ssgd_round_steps(memory) / config->training.local_epochs};
    self.shards = (config->clients - self.position + self.members - 1) / self.members;
    // Slices begin on cache lines, so that no two workers write one line. One slice per worker and step suffices,
    // because nothing is summed while gradients are computed.
    const size_t lines = (config->parameters + 15) / 16, end = lines * (self.position + 1) / self.members * 16;
    self.slice_first = lines * self.position / self.members * 16;
    self.slice_count = (end < config->parameters ? end : config->parameters) - self.slice_first;
    uint64_t start = clock_nanoseconds();
    for (uint32_t epoch = 0; epoch < config->training.local_epochs; epoch++) {
        TRY(shuffle_shards(&self, epoch, err));
        TRY(train_epoch(&self, epoch * self.steps_an_epoch, err));
    }
    memory->control->tallies[worker->rank].synchronising_nanoseconds += self.synchronising_nanoseconds;
    ssgd_finish(memory, worker->rank, start);
    return STATUS_OK;
}
