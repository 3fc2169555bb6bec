// The parent's arithmetic in the run's shared memory.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "fedavg/parent/server.h"
#include "fedavg/rules/aggregate.h"

typedef struct CpuServer {
    float *weights, *velocity;        // owned (parameters): as the round began
    int64_t *total;                   // owned (parameters); fedavg on several nodes
    const int64_t *sums[MAX_WORKERS]; // borrowed from the slots
} CpuServer;

static void cpu_free(Server *server) {
    CpuServer *self = server->state;
    free(self->total);
    free(self->velocity);
    free(self->weights);
    free(self);
}

static Status cpu_init(Server *server, Error *err) {
    size_t parameters = server->memory->config->parameters;
    CpuServer *self = server->state = calloc(1, sizeof *self);
    if (self) self->weights = malloc(parameters * sizeof(float));
    if (self) self->velocity = malloc(parameters * sizeof(float));
    bool several = server->nodes->size > 1 && server->memory->config->engine == ENGINE_ROUNDS;
    if (self && several) self->total = malloc(parameters * sizeof *self->total);
    if (self && self->weights && self->velocity && (self->total || !several)) return STATUS_OK;
    if (self) cpu_free(server);
    return fail(err, STATUS_OS, "no memory for a copy of %zu parameters", parameters);
}

// Fedavg needs nothing put back: a round that fails has not touched the weights.
static Status cpu_begin(Server *server, Error *err) {
    (void)err;
    const RunConfig *config = server->memory->config;
    CpuServer *self = server->state;
    size_t bytes = config->parameters * sizeof(float);
    atomic_store_explicit(&server->memory->control->updates, 0, memory_order_relaxed);
    if (config->engine != ENGINE_ROUNDS) memcpy(self->weights, server->memory->weights, bytes);
    if (config->engine == ENGINE_LOCKSTEP) memcpy(self->velocity, run_memory_velocity(server->memory), bytes);
    return STATUS_OK;
}

static Status cpu_restore(Server *server, Error *err) {
    (void)err;
    const RunConfig *config = server->memory->config;
    CpuServer *self = server->state;
    size_t bytes = config->parameters * sizeof(float);
    memcpy(server->memory->weights, self->weights, bytes);
    if (config->engine == ENGINE_LOCKSTEP) memcpy(run_memory_velocity(server->memory), self->velocity, bytes);
    return STATUS_OK;
}

static Status cpu_adopt(Server *server, bool *finite, Error *err) {
    (void)err;
    const float *weights = server->memory->weights;
    size_t infinite = 0;
    for (size_t i = 0; i < server->memory->config->parameters; i++)
        infinite += !isfinite(weights[i]) ? 1u : 0u;
    *finite = infinite == 0;
    return STATUS_OK;
}

static Status cpu_average(Server *server, bool *finite, const bool *used, double arrived, Error *err) {
    CpuServer *self = server->state;
    size_t parameters = server->memory->config->parameters, count = 0;
    for (uint32_t rank = 0; rank < server->memory->config->workers; rank++)
        if (used[rank]) self->sums[count++] = run_memory_sum(server->memory, rank);
    if (self->total) {
        aggregate_total(self->total, self->sums, count, parameters);
        TRY(nodes_sum(server->nodes, self->total, parameters, err));
        self->sums[0] = self->total;
        count = 1;
    }
    aggregate_apply(server->memory->weights, self->sums, count, arrived, parameters);
    return cpu_adopt(server, finite, err);
}

const ServerKind server_on_cpu = {.init = cpu_init,
                                  .free = cpu_free,
                                  .begin = cpu_begin,
                                  .restore = cpu_restore,
                                  .average = cpu_average,
                                  .adopt = cpu_adopt};
