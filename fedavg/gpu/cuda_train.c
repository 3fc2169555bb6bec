// Part of cuda_worker.h: trains the models of a launch in a round, stretch by stretch (rules/world/walk.h), and orders
// their samples.
#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/cuda_try.h"
#include "datasets/order.h"
#include "fedavg/gpu/cuda_worker.h"
#include "fedavg/rules/world/walk.h"
#include "fedavg/worker/personal.h"

// Clients of a launch have different numbers of samples, and a client may train several stretches with different
// orders. The launch walks them together: stretch i of all clients, as many steps as the longest has; then stretch i +
// 1. Models whose stretch is shorter idle meanwhile, which costs time and changes no bit.

// The last batch of a client may be smaller than the others, but it is a step, too.
static uint32_t batches(const CudaWorker *self, uint32_t count) {
    uint32_t size = self->memory->config->training.batch_size;
    return count / size + (count % size != 0);
}

static uint32_t job_samples(const CudaWorker *self, const Job *job) {
    uint32_t count;
    cuda_samples_of(self->memory, job->client, self->round, &count);
    return count;
}

// Takes jobs for a launch of as many models. Fewer are taken only when the queue is empty: a launch with idle models
// takes as long as a full one.
uint32_t cuda_take(const CudaWorker *self, Job **jobs) {
    uint32_t count = 0;
    while (count < self->models && (jobs[count] = queue_take(self->memory->queue, self->rank)))
        count++;
    return count;
}

static Walk walk_of_job(const CudaWorker *self, const Job *job, uint32_t round) {
    const RunConfig *config = self->memory->config;
    return walk_of(&config->recipe.schedule, round, self->trains_own ? config->personal.epochs : job->epochs);
}

// Returns the stretch of this index of a job's training, empty after its last: what a launch does next.
static Stretch stretch_of(const CudaWorker *self, const Job *job, uint32_t round, uint32_t index) {
    const Walk walk = walk_of_job(self, job, round);
    Stretch stretch;
    if (!walk_stretch(&stretch, &walk, index, batches(self, job_samples(self, job)))) return (Stretch){.round = round};
    return stretch;
}

// order: the samples of the jobs' clients as one stretch takes them, client by client. It is made on the host by the
// function that workers on the CPU use: the order of the samples is part of a client's bits.
static void shuffle(const CudaWorker *self, uint32_t *order, Job *const *jobs, uint32_t count, uint32_t round,
                    uint32_t index) {
    for (uint32_t m = 0; m < count; m++) {
        uint32_t samples, client = jobs[m]->client;
        const uint32_t *indices = cuda_samples_of(self->memory, client, self->round, &samples);
        const Stretch stretch = stretch_of(self, jobs[m], round, index);
        batch_order(order, indices, samples, self->memory->config->seed, stretch.round, client, stretch.epoch);
        order += samples;
    }
}

// The first job and its stretch identify the order that was made in advance: order_samples compares them.
static void shuffle_next(CudaWorker *self, Job *const *jobs, uint32_t count, uint32_t round, uint32_t index) {
    shuffle(self, self->next_order, jobs, count, round, index);
    self->shuffled = (CudaShuffled){jobs[0], count, round, index};
}

// Whether any of the jobs has a stretch of this index.
static bool goes_on(const CudaWorker *self, uint32_t jobs, uint32_t round, uint32_t index) {
    for (uint32_t m = 0; m < jobs; m++)
        if (stretch_of(self, self->jobs[m], round, index).count > 0) return true;
    return false;
}

// Shuffles on the host while the GPU works: the next stretch, or the next jobs. A worker among several takes no jobs in
// advance, since another worker may be free for them earlier. train_stretch calls it after each group of steps;
// shuffled.clients tells that the work is done already.
static void look_ahead(CudaWorker *self, uint32_t jobs, uint32_t round, uint32_t index) {
    if (self->shuffled.clients > 0) return;
    if (goes_on(self, jobs, round, index + 1)) return shuffle_next(self, self->jobs, jobs, round, index + 1);
    if (self->memory->config->workers > 1 || self->next_count > 0) return;
    self->next_count = cuda_take(self, self->next_jobs);
    if (self->next_count > 0) shuffle_next(self, self->next_jobs, self->next_count, round, 0);
}

// Makes host_order that of this stretch, which may have been shuffled in advance. A launch may be trained several times
// in a row. The arrays may change places here, because the last wait of train_stretch has ended the copy from
// host_order.
static void order_samples(CudaWorker *self, uint32_t jobs, uint32_t round, uint32_t index) {
    const CudaShuffled *next = &self->shuffled;
    bool is_ready =
        next->first == self->jobs[0] && next->clients == jobs && next->round == round && next->index == index;
    if (!is_ready) return shuffle(self, self->host_order, self->jobs, jobs, round, index);
    uint32_t *order = self->host_order;
    self->host_order = self->next_order;
    self->next_order = order;
    self->shuffled = (CudaShuffled){0};
}

// Gives every model the samples of its client for one stretch, shuffled. *steps: of the longest. Loss sums restart with
// the first stretch only, so that the results of a job cover all its training.
static Status assign_stretch(CudaWorker *self, uint32_t *steps, uint32_t jobs, uint32_t round, uint32_t index,
                             Error *err) {
    const RunConfig *config = self->memory->config;
    const uint32_t size = config->training.batch_size;
    uint32_t first = 0;
    *steps = 0;
    order_samples(self, jobs, round, index);
    for (uint32_t m = 0; m < jobs; m++) {
        const uint32_t samples = job_samples(self, self->jobs[m]);
        const Stretch stretch = stretch_of(self, self->jobs[m], round, index); // empty: the others continue
        CudaTask task = {
            .first = first + stretch.first * size,
            .count = stretch_samples(&stretch, samples, size),
            .noise = {
                .seed = config->seed, .round = stretch.round, .client = self->jobs[m]->client, .step = stretch.step}};
        TRY(cuda_net_assign(self->net, (int)m, &task, index == 0, err));
        first += samples;
        if (batches(self, task.count) > *steps) *steps = batches(self, task.count);
    }
    CUDA_TRY(
        cudaMemcpyAsync(self->order, self->host_order, first * sizeof *self->order, cudaMemcpyDefault, self->stream),
        err, "copying the order of %u samples", first);
    return STATUS_OK;
}

static uint32_t smaller(uint32_t a, uint32_t b) {
    return a < b ? a : b;
}

// Samples that the jobs' clients have in the first `steps` batches of the stretch. The parent measures progress in
// samples, on the CPU as on the GPU. A client that has ended its stretch adds nothing more, which min(count, steps)
// says.
static uint64_t samples_until(const CudaWorker *self, uint32_t jobs, uint32_t round, uint32_t index, uint32_t steps) {
    uint64_t samples = 0;
    for (uint32_t m = 0; m < jobs; m++) {
        Stretch stretch = stretch_of(self, self->jobs[m], round, index);
        stretch.count = smaller(stretch.count, steps);
        samples +=
            stretch_samples(&stretch, job_samples(self, self->jobs[m]), self->memory->config->training.batch_size);
    }
    return samples;
}

// Waits every few steps (cuda_pace.h), not once at the end; the host shuffles between two waits.
static Status train_stretch(CudaWorker *self, uint32_t jobs, uint32_t round, uint32_t index, Error *err) {
    _Atomic uint64_t *progress = &self->memory->control->pulses[self->rank].progress;
    uint32_t steps;
    TRY(assign_stretch(self, &steps, jobs, round, index, err));
    for (uint32_t done = 0, now; done < steps; done += now) {
        now = cuda_pace_begin(&self->training, steps - done);
        TRY(cuda_net_train(self->net, now, err));
        look_ahead(self, jobs, round, index);
        TRY(cuda_wait(self->stream, err, "training"));
        cuda_pace_end(&self->training);
        uint64_t samples =
            samples_until(self, jobs, round, index, done + now) - samples_until(self, jobs, round, index, done);
        atomic_fetch_add_explicit(progress, samples, memory_order_relaxed);
    }
    return STATUS_OK;
}

// Trains all that the jobs' clients train in the round; notes losses, samples and seconds. Stretches end at different
// steps for different clients: a client that is done idles, and the launch continues until the last is. The learning
// rate is set in each call, since it belongs to the round; lengths are not measured here, which the NaN says.
Status cuda_train_models(CudaWorker *self, uint32_t jobs, uint32_t round, Error *err) {
    TRY(cuda_net_set_lr(self->net, run_memory_training(self->memory).sgd.lr, err));
    for (uint32_t index = 0; goes_on(self, jobs, round, index); index++)
        TRY(train_stretch(self, jobs, round, index, err));
    TRY(cuda_net_results(self->net, self->results, err));
    for (uint32_t m = 0; m < jobs; m++) {
        Job *job = self->jobs[m];
        job->loss_sum = self->results[m].loss_sum;
        const Walk walk = walk_of_job(self, job, round);
        job->samples = walk_samples(&walk, job_samples(self, job), self->memory->config->training.batch_size);
        job->seconds = clock_seconds_since(self->begun_nanoseconds); // of all trainings of the launch's models
        job->squared_length = NAN;
    }
    return STATUS_OK;
}

// Gives every model all samples of its client, in their own order. *steps: of the client with the most.
static Status assign_all(CudaWorker *self, uint32_t *steps, uint32_t jobs, uint32_t round, Error *err) {
    uint32_t first = 0;
    *steps = 0;
    for (uint32_t m = 0; m < jobs; m++) {
        CudaTask task = {.first = first};
        const uint32_t *indices = cuda_samples_of(self->memory, self->jobs[m]->client, round, &task.count);
        memcpy(self->host_order + first, indices, task.count * sizeof *indices);
        TRY(cuda_net_assign(self->net, (int)m, &task, true, err));
        self->clients.host_totals[m] = task.count;
        first += task.count;
        if (batches(self, task.count) > *steps) *steps = batches(self, task.count);
    }
    TRY(cuda_copy(self->clients.totals, self->clients.host_totals, jobs * sizeof(uint32_t), self->stream, err));
    return cuda_copy(self->order, self->host_order, first * sizeof *self->order, self->stream, err);
}

Status cuda_look(CudaWorker *self, uint32_t jobs, uint32_t round, Error *err) {
    const RunConfig *config = self->memory->config;
    _Atomic uint64_t *progress = &self->memory->control->pulses[self->rank].progress;
    uint32_t steps;
    if (!self->clients.full_gradient) return STATUS_OK;
    TRY(cuda_clear(self->clients.full_gradient, jobs * config->gpu.stride * sizeof(float), self->stream, err));
    TRY(assign_all(self, &steps, jobs, round, err));
    for (uint32_t done = 0, now; done < steps; done += now) {
        now = cuda_pace_begin(&self->training, steps - done);
        TRY(cuda_net_look(self->net, now, err));
        TRY(cuda_wait(self->stream, err, "looking at the clients' gradients"));
        cuda_pace_end(&self->training);
        for (uint32_t m = 0; m < jobs; m++) {
            const uint32_t size = config->training.batch_size, count = self->clients.host_totals[m];
            const uint32_t before = smaller(done * size, count), after = smaller((done + now) * size, count);
            atomic_fetch_add_explicit(progress, after - before, memory_order_relaxed);
        }
    }
    return STATUS_OK;
}

// Each part has a fresh optimizer. The parameters that stay draw shuffles and dropout that no round draws, as
// train_in_turn of client.c does. The losses and samples of the jobs are those of the second part.
static Status train_in_turn(CudaWorker *self, uint32_t jobs, uint32_t round, Error *err) {
    const PersonalPlan *plan = &self->memory->config->personal;
    TRY(cuda_net_hold(self->net, 0, plan->first, err));
    TRY(cuda_optimizer_begin(self, jobs, false, err));
    self->trains_own = true;
    const Status status = cuda_train_models(self, jobs, personal_round(round), err);
    self->trains_own = false;
    TRY(status);
    TRY(cuda_net_hold(self->net, plan->first, plan->end, err));
    TRY(cuda_optimizer_begin(self, jobs, false, err));
    TRY(cuda_train_models(self, jobs, round, err));
    return cuda_net_hold(self->net, 0, 0, err);
}

Status cuda_train_turn(CudaWorker *self, uint32_t jobs, uint32_t round, Error *err) {
    if (self->memory->config->personal.alternates) return train_in_turn(self, jobs, round, err);
    TRY(cuda_optimizer_begin(self, jobs, true, err));
    TRY(cuda_train_models(self, jobs, round, err));
    return cuda_optimizer_conclude(self, jobs, err);
}

// The second models of the clients come first: the launch then has the shared ones, which are handed in. Neither
// training reads the other's result. The jobs' losses and samples are those of the shared models.
Status cuda_train_second(CudaWorker *self, uint32_t jobs, uint32_t round, Error *err) {
    TRY(cuda_own_begin(&self->own, self->weights, self->jobs, jobs, self->stream, err));
    TRY(cuda_clients_pull(&self->clients, jobs, &self->blocks, self->weights, self->stream, err));
    TRY(cuda_optimizer_begin(self, jobs, false, err));
    self->trains_own = true;
    const Status status = cuda_train_models(self, jobs, personal_round(round), err);
    self->trains_own = false;
    TRY(status);
    return cuda_own_conclude(&self->own, &self->rows, self->weights, self->blocks.weights, self->jobs, jobs,
                             self->stream, err);
}
