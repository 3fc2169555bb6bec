// Part of cuda_worker.h: the state of the optimizers of a launch's clients. A client's row (worker/stepper.h) holds the
// velocity, and Adam's squares with the part of both that is still that of their start.
#include <string.h>

#include "base/cuda_try.h"
#include "fedavg/gpu/cuda_worker.h"

// Velocities of the last launch are cleared where steps build on them (momentum, clipping, Adam); plain SGD has none.
static Status clear(CudaWorker *self, uint32_t jobs, Error *err) {
    const RunConfig *config = self->memory->config;
    const size_t bytes = jobs * (size_t)config->parameters * sizeof(float);
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
    if (!row) return STATUS_OK;
    TRY(cuda_copy(self->velocity + m * count, row, bytes, self->stream, err));
    if (!self->squares) return STATUS_OK;
    memcpy(self->host_forgotten + 2 * (size_t)m, row + 2 * count, 2 * sizeof *self->host_forgotten);
    return cuda_copy(self->squares + m * count, row + count, bytes, self->stream, err);
}

Status cuda_optimizer_begin(CudaWorker *self, uint32_t jobs, bool lasts, Error *err) {
    const RunMemory *memory = self->memory;
    const bool keeps = lasts && memory->config->training.optimizer_state == OPTIMIZER_KEPT;
    TRY(clear(self, jobs, err));
    for (uint32_t m = 0; m < jobs && keeps; m++)
        TRY(load(self, m, client_state_row(&memory->client_state, self->jobs[m]->state_from), err));
    if (!self->squares) return STATUS_OK;
    return cuda_copy(self->forgotten, self->host_forgotten, 2 * jobs * sizeof *self->forgotten, self->stream, err);
}

static Status store(CudaWorker *self, uint32_t m, Error *err) {
    const size_t count = self->memory->config->parameters, bytes = count * sizeof(float);
    const uint32_t row = self->jobs[m]->state_to;
    TRY(cuda_state_rows_write(&self->rows, row, 0, self->velocity + m * count, bytes, self->stream, err));
    if (!self->squares) return STATUS_OK;
    TRY(cuda_state_rows_write(&self->rows, row, bytes, self->squares + m * count, bytes, self->stream, err));
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
