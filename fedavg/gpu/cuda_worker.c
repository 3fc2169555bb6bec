#include "fedavg/gpu/cuda_worker.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/cuda_try.h"
#include "base/log.h"
#include "fedavg/gpu/cuda_aggregate.h"
#include "fedavg/gpu/gpu.h"
#include "fedavg/rules/local/optimizer_rules.h"

// A launch goes through these steps: take jobs, copy the global weights into each model, train, judge and send the
// updates, add them to the slot, finish the jobs. The host waits for the GPU only where it needs numbers (losses,
// refusals) or must not be faster than the GPU (marks of `adding`, finished jobs): a mark that is stored before the
// kernels are done would tell the parent something that is not true yet.
//
// All shared memory on the GPU is written by kernels with a fence, since work that this process has queued can outlive
// it.

// Life ---------------------------------------------------------------------------------------------------------------

// For a failed cuda_worker_init, too: all that is not allocated yet is NULL. The net is freed first, since its graphs
// point into the arrays. This process only ends its imports of the blocks; their memory is the parent's.
static void cuda_worker_free(void *worker) {
    CudaWorker *self = worker;
    cuda_net_free(self->net);
    sender_free(&self->sender);
    cuda_state_rows_free(&self->rows);
    cuda_samples_free(&self->samples);
    cuda_blocks_free(&self->blocks);
    cuda_arrays_free(&self->arrays);
    free(self);
    device_close(); // a profiler, and MPS, want the context to end before the process does
}

// All memory of a launch is allocated once, for the largest launch, so that taking, ordering and judging jobs cannot
// fail for lack of memory in the middle of a round.
static Status allocate_host(CudaWorker *self, Error *err) {
    self->host_order = own(&self->arrays.host, cuda_samples_most(self->memory), sizeof *self->host_order);
    self->next_order = own(&self->arrays.host, cuda_samples_most(self->memory), sizeof *self->next_order);
    self->host_unfit = own(&self->arrays.host, self->models, sizeof *self->host_unfit);
    self->host_shares = own(&self->arrays.host, 2 * (size_t)self->models, sizeof *self->host_shares);
    self->host_forgotten = own(&self->arrays.host, 2 * (size_t)self->models, sizeof *self->host_forgotten);
    self->fits = own(&self->arrays.host, self->models, sizeof *self->fits);
    self->jobs = own(&self->arrays.host, self->models, sizeof *self->jobs);
    self->next_jobs = own(&self->arrays.host, self->models, sizeof *self->next_jobs);
    self->results = own(&self->arrays.host, self->models, sizeof *self->results);
    if (!self->arrays.host.lacks_memory) return STATUS_OK;
    return fail(err, STATUS_OS, "no memory for a worker of %u models", self->models);
}

// Engines differ in what a worker needs for itself. Hogwild trains the parent's weights in place; lockstep steps them
// in place, with a velocity in the slots; only the other engines train copies, one per model of a launch. gpu_need in
// cuda_plan.c counts these arrays before the run: change both together.
static Status allocate_device(CudaWorker *self, Error *err) {
    const RunConfig *config = self->memory->config;
    const Algorithm *algorithm = &self->memory->algorithm;
    const size_t floats = self->models * config->gpu.stride;
    if (!algorithm->engine->writes_weights)
        TRY(cuda_allocate(&self->arrays, &self->weights, floats, sizeof(float), "local models", err));
    if (!algorithm->engine->in_lockstep)
        TRY(cuda_allocate(&self->arrays, &self->velocity, floats, sizeof(float), "velocities", err));
    if (algorithm->optimizer->states > 1) {
        TRY(cuda_allocate(&self->arrays, &self->squares, floats, sizeof(float), "Adam's squares", err));
        TRY(cuda_allocate(&self->arrays, &self->forgotten, 2 * (size_t)self->models, sizeof(double), "Adam's powers",
                          err));
    }
    TRY(cuda_allocate(&self->arrays, &self->gradient, floats, sizeof(float), "gradients", err));
    TRY(cuda_allocate(&self->arrays, &self->order, cuda_samples_most(self->memory), sizeof(uint32_t),
                      "the order of samples", err));
    TRY(cuda_allocate(&self->arrays, &self->shares, 2 * (size_t)self->models, sizeof(double), "shares", err));
    TRY(cuda_allocate(&self->arrays, &self->unfit, self->models, sizeof(uint64_t), "refusals", err));
    const size_t classes = self->memory->class_weights ? (size_t)config->spec.classes : 0;
    TRY(cuda_allocate(&self->arrays, &self->class_weights, classes, sizeof(float), "weights of classes", err));
    return cuda_allocate(&self->arrays, &self->counts, config->clients, sizeof(uint32_t), "the shards' samples", err);
}

// Samples are read from the parent's block, the order of a client's samples from this worker's own array. With Hogwild
// the net steps the shared weights: its kernels check the fence and count updates. In lockstep the net only computes
// gradients at the shared weights, and cuda_ssgd.c steps them.
static CudaNetPlan make_plan(const CudaWorker *self) {
    const RunConfig *config = self->memory->config;
    CudaNetPlan plan = {.spec = config->spec,
                        .models = (int)self->models,
                        .batch_size = config->training.batch_size,
                        .tf32 = config->gpu.tf32 != 0,
                        .sgd = config->training.sgd,
                        .pixels = self->blocks.train_pixels,
                        .labels = self->blocks.train_labels,
                        .class_weights = self->class_weights,
                        .order = self->order,
                        .weights = self->blocks.weights,
                        .stride = config->gpu.stride,
                        .velocity = self->velocity,
                        .gradient = self->gradient,
                        .optimizer = {.nesterov = config->training.nesterov && config->training.sgd.momentum > 0,
                                      .adam = optimizer_adam(&config->recipe.optimizer),
                                      .squares = self->squares,
                                      .forgotten = self->forgotten,
                                      .clip = config->training.clip},
                        .gradient_shifts = self->clients.shifts,
                        .pulls = self->clients.pulls,
                        .full_gradient = self->clients.full_gradient,
                        .totals = self->clients.totals};
    cuda_samples_plan(&plan, &self->samples);
    if (!self->memory->algorithm.engine->writes_weights) {
        plan.weights = self->weights;
        plan.weights_stride = config->gpu.stride;
    }
    if (self->memory->algorithm.engine->client_is_worker) {
        plan.fence = self->fence;
        plan.updates = self->blocks.updates;
        plan.atomic_updates = config->training.hogwild_update == HOGWILD_ATOMIC;
    }
    return plan;
}

// Reads this worker's generation, which its kernels compare. The parent changes it when this process has died, so that
// kernels that are still queued leave shared memory alone. The read precedes every launch of this process. The parent
// raises the word only when the process is proven dead, and starts a successor after that: the successor reads its own
// value.
static Status open_fence(CudaWorker *self, Error *err) {
    self->fence.word = self->blocks.generations + self->rank;
    CUDA_TRY(cudaMemcpy(&self->fence.expected, self->fence.word, sizeof self->fence.expected, cudaMemcpyDeviceToHost),
             err, "reading the generation of this worker");
    log_debug("generation %u on the GPU", self->fence.expected);
    return STATUS_OK;
}

// For lockstep: the kernel that averages the gradients weighs each shard by its samples in the step, and computes these
// from the shard's size (shard_batch_samples), so that no list has to be copied in each step.
static Status upload_counts(CudaWorker *self, Error *err) {
    const uint32_t clients = self->memory->config->clients;
    uint32_t *counts = own(&self->arrays.host, clients, sizeof *counts);
    if (!counts) return fail(err, STATUS_OS, "no memory for the sizes of %u shards", clients);
    for (uint32_t client = 0; client < clients; client++)
        partition_client(&self->memory->partition, client, &counts[client]);
    TRY(cuda_copy(self->counts, counts, clients * sizeof *counts, self->stream, err));
    return cuda_wait(self->stream, err, "copying the sizes of the shards");
}

// The clients' arrays and the sender precede the net, whose plan points at them. A worker that fails here exits with
// the sentence, which the parent passes on: a successor would fail, too, so that a few such deaths end the run.
static Status cuda_worker_init(void **worker, const RunMemory *memory, uint32_t rank, Error *err) {
    const RunConfig *config = memory->config;
    CudaWorker *self = calloc(1, sizeof *self);
    if (!self) return fail(err, STATUS_OS, "no memory for a worker");
    *self = (CudaWorker){.memory = memory, .rank = rank, .models = config->gpu.models_per_launch};
    Device device;
    Status status;
    TRY_GOTO(fail, cuda_leave_cores(config, err));
    TRY_GOTO(fail, device_open(&device, (int)config->gpu.gpu, err));
    TRY_GOTO(fail, cuda_blocks_open(&self->blocks, &config->gpu, err));
    TRY_GOTO(fail, open_fence(self, err));
    TRY_GOTO(fail, allocate_host(self, err));
    TRY_GOTO(fail, allocate_device(self, err));
    TRY_GOTO(fail, cuda_clients_init(&self->clients, &self->arrays, memory, self->models, err));
    TRY_GOTO(fail, cuda_own_init(&self->own, &self->arrays, memory, self->models, err));
    TRY_GOTO(fail, cuda_state_rows_init(&self->rows, &memory->client_state, err));
    TRY_GOTO(fail, cuda_samples_init(&self->samples, &self->arrays, memory, self->models, err));
    TRY_GOTO(fail, cuda_send_init(self, err));
    const CudaNetPlan plan = make_plan(self);
    TRY_GOTO(fail, cuda_net_init(&self->net, &plan, err));
    self->stream = cuda_net_stream(self->net);
    if (memory->algorithm.engine->in_lockstep) TRY_GOTO(fail, upload_counts(self, err));
    if (self->class_weights)
        TRY_GOTO(fail, cuda_copy(self->class_weights, memory->class_weights,
                                 (size_t)config->spec.classes * sizeof(float), self->stream, err));
    *worker = self;
    return STATUS_OK;
fail:
    cuda_worker_free(self);
    return status;
}

// Fedavg -------------------------------------------------------------------------------------------------------------

// Names the weight that is not fit, which the host has to fetch: only a refusal pays for that.
static Status refuse(const CudaWorker *self, uint32_t m, Error *err) {
    size_t parameter = self->host_unfit[m];
    float before, after;
    TRY(cuda_copy(&before, self->blocks.weights + parameter, sizeof before, self->stream, err));
    TRY(cuda_copy(&after, self->weights + m * self->memory->config->gpu.stride + parameter, sizeof after, self->stream,
                  err));
    TRY(cuda_wait(self->stream, err, "looking at a refused update"));
    log_warning("client %u: update refused: a weight of %s became %g (it was %g)%s", self->jobs[m]->client,
                tensors_at(&self->memory->tensors, parameter)->name, log_real((double)after), (double)before,
                run_memory_remedy(self->memory, parameter));
    queue_finish(self->jobs[m], JOB_REFUSED);
    return STATUS_OK;
}

// Refuses by name the updates that are not finite or out of range: their share in the sum becomes 0, so that one kernel
// adds all models of the launch. *accepted: the number of the others. Only the index of the first unfit weight travels
// to the host, in one wait per launch. A client may have a share of 0 without being refused: `fits`, not the share,
// decides how its job ends.
static Status judge(CudaWorker *self, uint32_t *accepted, uint32_t jobs, uint32_t round, Error *err) {
    size_t parameters = self->memory->config->parameters;
    *accepted = 0;
    cuda_aggregate_first_unfit(self->unfit, self->weights, self->blocks.weights, parameters,
                               self->memory->config->gpu.stride, (int)jobs, self->stream);
    TRY(cuda_copy(self->host_unfit, self->unfit, jobs * sizeof *self->unfit, self->stream, err));
    TRY(cuda_wait(self->stream, err, "judging the updates"));
    for (uint32_t m = 0; m < jobs; m++) {
        Job *job = self->jobs[m];
        bool fits = self->host_unfit[m] >= parameters;
        if (!fits) TRY(refuse(self, m, err));
        if (fits && !self->fits[m]) {
            deliver_log_unkept(job, self->memory->config);
            queue_finish(job, JOB_REFUSED);
        }
        self->fits[m] = self->fits[m] && fits; // a share may be 0
        self->host_shares[m] = self->fits[m] ? job->share * deliver_bound(self->memory, job->squared_length) : 0;
        *accepted += self->fits[m];
    }
    TRY(cuda_momenta_judge(self, accepted, jobs, err));
    TRY(cuda_send_updates(self, accepted, jobs, round, err));
    return cuda_copy(self->shares, self->host_shares, jobs * sizeof *self->shares, self->stream, err);
}

// As in deliver.c: the slot may hold the sum of an earlier round, which is cleared, or updates of this round that a
// dead predecessor finished, which stay. The slot is cleared before its round is stored: a worker that dies in between
// leaves the old round there, and its successor clears the slot again.
static Status begin_sum(const CudaWorker *self, uint32_t round, Error *err) {
    const RunConfig *config = self->memory->config;
    SumState *state = &self->memory->control->sums[self->rank];
    if (atomic_load(&state->round) == round) return STATUS_OK;
    cuda_copy_shared(cuda_blocks_sum(&self->blocks, &config->slots, self->rank, 0), NULL,
                     config->slots.each * config->slots.sum_bytes, &self->fence, self->stream);
    TRY(cuda_wait(self->stream, err, "clearing the sum"));
    atomic_store(&state->round, round);
    return STATUS_OK;
}

// Copies the updates of accepted clients into their rows, which are stored in the host's memory, where the parent
// combines them. A row belongs to one job and is overwritten when the job is done again, so that a death here needs no
// mark of `adding`: the parent opens the unfinished jobs, and other workers write their rows over.
static Status hand_in_rows(CudaWorker *self, uint32_t jobs, Error *err) {
    const RunMemory *memory = self->memory;
    const size_t parameters = memory->config->parameters;
    for (uint32_t m = 0; m < jobs && !self->trained; m++)
        if (self->fits[m])
            TRY(cuda_copy(run_memory_row(memory, self->jobs[m]->place), self->weights + m * memory->config->gpu.stride,
                          parameters * sizeof(float), self->stream, err));
    TRY(cuda_wait(self->stream, err, "handing the updates in"));
    for (uint32_t m = 0; m < jobs; m++)
        if (self->fits[m]) queue_finish(self->jobs[m], JOB_DONE);
    return STATUS_OK;
}

// Adds the updates to this worker's slot and finishes the jobs. A worker that dies between the two marks of `adding`
// leaves a sum that no process can use: the parent has its jobs of the round done again. Jobs are finished inside the
// marks, since one kernel adds all models of a launch: no launch is ever half counted.
//
// The new client states are computed first, because an update whose client state does not fit is refused as a whole.
static Status hand_in(CudaWorker *self, uint32_t jobs, uint32_t round, Error *err) {
    const RunConfig *config = self->memory->config;
    SumState *state = &self->memory->control->sums[self->rank];
    uint32_t accepted;
    TRY(cuda_clients_conclude(&self->clients, &self->rows, self->fits, self->jobs, jobs, err));
    TRY(judge(self, &accepted, jobs, round, err));
    if (accepted == 0) return STATUS_OK;
    if (config->slots.rows > 0) return hand_in_rows(self, jobs, err);
    TRY(begin_sum(self, round, err));
    atomic_store(&state->adding, 1);
    cuda_aggregate_add(cuda_blocks_sum(&self->blocks, &config->slots, self->rank, 0), self->weights, self->from,
                       self->shares, config->parameters, config->gpu.stride, (int)jobs, &self->fence, self->stream);
    if (self->clients.state)
        cuda_clients_add_changes(&self->clients, cuda_blocks_sum(&self->blocks, &config->slots, self->rank, 1),
                                 self->shares, &self->fence);
    TRY(cuda_momenta_add(self, jobs, err));
    TRY(cuda_wait(self->stream, err, "adding the updates"));
    for (uint32_t m = 0; m < jobs; m++)
        if (self->fits[m]) queue_finish(self->jobs[m], JOB_DONE);
    atomic_store(&state->adding, 0);
    return STATUS_OK;
}

// No worker writes the global weights during the phase, so that all launches begin from one state. The local rule reads
// the local models as they begin, so that they are copied first, and get the parameters that stay with their clients.
//
// Lengths are measured before the updates are judged, because a rule with a bound needs them for the shares, and before
// an attack or a code replaces what was trained.
static Status train_clients(CudaWorker *self, uint32_t jobs, uint32_t round, Error *err) {
    const bool second = self->memory->config->personal.second;
    TRY(cuda_samples_train(&self->samples, self->jobs, jobs, round, self->stream, err));
    if (second) TRY(cuda_train_second(self, jobs, round, err));
    cuda_broadcast(self->weights, self->blocks.weights, self->memory->config->parameters,
                   self->memory->config->gpu.stride, (int)jobs, self->stream);
    if (!second) TRY(cuda_own_begin(&self->own, self->weights, self->jobs, jobs, self->stream, err));
    TRY(cuda_clients_begin(&self->clients, self->jobs, jobs, round, &self->blocks, self->weights, self->stream, err));
    TRY(cuda_look(self, jobs, round, err));
    TRY(cuda_train_turn(self, jobs, round, err));
    if (!second)
        TRY(cuda_own_conclude(&self->own, &self->rows, self->weights, self->blocks.weights, self->jobs, jobs,
                              self->stream, err));
    TRY(cuda_inspect_updates(self, jobs, err));
    return hand_in(self, jobs, round, err);
}

// Hogwild ------------------------------------------------------------------------------------------------------------

// Trains the one model with Hogwild. The velocity in the slot is replaced when the client is done: a worker that dies
// earlier leaves the old one. A launch has one model here (most_models in cuda_plan.c), so that jobs[0] is the only
// job.
static Status train_wild(CudaWorker *self, uint32_t jobs, uint32_t round, Error *err) {
    const RunConfig *config = self->memory->config;
    WorkerTally *tally = &self->memory->control->tallies[self->rank];
    float *slot = cuda_blocks_vector(&self->blocks, &config->slots, self->jobs[0]->client);
    size_t bytes = config->parameters * sizeof(float);
    uint64_t refused, sum, staleness[STALENESS_BUCKETS];
    TRY(cuda_copy(self->velocity, slot, bytes, self->stream, err));
    TRY(cuda_train_models(self, jobs, round, err));
    cuda_copy_shared(slot, self->velocity, bytes, &self->fence, self->stream);
    TRY(cuda_wait(self->stream, err, "keeping the velocity"));
    TRY(cuda_net_staleness(self->net, &refused, &sum, staleness, STALENESS_BUCKETS, err));
    tally->refused_steps += refused;
    tally->staleness_sum += sum;
    for (int bucket = 0; bucket < STALENESS_BUCKETS; bucket++)
        tally->staleness[bucket] += staleness[bucket];
    queue_finish(self->jobs[0], JOB_DONE);
    return STATUS_OK;
}

// Phases --------------------------------------------------------------------------------------------------------------

// Returns the next jobs, as many as a launch has models: those that were taken in advance, if there are any. The two
// arrays change places, since look_ahead fills next_jobs while the launch uses jobs. Without jobs taken in advance an
// order shuffled in advance is void: it is recognised by a job's address, which the next phase uses again.
static uint32_t take_jobs(CudaWorker *self) {
    uint32_t jobs = self->next_count;
    self->begun_nanoseconds = clock_nanoseconds();
    if (jobs == 0) {
        self->shuffled = (CudaShuffled){0};
        return cuda_take(self, self->jobs);
    }
    Job **taken = self->next_jobs;
    self->next_jobs = self->jobs;
    self->jobs = taken;
    self->next_count = 0;
    return jobs;
}

// A worker owns the jobs of its launch and those that it has taken in advance; when it dies, the parent opens both
// again. The loop ends only when take_jobs has neither left.
static Status train_jobs(CudaWorker *self, Status (*train)(CudaWorker *, uint32_t, uint32_t, Error *), uint32_t round,
                         Error *err) {
    TraceBuffer *trace = run_memory_trace(self->memory, self->rank);
    self->round = round;
    for (uint32_t jobs; (jobs = take_jobs(self)) > 0;) {
        run_memory_note_start(self->memory, self->rank);
        uint64_t begin = trace_begin(trace);
        TRY(train(self, jobs, round, err));
        for (uint32_t m = 0; m < jobs; m++) // side by side on the GPU, one inside the other in the trace
            trace_end(trace, TRACE_CLIENT, begin, round, self->jobs[m]->client);
    }
    return STATUS_OK;
}

// Evaluation takes jobs as training does, launch by launch; it writes no shared memory of the GPU, so that no fence is
// needed.
static Status cuda_evaluate_jobs(void *state, uint32_t round, Error *err) {
    CudaWorker *self = state;
    TraceBuffer *trace = run_memory_trace(self->memory, self->rank);
    self->round = round;
    for (uint32_t jobs; (jobs = take_jobs(self)) > 0;) {
        uint64_t begin = trace_begin(trace);
        TRY(cuda_evaluate_clients(self, jobs, round, err));
        for (uint32_t m = 0; m < jobs; m++)
            trace_end(trace, TRACE_CHUNK, begin, round, self->jobs[m]->client);
    }
    return STATUS_OK;
}

static Status cuda_train_clients(void *state, uint32_t round, pid_t parent, Error *err) {
    (void)parent;
    return train_jobs(state, train_clients, round, err);
}

static Status cuda_train_wild(void *state, uint32_t round, pid_t parent, Error *err) {
    (void)parent;
    return train_jobs(state, train_wild, round, err);
}

static Status cuda_train_in_lockstep(void *state, uint32_t round, pid_t parent, Error *err) {
    CudaWorker *self = state;
    run_memory_note_start(self->memory, self->rank);
    return cuda_ssgd_train(self, round, parent, err);
}

// Engines without a row here are refused for a GPU by a clash of the algorithm (algorithm/clashes.c).
const WorkerBackend *worker_on_gpu(void) {
    static const WorkerBackend backend = {.init = cuda_worker_init,
                                          .free = cuda_worker_free,
                                          .train = {[ENGINE_ROUNDS] = cuda_train_clients,
                                                    [ENGINE_WILD] = cuda_train_wild,
                                                    [ENGINE_LOCKSTEP] = cuda_train_in_lockstep},
                                          .evaluate = cuda_evaluate_jobs};
    return &backend;
}
