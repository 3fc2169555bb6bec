// Part of cuda_worker.h: the state of the optimizers of a launch's clients. A client's row (worker/stepper.h) holds the
// velocity, and Adam's squares with the part of both that is still that of their start.
#include <string.h>

#include "base/log.h"
#include "fedavg/gpu/cuda_aggregate.h"
#include "fedavg/gpu/cuda_worker.h"
#include "fedavg/memory/state.h"

static bool averages(const CudaWorker *self) {
    return self->memory->config->training.optimizer_state == OPTIMIZER_AVERAGED;
}

// Velocities of the last launch are cleared where steps build on them (momentum, clipping, Adam); plain SGD has none.
static Status clear(CudaWorker *self, uint32_t jobs, Error *err) {
    const RunConfig *config = self->memory->config;
    const size_t bytes = jobs * config->gpu.stride * sizeof(float);
    if (config->training.sgd.momentum > 0 || config->training.clip > 0 || self->squares)
        TRY(cuda_clear(self->velocity, bytes, self->stream, err));
    if (self->squares) TRY(cuda_clear(self->squares, bytes, self->stream, err));
    for (uint32_t i = 0; i < 2 * jobs; i++)
        self->host_forgotten[i] = 1;
    return STATUS_OK;
}

// row: in force; NULL: the client begins with a fresh optimizer.
static Status load(CudaWorker *self, uint32_t m, const float *row, Error *err) {
    const size_t count = self->memory->config->parameters, bytes = count * sizeof(float);
    const size_t place = m * self->memory->config->gpu.stride;
    if (!row) return STATUS_OK;
    TRY(cuda_copy(self->velocity + place, row, bytes, self->stream, err));
    if (!self->squares) return STATUS_OK;
    memcpy(self->host_forgotten + 2 * (size_t)m, row + 2 * count, 2 * sizeof *self->host_forgotten);
    return cuda_copy(self->squares + place, row + count, bytes, self->stream, err);
}

Status cuda_optimizer_begin(CudaWorker *self, uint32_t jobs, bool lasts, Error *err) {
    const RunMemory *memory = self->memory;
    const bool keeps = lasts && memory->config->training.optimizer_state == OPTIMIZER_KEPT;
    TRY(clear(self, jobs, err));
    for (uint32_t m = 0; m < jobs && keeps; m++)
        TRY(load(self, m, client_state_row(&memory->client_state, self->jobs[m]->state_from), err));
    if (lasts && averages(self))
        cuda_broadcast(self->velocity,
                       cuda_blocks_vector(&self->blocks, &memory->config->slots, state_vector(memory, STATE_MOMENTUM)),
                       memory->config->parameters, memory->config->gpu.stride, (int)jobs, self->stream);
    if (!self->squares) return STATUS_OK;
    return cuda_copy(self->forgotten, self->host_forgotten, 2 * jobs * sizeof *self->forgotten, self->stream, err);
}

static Status store(CudaWorker *self, uint32_t m, Error *err) {
    const size_t count = self->memory->config->parameters, bytes = count * sizeof(float);
    const size_t place = m * self->memory->config->gpu.stride;
    const uint32_t row = self->jobs[m]->state_to;
    TRY(cuda_state_rows_write(&self->rows, row, 0, self->velocity + place, bytes, self->stream, err));
    if (!self->squares) return STATUS_OK;
    TRY(cuda_state_rows_write(&self->rows, row, bytes, self->squares + place, bytes, self->stream, err));
    return cuda_state_rows_write(&self->rows, row, 2 * bytes, self->forgotten + 2 * (size_t)m,
                                 2 * sizeof *self->forgotten, self->stream, err);
}

// The rows become the clients' when the round has succeeded: until then a death leaves the old ones in force.
Status cuda_optimizer_conclude(CudaWorker *self, uint32_t jobs, Error *err) {
    const RunMemory *memory = self->memory;
    if (memory->config->training.optimizer_state != OPTIMIZER_KEPT) return STATUS_OK;
    for (uint32_t m = 0; m < jobs; m++)
        TRY(store(self, m, err));
    return STATUS_OK;
}

// Names the momentum, which the host has to fetch: only a refusal pays for that.
static Status refuse(CudaWorker *self, uint32_t m, Error *err) {
    const RunMemory *memory = self->memory;
    const size_t parameter = self->host_unfit[m];
    float momentum;
    TRY(cuda_copy(&momentum, self->velocity + m * memory->config->gpu.stride + parameter, sizeof momentum, self->stream,
                  err));
    TRY(cuda_wait(self->stream, err, "looking at a refused momentum"));
    log_warning("client %u: update refused: the momentum of a weight of %s became %g", self->jobs[m]->client,
                tensors_at(&memory->tensors, parameter)->name, log_real((double)momentum));
    self->fits[m] = false;
    self->host_shares[m] = 0;
    queue_finish(self->jobs[m], JOB_REFUSED);
    return STATUS_OK;
}

Status cuda_momenta_judge(CudaWorker *self, uint32_t *accepted, uint32_t jobs, Error *err) {
    const size_t parameters = self->memory->config->parameters;
    if (!averages(self)) return STATUS_OK;
    cuda_aggregate_first_unfit(self->unfit, self->velocity, NULL, parameters, self->memory->config->gpu.stride,
                               (int)jobs, self->stream);
    TRY(cuda_copy(self->host_unfit, self->unfit, jobs * sizeof *self->unfit, self->stream, err));
    TRY(cuda_wait(self->stream, err, "judging the momenta"));
    for (uint32_t m = 0; m < jobs; m++) {
        if (!self->fits[m] || self->host_unfit[m] >= parameters) continue;
        TRY(refuse(self, m, err));
        --*accepted;
    }
    return STATUS_OK;
}

// A momentum counts by the client's share alone: neither a code nor a bound changes it.
Status cuda_momenta_add(CudaWorker *self, uint32_t jobs, Error *err) {
    const RunConfig *config = self->memory->config;
    double *shares = self->shares + self->models, *host = self->host_shares + self->models;
    if (!averages(self)) return STATUS_OK;
    for (uint32_t m = 0; m < jobs; m++)
        host[m] = self->fits[m] ? self->jobs[m]->share : 0;
    TRY(cuda_copy(shares, host, jobs * sizeof *shares, self->stream, err));
    cuda_aggregate_add(cuda_blocks_sum(&self->blocks, &config->slots, self->rank, 1), self->velocity, NULL, shares,
                       config->parameters, config->gpu.stride, (int)jobs, &self->fence, self->stream);
    return STATUS_OK;
}
