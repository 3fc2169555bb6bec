// The parent's arithmetic in the run's shared memory.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "fedavg/parent/parent_math.h"
#include "fedavg/rules/aggregate.h"

typedef struct CpuParent {
    float *weights, *velocity;        // owned (parameters): as the round began
    int64_t *total;                   // owned (parameters); fedavg on several nodes
    const int64_t *sums[MAX_WORKERS]; // borrowed from the slots
} CpuParent;

static void cpu_free(Parent *parent) {
    CpuParent *self = parent->state;
    free(self->total);
    free(self->velocity);
    free(self->weights);
    free(self);
}

static Status cpu_init(Parent *parent, Error *err) {
    size_t parameters = parent->memory->config->parameters;
    CpuParent *self = parent->state = calloc(1, sizeof *self);
    if (self) self->weights = malloc(parameters * sizeof(float));
    if (self) self->velocity = malloc(parameters * sizeof(float));
    bool several = parent->nodes->size > 1 && parent->memory->config->engine == ENGINE_ROUNDS;
    if (self && several) self->total = malloc(parameters * sizeof *self->total);
    if (self && self->weights && self->velocity && (self->total || !several)) return STATUS_OK;
    if (self) cpu_free(parent);
    return fail(err, STATUS_OS, "no memory for a copy of %zu parameters", parameters);
}

// Fedavg needs nothing put back: a round that fails has not touched the weights.
static Status cpu_begin(Parent *parent, Error *err) {
    (void)err;
    const RunConfig *config = parent->memory->config;
    CpuParent *self = parent->state;
    size_t bytes = config->parameters * sizeof(float);
    atomic_store_explicit(&parent->memory->control->updates, 0, memory_order_relaxed);
    if (config->engine != ENGINE_ROUNDS) memcpy(self->weights, parent->memory->weights, bytes);
    if (config->engine == ENGINE_LOCKSTEP) memcpy(self->velocity, run_memory_velocity(parent->memory), bytes);
    return STATUS_OK;
}

static Status cpu_restore(Parent *parent, Error *err) {
    (void)err;
    const RunConfig *config = parent->memory->config;
    CpuParent *self = parent->state;
    size_t bytes = config->parameters * sizeof(float);
    memcpy(parent->memory->weights, self->weights, bytes);
    if (config->engine == ENGINE_LOCKSTEP) memcpy(run_memory_velocity(parent->memory), self->velocity, bytes);
    return STATUS_OK;
}

static Status cpu_adopt(Parent *parent, bool *finite, Error *err) {
    (void)err;
    const float *weights = parent->memory->weights;
    size_t infinite = 0;
    for (size_t i = 0; i < parent->memory->config->parameters; i++)
        infinite += !isfinite(weights[i]) ? 1u : 0u;
    *finite = infinite == 0;
    return STATUS_OK;
}

static Status cpu_average(Parent *parent, bool *finite, const bool *used, double arrived, Error *err) {
    CpuParent *self = parent->state;
    size_t parameters = parent->memory->config->parameters, count = 0;
    for (uint32_t rank = 0; rank < parent->memory->config->workers; rank++)
        if (used[rank]) self->sums[count++] = run_memory_sum(parent->memory, rank);
    if (self->total) {
        aggregate_total(self->total, self->sums, count, parameters);
        TRY(nodes_sum(parent->nodes, self->total, parameters, err));
        self->sums[0] = self->total;
        count = 1;
    }
    aggregate_apply(parent->memory->weights, self->sums, count, arrived, parameters);
    return cpu_adopt(parent, finite, err);
}

const ParentMath parent_on_cpu = {.init = cpu_init,
                                  .free = cpu_free,
                                  .begin = cpu_begin,
                                  .restore = cpu_restore,
                                  .average = cpu_average,
                                  .adopt = cpu_adopt};
