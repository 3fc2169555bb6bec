#include "cuda_own.h"

#include <stdlib.h>

#include "base/cuda_try.h"
#include "fedavg/gpu/cuda_aggregate.h"
#include "fedavg/memory/state.h"
#include "fedavg/worker/personal.h"

// Rows travel as they are in the file. `places` spreads them over the runs of parameters on the GPU, where one kernel
// serves all models of a launch: a copy for each run and model would be thousands in a net with many norms.

uint64_t cuda_own_bytes(const RunConfig *config, uint32_t models) {
    const uint64_t floats = personal_floats(&config->personal, config->parameters);
    return floats * (models * sizeof(float) + sizeof(uint32_t) + (config->personal.second ? sizeof(float) : 0));
}

static void find_places(uint32_t *places, const RunConfig *config) {
    const PersonalPlan *plan = &config->personal;
    const PersonalRun all = {0, config->parameters}, *runs = plan->second ? &all : plan->runs;
    for (uint32_t r = 0; r < (plan->second ? 1 : plan->run_count); r++)
        for (uint64_t i = runs[r].first; i < runs[r].end; i++)
            *places++ = (uint32_t)i;
}

// The weights that the run began with, as on the CPU (client.c).
static Status upload_initial(CudaOwn *self, CudaArrays *arrays, Error *err) {
    const RunMemory *memory = self->memory;
    const RunConfig *config = memory->config;
    const size_t count = config->parameters;
    if (!config->personal.second) return STATUS_OK;
    TRY(cuda_allocate(arrays, &self->initial, count, sizeof *self->initial, "first weights", err));
    float *made = config->begins_with_given ? NULL : malloc(count * sizeof *made);
    if (made) spec_initialise(made, &config->spec, config->seed);
    if (!made && !config->begins_with_given)
        return fail(err, STATUS_OS, "no memory for a model of %zu parameters", count);
    const float *initial = made ? made : run_memory_vector(memory, state_vector(memory, STATE_INITIAL));
    Status status = cuda_copy(self->initial, initial, count * sizeof *initial, 0, err);
    if (status == STATUS_OK) status = cuda_wait(0, err, "copying the first weights");
    free(made);
    return status;
}

Status cuda_own_init(CudaOwn *self, CudaArrays *arrays, const RunMemory *memory, uint32_t models, Error *err) {
    *self = (CudaOwn){.memory = memory,
                      .floats = (uint32_t)personal_floats(&memory->config->personal, memory->config->parameters)};
    const size_t bytes = self->floats * sizeof *self->places;
    if (self->floats == 0) return STATUS_OK;
    TRY(cuda_allocate(arrays, &self->rows, (size_t)models * self->floats, sizeof(float), "parameters that stay", err));
    TRY(cuda_allocate(arrays, &self->places, self->floats, sizeof *self->places, "the places of parameters that stay",
                      err));
    uint32_t *places = malloc(bytes);
    if (!places) return fail(err, STATUS_OS, "no memory for the places of %u parameters", self->floats);
    find_places(places, memory->config);
    Status status = cuda_copy(self->places, places, bytes, 0, err);
    if (status == STATUS_OK) status = cuda_wait(0, err, "copying the places of parameters that stay");
    free(places);
    return status == STATUS_OK ? upload_initial(self, arrays, err) : status;
}

// The row is the one in force: a launch that is repeated after a death reads what it has read before.
Status cuda_own_begin(const CudaOwn *self, float *weights, Job *const *jobs, uint32_t count, cudaStream_t stream,
                      Error *err) {
    const size_t bytes = self->floats * sizeof(float);
    if (self->floats == 0) return STATUS_OK;
    if (self->initial)
        cuda_broadcast(weights, self->initial, self->floats, self->memory->config->gpu.stride, (int)count, stream);
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
    if (self->initial) global = self->initial;
    cuda_take_own(self->rows, weights, global, self->places, self->floats, memory->config->gpu.stride, (int)count,
                  stream);
    for (uint32_t m = 0; m < count; m++)
        TRY(cuda_state_rows_write(rows, jobs[m]->state_to, 0, self->rows + (size_t)m * self->floats,
                                  self->floats * sizeof(float), stream, err));
    for (uint32_t m = 0; m < count; m++)
        personal_settle(memory, jobs[m]);
    return STATUS_OK;
}
