// Part of cuda_worker.h: clients of a run on the GPU send their updates (worker/deliver.h) on the host, by the code of
// the CPU, so that equal weights give equal bits. The sent updates are then added on the GPU.
#include <stdlib.h>

#include "fedavg/gpu/cuda_worker.h"
#include "fedavg/rules/attack/attack_rules.h"

// Crafted attacks are not among these: the parent makes their updates from all rows (parent/crafting.c). cuda_plan.c
// calls it, too, to count the zeros.
bool cuda_sends(const RunConfig *config) {
    const Recipe *recipe = &config->recipe;
    return (config->attack.row != ATTACK_NONE && !attack_is_crafted(&config->attack)) || recipe->clip.row > 0 ||
           recipe->noise.row > 0 || recipe->code.row > 0;
}

// The zeros are what a decoded update is the difference from: cuda_aggregate_add subtracts one global vector from all
// models of a launch, and there the update itself is the model. Without sending, trained stays NULL, which is how
// others ask whether this run sends.
Status cuda_send_init(CudaWorker *self, Error *err) {
    const RunConfig *config = self->memory->config;
    const size_t bytes = config->parameters * sizeof(float);
    if (!cuda_sends(config)) return STATUS_OK;
    TRY(sender_init(&self->sender, self->memory, err));
    self->trained = malloc(bytes);
    if (!self->trained) return fail(err, STATUS_OS, "no memory for a model of %zu bytes", bytes);
    return cuda_allocate(&self->zeros, config->parameters, sizeof(float), "zeros", err);
}

void cuda_send_free(CudaWorker *self) {
    cudaFree(self->zeros);
    free(self->trained);
    sender_free(&self->sender);
}

// One model at a time goes to the host and back: sending costs encoding anyway, and one buffer on the host is enough
// for any number of models. A refused update keeps its place in the launch with a share of 0. Updates that the parent
// combines in rows are written to their rows at once, as weights, and never return to the GPU.
static Status send(CudaWorker *self, uint32_t m, uint32_t round, Error *err) {
    const RunMemory *memory = self->memory;
    const size_t parameters = memory->config->parameters, bytes = parameters * sizeof(float);
    float *model = self->weights + m * parameters;
    Job *job = self->jobs[m];
    Sent sent;
    TRY(cuda_copy(self->trained, model, bytes, self->stream, err));
    TRY(cuda_wait(self->stream, err, "copying a model to the host"));
    if (!deliver_send(&sent, &self->sender, job, self->trained, round)) {
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
    TRY(cuda_copy(model, sent.values, bytes, self->stream, err));
    return cuda_wait(self->stream, err, "copying an update to the GPU");
}

// Counts again: an update that was fit as trained may be refused for what its client sends, and a launch in which no
// update is left adds nothing.
Status cuda_send_updates(CudaWorker *self, uint32_t *accepted, uint32_t jobs, uint32_t round, Error *err) {
    self->from = self->blocks.weights;
    if (!self->trained) return STATUS_OK;
    *accepted = 0;
    for (uint32_t m = 0; m < jobs; m++) {
        if (self->fits[m]) TRY(send(self, m, round, err));
        *accepted += self->fits[m];
    }
    return STATUS_OK;
}
