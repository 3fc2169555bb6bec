// Part of cuda_worker.h: clients of a run on the GPU send their updates (worker/deliver.h) by the code of the CPU, so
// that equal weights give equal bits. An update that is only clipped stays on the GPU: clipping is a factor of its
// share, which the host computes from the update's length. Attacks and codes change the update itself, on the host; the
// sent updates are then added on the GPU.
#include <math.h>
#include <stdlib.h>

#include "fedavg/gpu/cuda_aggregate.h"
#include "fedavg/gpu/cuda_worker.h"
#include "fedavg/rules/attack/attack_rules.h"

// Attackers with false labels hand in what they have trained, and the parent makes crafted updates from all rows
// (parent/crafting.c). cuda_plan.c calls it, too, to count the zeros.
bool cuda_sends(const RunConfig *config) {
    const Recipe *recipe = &config->recipe;
    const Chosen *attack = &config->attack;
    const bool attacks = attack->row != ATTACK_NONE && !attack_is_on_labels(attack) && !attack_is_crafted(attack);
    return attacks || recipe->clip.row > 0 || recipe->noise.row > 0 || recipe->code.row > 0;
}

// The zeros are what a decoded update is the difference from: cuda_aggregate_add subtracts one global vector from all
// models of a launch, and there the update itself is the model. Without sending, trained stays NULL, which is how
// others ask whether this run sends.
Status cuda_send_init(CudaWorker *self, Error *err) {
    const RunConfig *config = self->memory->config;
    const size_t bytes = config->parameters * sizeof(float);
    if (!cuda_sends(config)) return STATUS_OK;
    TRY(sender_init(&self->sender, self->memory, err));
    self->trained = own(&self->arrays.host, config->parameters, sizeof *self->trained);
    self->host_lengths = own(&self->arrays.host, self->models, sizeof *self->host_lengths);
    if (self->arrays.host.lacks_memory) return fail(err, STATUS_OS, "no memory for a model of %zu bytes", bytes);
    if (config->recipe.clip.row > 0 && !config->inspects_updates) // else the jobs have their lengths
        TRY(cuda_allocate(&self->arrays, &self->lengths, self->models, sizeof(double), "lengths of updates", err));
    return cuda_allocate(&self->arrays, &self->zeros, config->parameters, sizeof(float), "zeros", err);
}

// Whether the host needs the client's weights: an attack or a code changes them, and rows are stored on the host.
static bool passes_host(const CudaWorker *self, const Job *job) {
    return job->attacks || self->sender.update || self->memory->config->slots.rows > 0;
}

// The lengths of the updates, from which the factors of clipping follow.
static Status measure(CudaWorker *self, uint32_t jobs, Error *err) {
    const RunConfig *config = self->memory->config;
    if (!self->lengths) return STATUS_OK;
    cuda_aggregate_squared_updates(self->lengths, self->weights, self->blocks.weights, config->parameters,
                                   config->gpu.stride, (int)jobs, self->stream);
    TRY(cuda_copy(self->host_lengths, self->lengths, jobs * sizeof *self->lengths, self->stream, err));
    return cuda_wait(self->stream, err, "measuring the updates");
}

// As deliver_send; trained: NULL if the update stays on the GPU. A run that does not inspect updates reports no
// lengths, so that the job's is erased afterwards.
static bool deliver_measured(Sent *sent, CudaWorker *self, uint32_t m, float *trained, uint32_t round) {
    Job *job = self->jobs[m];
    if (self->lengths) job->squared_length = self->host_lengths[m];
    const bool is_sent = deliver_send(sent, &self->sender, job, trained, round);
    if (self->lengths) job->squared_length = NAN;
    return is_sent;
}

// The models that the host needs are copied to it one at a time: encoding costs more, and one buffer on the host is
// enough for any number of models. A refused update keeps its place in the launch with a share of 0. Updates that the
// parent combines in rows are written to their rows at once, as weights, and never return to the GPU.
static Status send(CudaWorker *self, uint32_t m, uint32_t round, Error *err) {
    const RunMemory *memory = self->memory;
    const size_t parameters = memory->config->parameters, bytes = parameters * sizeof(float);
    float *model = self->weights + m * memory->config->gpu.stride;
    Job *job = self->jobs[m];
    float *trained = passes_host(self, job) ? self->trained : NULL;
    Sent sent;
    if (trained) TRY(cuda_copy(trained, model, bytes, self->stream, err));
    if (trained) TRY(cuda_wait(self->stream, err, "copying a model to the host"));
    if (!deliver_measured(&sent, self, m, trained, round)) {
        self->host_shares[m] = 0;
        self->fits[m] = false;
        queue_finish(job, JOB_REFUSED);
        return STATUS_OK;
    }
    self->from = sent.from ? self->blocks.weights : self->zeros; // the same for all clients of a run
    self->host_shares[m] = job->share * sent.factor * deliver_bound_sent(memory, &sent);
    if (memory->config->slots.rows > 0) {
        sent_as_weights(run_memory_row(memory, job->place), &sent, memory->weights, parameters);
        return STATUS_OK;
    }
    if (!trained) return STATUS_OK;
    TRY(cuda_copy(model, sent.values, bytes, self->stream, err));
    return cuda_wait(self->stream, err, "copying an update to the GPU");
}

// Counts again: an update that was fit as trained may be refused for what its client sends, and a launch in which no
// update is left adds nothing.
Status cuda_send_updates(CudaWorker *self, uint32_t *accepted, uint32_t jobs, uint32_t round, Error *err) {
    self->from = self->blocks.weights;
    if (!self->trained) return STATUS_OK;
    TRY(measure(self, jobs, err));
    *accepted = 0;
    for (uint32_t m = 0; m < jobs; m++) {
        if (self->fits[m]) TRY(send(self, m, round, err));
        *accepted += self->fits[m];
    }
    return STATUS_OK;
}
