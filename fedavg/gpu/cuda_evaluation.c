// Part of cuda_worker.h: evaluation of clients' own samples, before and after training, with one model of a launch per
// client; and the length of updates.
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/cuda_try.h"
#include "fedavg/gpu/cuda_aggregate.h"
#include "fedavg/gpu/cuda_worker.h"
#include "fedavg/rules/attack/attack_rules.h"
#include "fedavg/worker/deliver.h"
#include "fedavg/worker/evaluation.h"
#include "fedavg/worker/local_test.h"

// order: the numbers of the samples that the job is about, job->samples of them. Test samples are numbered after the
// training samples, so that one array of the GPU serves both. The parent's count of a job on marked samples stays,
// since the job may have to be done again.
static void list_samples(const CudaWorker *self, uint32_t *order, Job *job, uint32_t round) {
    const Dataset *data = &self->memory->data;
    const bool marked = job->task == EVALUATE_BACKDOOR;
    bool of_test_set = true;
    if (marked) {
        job->samples = attack_others(order, data->test.labels, job->first, job->count, &self->memory->config->attack);
    } else {
        const ClientSamples samples = local_test_samples(self->memory, job, round);
        memcpy(order, samples.indices, samples.count * sizeof *order);
        job->samples = job->count = samples.count;
        of_test_set = samples.of_test_set;
    }
    for (uint64_t s = 0; s < job->samples && of_test_set; s++)
        order[s] += data->train.count;
}

// Gives every model the samples of its job's client. *steps: of the largest client. No copy from host_order is under
// way.
static Status assign_clients(CudaWorker *self, uint32_t *steps, uint32_t jobs, uint32_t round, Error *err) {
    uint32_t first = 0, size = self->memory->config->training.batch_size;
    *steps = 0;
    for (uint32_t m = 0; m < jobs; m++) {
        list_samples(self, self->host_order + first, self->jobs[m], round);
        const uint32_t count = (uint32_t)self->jobs[m]->samples;
        CudaTask task = {.first = first, .count = count};
        TRY(cuda_net_assign(self->net, (int)m, &task, true, err));
        first += count;
        uint32_t batches = count / size + (count % size != 0);
        if (batches > *steps) *steps = batches;
    }
    CUDA_TRY(
        cudaMemcpyAsync(self->order, self->host_order, first * sizeof *self->order, cudaMemcpyDefault, self->stream),
        err, "copying the order of %u samples", first);
    return STATUS_OK;
}

// All jobs of a phase have one task, so that the models of a launch are prepared alike. Fine-tuning, which has epochs,
// trains without the local rule, whose shifts are set to zero first, and in a round of its own (evaluation_round), so
// that its shuffles repeat those of no round of training.
static Status prepare_models(CudaWorker *self, uint32_t jobs, uint32_t round, Error *err) {
    TRY(cuda_samples_test(&self->samples, self->jobs, jobs, round, self->stream, err));
    cuda_broadcast(self->weights, self->blocks.weights, self->memory->config->parameters,
                   self->memory->config->gpu.stride, (int)jobs, self->stream);
    const PersonalPlan *plan = &self->memory->config->personal;
    const bool personal = self->jobs[0]->task == EVALUATE_PERSONAL;
    if (personal) TRY(cuda_own_begin(&self->own, self->weights, self->jobs, jobs, self->stream, err));
    if (self->jobs[0]->epochs == 0) return STATUS_OK;
    TRY(cuda_clients_rest(&self->clients, self->stream, err));
    TRY(cuda_net_hold(self->net, 0, personal && plan->tunes_head ? plan->first : 0, err));
    TRY(cuda_optimizer_begin(self, jobs, false, err));
    TRY(cuda_train_models(self, jobs, evaluation_round(round), err));
    return cuda_net_hold(self->net, 0, 0, err);
}

// Samples of the jobs' clients in their first `steps` batches.
static uint64_t samples_until(const CudaWorker *self, uint32_t jobs, uint32_t steps) {
    const uint64_t most = (uint64_t)steps * self->memory->config->training.batch_size;
    uint64_t samples = 0;
    for (uint32_t m = 0; m < jobs; m++)
        samples += self->jobs[m]->samples < most ? self->jobs[m]->samples : most;
    return samples;
}

// Waits every few steps, as training does.
static Status evaluate_models(CudaWorker *self, uint32_t jobs, uint32_t steps, Error *err) {
    _Atomic uint64_t *progress = &self->memory->control->pulses[self->rank].progress;
    for (uint32_t done = 0, now; done < steps; done += now) {
        now = cuda_pace_begin(&self->evaluating, steps - done);
        TRY(cuda_net_evaluate(self->net, now, err));
        TRY(cuda_wait(self->stream, err, "evaluating"));
        cuda_pace_end(&self->evaluating);
        const uint64_t samples = samples_until(self, jobs, done + now) - samples_until(self, jobs, done);
        atomic_fetch_add_explicit(progress, samples, memory_order_relaxed);
    }
    return cuda_net_results(self->net, self->results, err);
}

// Models are prepared before their samples are assigned: fine-tuning assigns training samples, and the evaluation then
// replaces these. Results are written beside the jobs, so that a death costs only the jobs of one launch.
Status cuda_evaluate_clients(CudaWorker *self, uint32_t jobs, uint32_t round, Error *err) {
    uint32_t steps;
    TRY(prepare_models(self, jobs, round, err));
    TRY(assign_clients(self, &steps, jobs, round, err));
    TRY(evaluate_models(self, jobs, steps, err));
    for (uint32_t m = 0; m < jobs; m++) {
        Job *job = self->jobs[m];
        job->loss_sum = self->results[m].loss_sum;
        job->hits = self->results[m].hits;
        job->seconds = clock_seconds_since(self->begun_nanoseconds);
        queue_finish(job, JOB_DONE);
    }
    return STATUS_OK;
}

// The host has the weights that the round began with, too: it measures what a worker on the CPU would measure, by the
// CPU's code, since a sum on the GPU would have other partial sums.
Status cuda_inspect_updates(const CudaWorker *self, uint32_t jobs, Error *err) {
    const RunMemory *memory = self->memory;
    size_t count = memory->config->parameters, bytes = count * sizeof(float);
    if (!memory->config->inspects_updates) return STATUS_OK;
    float *trained = malloc(bytes);
    if (!trained) return fail(err, STATUS_OS, "no memory for a look at %zu parameters", count);
    Status status = STATUS_OK;
    for (uint32_t m = 0; m < jobs && status == STATUS_OK; m++) {
        status = cuda_copy(trained, self->weights + m * memory->config->gpu.stride, bytes, self->stream, err);
        if (status == STATUS_OK) status = cuda_wait(self->stream, err, "looking at the updates");
        if (status == STATUS_OK) deliver_inspect(self->jobs[m], memory, trained);
    }
    free(trained);
    return status;
}
