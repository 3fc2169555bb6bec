// Part of parent_backend.h: the parent's arithmetic in the run's shared memory.
#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/owned.h"
#include "fedavg/memory/state.h"
#include "fedavg/parent/parent_backend.h"
#include "fedavg/rules/send/send_rules.h"
#include "fedavg/rules/sum/aggregate.h"

typedef struct CpuParent {
    Owned owned;
    float *weights, *vectors; // owned (parameters), (restored vectors, parameters): as the round began
    int64_t *total;           // owned (each, parameters); where all sums become one first
    // Owned lists of the sums in the slots: of updates, of changes; or of the updates of each of several models.
    const int64_t **sums[PERSONAL_MOST_CLUSTERS];
} CpuParent;

// Also for an init that failed: pointers that were not set are NULL.
static void cpu_free(Parent *parent) {
    CpuParent *self = parent->state;
    owned_free(&self->owned);
    free(self);
}

// The engine decides which copies exist. Weights are saved only if workers write them, since a round that fails has
// changed nothing otherwise. `total` is needed where all sums have to become one vector before the step: to be added
// over nodes, freed of masks, or given noise.
static Status cpu_init(Parent *parent, Error *err) {
    const RunConfig *config = parent->memory->config;
    size_t parameters = config->parameters;
    assert(parameters > 0 && config->slots.each <= PERSONAL_MOST_CLUSTERS);
    bool writes = parent->memory->algorithm.engine->writes_weights;
    bool becomes_one = parent->nodes->size > 1 || config->release.hides || config->masked_offset > 0;
    CpuParent *self = parent->state = calloc(1, sizeof *self);
    const size_t sums = config->workers + config->slots.pending;
    if (!self) return fail(err, STATUS_OS, "no memory for the parent");
    for (uint32_t which = 0; which < 2 || which < config->slots.each; which++)
        self->sums[which] = own(&self->owned, sums, sizeof *self->sums[which]);
    self->weights = own(&self->owned, writes ? parameters : 0, sizeof *self->weights);
    self->vectors = own(&self->owned, config->slots.restored, config->slots.vector_bytes);
    self->total = own(&self->owned, becomes_one ? config->slots.each * parameters : 0, sizeof *self->total);
    if (!self->owned.lacks_memory) return STATUS_OK;
    cpu_free(parent);
    return fail(err, STATUS_OS, "no memory for a copy of %zu parameters", parameters);
}

// All workers wait at the barrier, so that plain copies suffice.
static Status cpu_begin(Parent *parent, Error *err) {
    (void)err;
    RunMemory *memory = parent->memory;
    CpuParent *self = parent->state;
    atomic_store_explicit(&memory->control->updates, 0, memory_order_relaxed);
    if (self->weights) memcpy(self->weights, memory->weights, memory->config->parameters * sizeof(float));
    if (self->vectors) memcpy(self->vectors, memory->slots, slots_restored_bytes(&memory->config->slots));
    return STATUS_OK;
}

// The other vectors are made again by the next attempt.
static Status cpu_restore(Parent *parent, Error *err) {
    (void)err;
    RunMemory *memory = parent->memory;
    CpuParent *self = parent->state;
    if (self->weights) memcpy(memory->weights, self->weights, memory->config->parameters * sizeof(float));
    if (self->vectors) memcpy(memory->slots, self->vectors, slots_restored_bytes(&memory->config->slots));
    return STATUS_OK;
}

// The loop counts and does not stop at the first weight that is not finite, so that it is vectorised.
static Status cpu_adopt(Parent *parent, bool *finite, Error *err) {
    (void)err;
    size_t infinite = 0;
    for (uint32_t m = 0; m < state_models(parent->memory->config); m++) {
        const float *weights = state_model(parent->memory, m);
        for (size_t i = 0; i < parent->memory->config->parameters; i++)
            infinite += !isfinite(weights[i]) ? 1u : 0u;
    }
    *finite = infinite == 0;
    return STATUS_OK;
}

// Takes from the first node's sum what is left of the masks in the sum over all nodes: the masks between clients that
// arrived and others that did not. Node 0 does it for all nodes: the jobs of all nodes are in its queue by now, and the
// masks of clients of any node meet in the sum over the nodes.
static Status unmask(Parent *parent, uint32_t round, Error *err) {
    const RunConfig *config = parent->memory->config;
    const Queue *queue = parent->memory->queue;
    const Masking masking = run_memory_masking(parent->memory, round);
    assert(masking.count == 0 || parent->nodes->rank == 0);
    CpuParent *self = parent->state;
    if (masking.count == 0) return STATUS_OK;
    uint32_t *alive = malloc((queue->count + 1) * sizeof *alive), count = 0;
    if (!alive) return fail(err, STATUS_OS, "no memory for a list of %u clients", queue->count);
    for (uint32_t i = 0; i < queue->count; i++)
        if (queue->jobs[i].state == JOB_DONE) alive[count++] = queue->jobs[i].client;
    for (uint32_t which = 0; which < config->slots.each; which++)
        masks_take(self->total + which * config->parameters, &masking, alive, count, which);
    free(alive);
    return STATUS_OK;
}

// Only weights that are sent have noise: those that stay with the clients, or are frozen, are in no sum.
void parent_add_noise(int64_t *total, const Parent *parent, double noise, uint32_t round) {
    const RunConfig *config = parent->memory->config;
    const NoiseKey *key = &parent->memory->control->noise_key;
    SentWeights sent;
    sent_weights(&sent, &parent->memory->tensors, &config->personal, NULL, 0);
    assert(noise >= 0);
    if (config->release.tree_rounds > 0)
        release_add_tree_noise(total, noise, config->release.tree_rounds, key, round, sent.runs, sent.run_count);
    else
        release_add_noise(total, noise, key, round, sent.runs, sent.run_count);
}

// Noise joins before the nodes' sums are added: no node ever sees the sum without it.
static Status sum_over_nodes(Parent *parent, size_t count, double noise, uint32_t round, Error *err) {
    const RunConfig *config = parent->memory->config;
    CpuParent *self = parent->state;
    for (uint32_t which = 0; which < config->slots.each; which++) {
        int64_t *total = self->total + which * config->parameters;
        aggregate_total(total, self->sums[which], count, 0, config->parameters);
        self->sums[which][0] = total;
    }
    if (parent->nodes->rank == 0) {
        TRY(unmask(parent, round, err));
        parent_add_noise(self->total, parent, noise, round);
    }
    return nodes_sum(parent->nodes, self->total, config->slots.each * config->parameters, err);
}

// A variance (of a normalisation layer) may not become negative, which a server's step can make of it. That holds for
// the model and for the weights that clients begin with (ServerRule.trains_state), which are states of such a rule.
static void floor_variances(const RunMemory *memory) {
    const TensorList *list = &memory->tensors;
    const ServerRule *rule = memory->algorithm.server;
    tensors_floor_variances(memory->weights, list);
    if (rule->trains_state == 0) return;
    for (int t = 0; t < list->count; t++) {
        const ParameterTensor *tensor = &list->tensors[t];
        for (uint32_t s = 0; s < rule->states && tensor_is_variance(tensor); s++) {
            ServerState *values = run_memory_state(memory, s) + tensor->first;
            for (size_t i = 0; i < tensor->count; i++)
                if (values[i].real < 0) values[i].real = 0;
        }
    }
}

// Each of several models makes the step of its own clients' mean, from its own sums; one without clients stays. The
// squared lengths of the steps are added by what their clients count.
static void step_models(Parent *parent, const ServerSums *of_first, size_t count, const Mean *mean,
                        const ServerTurn *turn) {
    const RunConfig *config = parent->memory->config;
    CpuParent *self = parent->state;
    double squared_length = 0;
    for (uint32_t m = 0; m < state_models(config); m++) {
        double squared;
        const ServerSums sums = {.updates = self->sums[m],
                                 .count = count,
                                 .arrived = mean->arrived_of[m],
                                 .factor = mean->factor,
                                 .squared_length = of_first->squared_length ? &squared : NULL};
        assert(sums.arrived >= 0);
        const ServerMemory nothing = {0};
        if (sums.arrived == 0) continue;
        server_apply(state_model(parent->memory, m), &nothing, &sums, turn, config->recipe.server.row,
                     config->parameters);
        if (sums.squared_length) squared_length += sums.arrived * squared;
        tensors_floor_variances(state_model(parent->memory, m), &parent->memory->tensors);
    }
    if (of_first->squared_length) *of_first->squared_length = squared_length;
}

// All other weights rest, with what the rule remembers of them.
static void step_fragment(const RunMemory *memory, const ServerMemory *states, const ServerSums *sums,
                          const ServerTurn *turn, uint32_t round) {
    const RunConfig *config = memory->config;
    PersonalRun runs[TENSORS_MOST];
    const uint32_t count = fragments_runs(runs, &config->fragments, &memory->tensors, round);
    double squares = 0;
    assert(count > 0 && round > 0);
    for (uint32_t r = 0; r < count; r++)
        squares += server_apply_part(memory->weights, states, sums, turn, config->recipe.server.row, runs[r].first,
                                     runs[r].end);
    if (sums->squared_length) *sums->squared_length = squares;
}

// Sums, combines and steps in one pass, block by block (server_apply): the sums of all workers are read once, and the
// mean is never stored. Sums over nodes, under masks or with noise have to be one vector first. A mean with a total of
// its own (combined rows, the real clock) replaces the workers' sums. Updates that waited for this step join as further
// sums; they are on node 0 alone, because the sum over the nodes would count them once per node.
//
// The momentum that clients end with is averaged after the step, from the second sums, by the divisor of the updates.
static Status cpu_average(Parent *parent, bool *finite, const bool *used, const Mean *mean, const ServerTurn *turn,
                          Error *err) {
    const RunConfig *config = parent->memory->config;
    CpuParent *self = parent->state;
    size_t count = 0;
    for (uint32_t rank = 0; rank < config->workers; rank++) {
        if (!used[rank]) continue;
        for (uint32_t which = 0; which < config->slots.each; which++)
            self->sums[which][count] = run_memory_sum(parent->memory, rank, which);
        count++;
    }
    for (uint32_t i = 0; i < mean->late_count; i++)
        self->sums[0][count++] = mean->late[i];
    assert(count <= config->workers + config->slots.pending);
    assert(mean->noise == 0 || mean->total || self->total); // noise is added to one vector
    if (!mean->total && self->total) TRY(sum_over_nodes(parent, count, mean->noise, turn->round, err));
    if (mean->total) self->sums[0][0] = mean->total;
    if (mean->changes) self->sums[1][0] = mean->changes;
    if (mean->total || self->total) count = 1;
    const ServerSums sums = {.updates = self->sums[0],
                             .changes = self->sums[1],
                             .count = count,
                             .arrived = mean->arrived,
                             .factor = mean->factor,
                             .squared_length = config->inspects_updates ? &parent->squared_length : NULL};
    ServerMemory memory = {0};
    for (uint32_t s = 0; s < config->slots.states; s++)
        memory.states[s] = run_memory_state(parent->memory, s);
    if (parent->memory->algorithm.server->tells)
        memory.common = run_memory_vector(parent->memory, state_vector(parent->memory, STATE_COMMON));
    if (state_models(config) > 1) {
        step_models(parent, &sums, count, mean, turn);
        return cpu_adopt(parent, finite, err);
    }
    if (config->fragments.count > 0)
        step_fragment(parent->memory, &memory, &sums, turn, mean->round);
    else
        server_apply(parent->memory->weights, &memory, &sums, turn, config->recipe.server.row, config->parameters);
    floor_variances(parent->memory);
    if (config->training.optimizer_state == OPTIMIZER_AVERAGED && mean->arrived > 0)
        aggregate_mean(run_memory_vector(parent->memory, state_vector(parent->memory, STATE_MOMENTUM)), self->sums[1],
                       count, mean->arrived, config->parameters);
    return cpu_adopt(parent, finite, err);
}

const ParentBackend parent_on_cpu = {.init = cpu_init,
                                     .free = cpu_free,
                                     .begin = cpu_begin,
                                     .restore = cpu_restore,
                                     .average = cpu_average,
                                     .adopt = cpu_adopt};
