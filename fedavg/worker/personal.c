#include "client.h"

#include <math.h>
#include <string.h>

#include "base/log.h"
#include "fedavg/rules/aggregate.h"

// The shuffles and dropout of a second model's training are its own: no round has this number.
static uint32_t personal_round(uint32_t round) {
    return round | 1u << 30;
}

// values (count) += kept (count), which may be NULL for zeros.
static void add_kept(float *values, const float *kept, size_t count) {
    for (size_t i = 0; i < count && kept; i++)
        values[i] += kept[i];
}

// kept (count) = values - from. Where that is not finite everywhere it becomes what it was.
static void keep(float *kept, const float *values, const float *from, const float *was, size_t count, uint32_t client) {
    size_t infinite = 0;
    for (size_t i = 0; i < count; i++) {
        kept[i] = values[i] - from[i];
        infinite += isfinite(kept[i]) ? 0 : 1u;
    }
    if (infinite == 0) return;
    log_warning("client %u: its personal model is no longer finite and stays as it was", client);
    if (was)
        memcpy(kept, was, count * sizeof *kept);
    else
        memset(kept, 0, count * sizeof *kept);
}

static const float *row_before(const LocalModel *model, const Job *job) {
    return kept_row(&model->memory->kept, job->kept_from);
}

void personal_begin(LocalModel *model, const Job *job) {
    const PersonalPlan *plan = &model->memory->config->personal;
    add_kept(model->weights + plan->first, row_before(model, job), plan->end - plan->first);
}

static void train_second(LocalModel *model, const Job *job, uint32_t round) {
    const RunConfig *config = model->memory->config;
    const PersonalPlan *plan = &config->personal;
    const float lambda = (float)plan->lambda;
    LocalStep step = {.sgd = run_memory_training(model->memory).sgd};
    for (size_t i = 0; i < config->parameters && lambda > 0; i++)
        model->shift[i] = -lambda * model->memory->weights[i];
    if (lambda > 0) step.pull = lambda, step.shift = model->shift;
    local_model_train(model, &step, job->client, plan->epochs, personal_round(round));
}

// The second model takes the place of the first one while it is trained.
static void conclude_second(LocalModel *model, const Job *job, uint32_t round) {
    const RunConfig *config = model->memory->config;
    float *shared = model->weights;
    model->weights = model->second;
    personal_load(model, job);
    train_second(model, job, round);
    keep(kept_row(&model->memory->kept, job->kept_to), model->weights, model->initial, row_before(model, job),
         config->parameters, job->client);
    model->weights = shared;
}

void personal_conclude(LocalModel *model, const Job *job, uint32_t round) {
    const PersonalPlan *plan = &model->memory->config->personal;
    const float *global = model->memory->weights + plan->first;
    float *own = model->weights + plan->first;
    const size_t count = plan->end - plan->first;
    if (plan->second && job->kept_to != KEPT_NO_ROW) conclude_second(model, job, round);
    if (count == 0) return;
    if (job->kept_to != KEPT_NO_ROW)
        keep(kept_row(&model->memory->kept, job->kept_to), own, global, row_before(model, job), count, job->client);
    memcpy(own, global, count * sizeof *own);
}

void personal_load(LocalModel *model, const Job *job) {
    const RunConfig *config = model->memory->config;
    const float *from = config->personal.second ? model->initial : model->memory->weights;
    memcpy(model->weights, from, config->parameters * sizeof(float));
    if (config->personal.second)
        add_kept(model->weights, row_before(model, job), config->parameters);
    else
        personal_begin(model, job);
}
