#include "personal.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "base/log.h"
#include "fedavg/worker/local_train.h"
#include "fedavg/worker/own_steps.h"

// A client's row stores runs of the parameters (count) one after the other.

// values (parameters) += kept (a row), which may be NULL for zeros.
static void add_kept(float *values, const float *kept, const PersonalRun *runs, uint32_t count) {
    for (uint32_t r = 0; r < count && kept; r++)
        for (uint64_t i = runs[r].first; i < runs[r].end; i++)
            values[i] += *kept++;
}

static void stay_as_it_was(float *kept, const float *was, size_t count, uint32_t client) {
    log_warning("client %u: its personal model is no longer finite and stays as it was", client);
    if (was)
        memcpy(kept, was, count * sizeof *kept);
    else
        memset(kept, 0, count * sizeof *kept);
}

// kept (a row) = values - from (parameters). Returns false if it would not be finite, and stays as it was: it is the
// client's alone, so that the round continues without a refusal. Differences are stored, not weights, since the zeros
// of a client without a row then mean the common beginning.
static bool keep(float *kept, const float *values, const float *from, const float *was, const PersonalRun *runs,
                 uint32_t count, uint32_t client) {
    size_t infinite = 0, floats = 0;
    for (uint32_t r = 0; r < count; r++)
        for (uint64_t i = runs[r].first; i < runs[r].end; i++, floats++) {
            kept[floats] = values[i] - from[i];
            infinite += isfinite(kept[floats]) ? 0 : 1u;
        }
    if (infinite > 0) stay_as_it_was(kept, was, floats, client);
    return infinite == 0;
}

static const float *row_before(const LocalModel *model, const Job *job) {
    return client_state_row(&model->memory->client_state, job->state_from);
}

// Loads the client's second model as it was at the end of its last turn: the common first weights plus the stored
// difference.
static void load_second(float *weights, const LocalModel *model, const Job *job) {
    const PersonalRun all = {0, model->memory->config->parameters};
    memcpy(weights, model->own.initial, all.end * sizeof *weights);
    add_kept(weights, row_before(model, job), &all, 1);
}

// The part of a client's own model in its mixture, which is stored after that model.
static float alpha_of(const LocalModel *model, const float *row) {
    assert(model->memory->config->client_state.floats > model->memory->config->parameters);
    const RunConfig *config = model->memory->config;
    return config->personal.alpha + (row ? row[config->parameters] : 0);
}

void personal_begin(LocalModel *model, const Job *job) {
    const RunConfig *config = model->memory->config;
    const PersonalPlan *plan = &config->personal;
    add_kept(model->weights, row_before(model, job), plan->runs, plan->run_count);
    // As in pFedMe's authors' code: the paper leaves open where a round's theta begins.
    if (plan->inner > 0)
        memcpy(model->own.weights, model->memory->weights, config->parameters * sizeof *model->own.weights);
    if (!plan->mixes) return;
    load_second(model->own.weights, model, job);
    model->own.alpha = alpha_of(model, row_before(model, job));
}

// Trains the second model, pulled to the global one: the pull lambda (weight - global) is `pull` on the weights and a
// constant shift, as local rules add it.
static void train_second(LocalModel *model, const Job *job, uint32_t round) {
    const RunConfig *config = model->memory->config;
    const PersonalPlan *plan = &config->personal;
    const float lambda = (float)plan->lambda;
    LocalStep step = {.sgd = run_memory_training(model->memory).sgd, .aside = true};
    for (size_t i = 0; i < config->parameters && lambda > 0; i++)
        model->steps.shift[i] = -lambda * model->memory->weights[i];
    if (lambda > 0) step.pull = lambda, step.shift = model->steps.shift;
    local_model_train(model, &step, job->client, plan->epochs, personal_round(round));
}

// The second model takes the place of the first one while it is trained, so that training has one path. With inner
// steps it has been trained beside the first one already. Its result is written into the new row, so that a death
// before the end of the round leaves the old model in force.
static void conclude_second(LocalModel *model, const Job *job, uint32_t round) {
    const RunConfig *config = model->memory->config;
    const PersonalRun all = {0, config->parameters};
    if (config->personal.inner == 0 && !config->personal.mixes) {
        float *shared = model->weights;
        model->weights = model->own.weights;
        load_second(model->weights, model, job);
        train_second(model, job, round);
        model->weights = shared;
    }
    const float *was = row_before(model, job);
    float *row = client_state_row(&model->memory->client_state, job->state_to);
    assert(row && row != was);
    const bool finite = keep(row, model->own.weights, model->own.initial, was, &all, 1, job->client);
    if (config->personal.mixes)
        row[config->parameters] = (finite ? model->own.alpha : alpha_of(model, was)) - config->personal.alpha;
}

// The parameters that stay with a client have to be exactly the global ones in what it hands in: their update is 0, and
// neither the sum nor the length of the update shows them.
void personal_withhold(float *weights, const RunMemory *memory) {
    const PersonalPlan *plan = &memory->config->personal;
    for (uint32_t r = 0; r < plan->run_count; r++) {
        const PersonalRun run = plan->runs[r];
        assert(run.first < run.end && run.end <= memory->config->parameters);
        memcpy(weights + run.first, memory->weights + run.first, (run.end - run.first) * sizeof *weights);
    }
    frozen_restore(weights, memory);
}

void personal_settle(const RunMemory *memory, const Job *job) {
    const ClientStateFile *file = &memory->client_state;
    const size_t count = file->plan.floats;
    float *kept = client_state_row(file, job->state_to);
    assert(kept && job->state_to != job->state_from);
    size_t infinite = 0;
    for (size_t i = 0; i < count; i++)
        infinite += isfinite(kept[i]) ? 0 : 1u;
    if (infinite > 0) stay_as_it_was(kept, client_state_row(file, job->state_from), count, job->client);
}

void personal_conclude(LocalModel *model, const Job *job, uint32_t round) {
    const PersonalPlan *plan = &model->memory->config->personal;
    if (plan->second && job->state_to != NO_CLIENT_STATE) conclude_second(model, job, round);
    if (plan->run_count > 0 && job->state_to != NO_CLIENT_STATE)
        keep(client_state_row(&model->memory->client_state, job->state_to), model->weights, model->memory->weights,
             row_before(model, job), plan->runs, plan->run_count, job->client);
    personal_withhold(model->weights, model->memory);
}

void personal_load(LocalModel *model, const Job *job) {
    const RunConfig *config = model->memory->config;
    if (config->personal.second) {
        load_second(model->weights, model, job);
        if (config->personal.mixes)
            own_mixture(model->weights, model->weights, model->memory->weights, alpha_of(model, row_before(model, job)),
                        config->parameters);
        return;
    }
    memcpy(model->weights, model->memory->weights, config->parameters * sizeof(float));
    personal_begin(model, job);
}
