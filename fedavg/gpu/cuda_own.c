#include "cuda_own.h"

#include <stdlib.h>

#include "base/cuda_try.h"
#include "fedavg/gpu/cuda_aggregate.h"
#include "fedavg/worker/client.h"

// Rows travel as they are in the file. `places` spreads them over the runs of parameters on the GPU, where one kernel
// serves all models of a launch: a copy for each run and model would be thousands in a net with many norms.

static uint64_t own_floats(const RunConfig *config) {
    return config->personal.second ? 0 : personal_floats(&config->personal, config->parameters);
}

uint64_t cuda_own_bytes(const RunConfig *config, uint32_t models) {
    return own_floats(config) * (models * sizeof(float) + sizeof(uint32_t));
}

static void find_places(uint32_t *places, const PersonalPlan *plan) {
    for (uint32_t r = 0; r < plan->run_count; r++)
        for (uint64_t i = plan->runs[r].first; i < plan->runs[r].end; i++)
            *places++ = (uint32_t)i;
}

Status cuda_own_init(CudaOwn *self, CudaArrays *arrays, const RunMemory *memory, uint32_t models, Error *err) {
    *self = (CudaOwn){.memory = memory, .floats = (uint32_t)own_floats(memory->config)};
    const size_t bytes = self->floats * sizeof *self->places;
    if (self->floats == 0) return STATUS_OK;
    TRY(cuda_allocate(arrays, &self->rows, (size_t)models * self->floats, sizeof(float), "parameters that stay", err));
    TRY(cuda_allocate(arrays, &self->places, self->floats, sizeof *self->places, "the places of parameters that stay",
                      err));
    uint32_t *places = malloc(bytes);
    if (!places) return fail(err, STATUS_OS, "no memory for the places of %u parameters", self->floats);
    find_places(places, &memory->config->personal);
    Status status = cuda_copy(self->places, places, bytes, 0, err);
    if (status == STATUS_OK) status = cuda_wait(0, err, "copying the places of parameters that stay");
    free(places);
    return status;
}

// The row is the one in force: a launch that is repeated after a death reads what it has read before.
Status cuda_own_begin(const CudaOwn *self, float *weights, Job *const *jobs, uint32_t count, cudaStream_t stream,
                      Error *err) {
    const size_t bytes = self->floats * sizeof(float);
    if (self->floats == 0) return STATUS_OK;
    for (uint32_t m = 0; m < count; m++) {
        const float *row = client_state_row(&self->memory->client_state, jobs[m]->state_from);
        float *to = self->rows + (size_t)m * self->floats;
        TRY(row ? cuda_copy(to, row, bytes, stream, err) : cuda_clear(to, bytes, stream, err));
    }
    cuda_join_own(weights, self->rows, self->places, self->floats, self->memory->config->gpu.stride, (int)count,
                  stream);
    return STATUS_OK;
}

Status cuda_own_conclude(const CudaOwn *self, const CudaStateRows *rows, float *weights, const float *global,
                         Job *const *jobs, uint32_t count, cudaStream_t stream, Error *err) {
    const RunMemory *memory = self->memory;
    if (self->floats == 0) return STATUS_OK;
    cuda_take_own(self->rows, weights, global, self->places, self->floats, memory->config->gpu.stride, (int)count,
                  stream);
    for (uint32_t m = 0; m < count; m++)
        TRY(cuda_state_rows_write(rows, jobs[m]->state_to, 0, self->rows + (size_t)m * self->floats,
                                  self->floats * sizeof(float), stream, err));
    for (uint32_t m = 0; m < count; m++)
        personal_settle(memory, jobs[m]);
    return STATUS_OK;
}
