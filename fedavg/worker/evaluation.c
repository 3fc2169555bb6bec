#include "evaluation.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "fedavg/memory/state.h"
#include "fedavg/rules/attack/attack_rules.h"
#include "fedavg/worker/clusters.h"
#include "fedavg/worker/local_test.h"
#include "fedavg/worker/local_train.h"
#include "fedavg/worker/personal.h"
#include "fedavg/worker/trainer_turn.h"
#include "nn/label_rows.h"

// Evaluates one chunk of the test set. The parent cuts the set into chunks of a fixed size, so that the sum of their
// losses does not depend on the number of workers.
static BatchResult evaluate_test_set(LocalModel *model, const Job *job) {
    assert((uint64_t)job->first + job->count <= model->memory->data.test.count);
    Batch batch = view_batch(model->memory, &model->memory->data.test, NULL, job->count);
    BatchResult result;
    batch.first = job->first;
    local_test_batch(model, &result, model->memory->weights, &batch, "test", VIEW_TEST_SET);
    return result;
}

// Evaluates marked test samples (count) whose class is not the backdoor's target: hits are those that the model takes
// for the target. job->count stays as it was, since the job may have to be done again.
static BatchResult evaluate_backdoor(LocalModel *model, const Job *job, uint32_t *count) {
    const DatasetSplit *test = &model->memory->data.test;
    const Chosen *attack = &model->memory->config->attack;
    uint32_t others[EVALUATION_CHUNK];
    assert(job->count <= EVALUATION_CHUNK);
    *count = attack_others(others, test->labels, job->first, job->count, attack);
    assert(*count <= job->count);
    Batch batch = view_batch(model->memory, test, others, *count);
    batch.triggered = *count;
    batch.trigger_label = (uint16_t)attack->number[BACKDOOR_TARGET];
    BatchResult result = {0};
    if (*count > 0) local_test_batch(model, &result, model->memory->weights, &batch, "test", VIEW_TEST_SET);
    return result;
}

// Tests with the net's answers, and measures them. Without memory for them the client has no such figures.
static BatchResult evaluate_answers(LocalModel *model, const float *weights, Job *job, const ClientSamples *samples) {
    const Spec *spec = &model->net.spec;
    const int classes = spec->squared_loss ? 0 : spec->classes;
    Answer *answers = malloc(samples->count * spec_answers(spec) * sizeof *answers);
    Error ignored;
    model->net.answers = answers;
    const BatchResult result = local_test(model, weights, samples, job->client);
    model->net.answers = NULL;
    if (answers && spec->label_rows) label_rows_figures(&job->figures, NULL, answers, samples->count, classes);
    job->figured = answers && (spec->label_rows ||
                               answer_figures(&job->figures, answers, samples->count, classes, &ignored) == STATUS_OK);
    free(answers);
    return result;
}

// The validation set is a part of no client's data.
static BatchResult evaluate_job(LocalModel *model, const float *weights, Job *job, uint32_t round) {
    assert(job->task != TRAIN_ROOT && weights);
    const ClientSamples samples = local_test_samples(model->memory, job, round);
    job->count = samples.count;
    const bool is_of_client =
        job->task == EVALUATE_CLIENT || job->task == EVALUATE_PERSONAL || job->task == EVALUATE_FINE_TUNED;
    if (is_of_client && samples.count > 0 && !model->by.trainer) return evaluate_answers(model, weights, job, &samples);
    return local_test(model, weights, &samples, job->task == EVALUATE_VALIDATION ? VIEW_TEST_SET : job->client);
}

static BatchResult evaluate_personal(LocalModel *model, Job *job, uint32_t round) {
    personal_load(model, job);
    return evaluate_job(model, model->weights, job, round);
}

// Trains a copy and evaluates it: the update is in no sum, and the shuffles are those of a round that does not exist,
// so that a run's bits do not depend on whether it is evaluated.
static BatchResult evaluate_fine_tuned(LocalModel *model, Job *job, uint32_t round) {
    const PersonalPlan *plan = &model->memory->config->personal;
    memcpy(model->weights, model->memory->weights, model->memory->config->parameters * sizeof(float));
    const LocalStep plain = {.sgd = run_memory_training(model->memory).sgd};
    model->net.still_end = job->task == EVALUATE_PERSONAL && plan->tunes_head ? plan->first : 0;
    local_model_train(model, &plain, job->client, job->epochs, evaluation_round(round));
    model->net.still_end = 0;
    trainer_turn_begin_job(model); // the job is the test alone
    return evaluate_job(model, model->weights, job, round);
}

// The server trains on every n-th training sample itself, and its update becomes the vector that a trusting rule
// compares the clients' updates with. The shuffles are those of client number `clients`, which no client has. Every
// node trains for itself, which costs less than sending the vector.
static void train_root(LocalModel *model, Job *job, uint32_t round) {
    const RunMemory *memory = model->memory;
    const RunConfig *config = memory->config;
    const uint64_t all = memory->data.train.count;
    assert(job->count >= 1 && job->count <= COMBINE_MOST_ROOT_SAMPLES && memory->algorithm.combine->trusts);
    float *update = run_memory_vector(memory, config->slots.lasting);
    uint32_t root[COMBINE_MOST_ROOT_SAMPLES];
    // The validation set trains no model, and the clients' lists are the samples without it.
    for (uint32_t i = 0; i < job->count; i++)
        root[i] = memory->partition.validation
                      ? memory->partition.indices[i * (uint64_t)memory->partition.samples / job->count]
                      : (uint32_t)(i * all / job->count);
    memcpy(model->weights, memory->weights, config->parameters * sizeof(float));
    const LocalStep plain = {.sgd = run_memory_training(memory).sgd};
    local_model_train_on(model, &plain, root, job->count, config->clients, job->epochs, round);
    // Clients send no part that stays with them, so that the comparison is without it, too.
    personal_withhold(model->weights, model->memory);
    for (size_t i = 0; i < config->parameters; i++)
        update[i] = model->weights[i] - memory->weights[i];
}

// The largest cluster's model is tested as the global one; a client's own tests and losses are of its cluster's model.
static bool is_of_cluster(const Job *job) {
    return job->task == EVALUATE_PERSONAL || job->task == EVALUATE_FINE_TUNED || job->task == EVALUATE_TRAINING_DATA ||
           job->task == EVALUATE_TRAINING_PART;
}

// The trainer may read the floats that the tested client keeps for it. NULL: there are none, or a rule keeps them.
static const float *kept_by(const LocalModel *model, const Job *job) {
    const RunMemory *memory = model->memory;
    const bool keeps = model->by.trainer && memory->config->training.optimizer_state == OPTIMIZER_KEPT;
    const float *row = keeps ? client_state_row(&memory->client_state, job->state_from) : NULL;
    return row ? row + memory->config->client_state.optimizer : NULL;
}

void evaluation_run(LocalModel *model, Job *job, uint32_t round) {
    uint64_t start = clock_nanoseconds();
    BatchResult result = {0};
    uint32_t marked = 0;
    assert(job->task <= EVALUATE_FINE_TUNED && job->state == JOB_OPEN);
    model->by.kept = kept_by(model, job);
    const bool is_test = job->task == EVALUATE_TEST_SET || job->task == EVALUATE_VALIDATION;
    Answer *answers = is_test ? model->memory->answers : NULL; // a trainer has its own net, and its own metrics
    view_begin(&model->view, is_test || job->task == TRAIN_ROOT ? VIEW_TEST_SET : job->client, round, NULL);
    model->net.answers = answers ? answers + job->first * spec_answers(&model->net.spec) : NULL;
    model->clusters.of_cluster.weights = state_tested_model(model->clusters.run);
    if (is_of_cluster(job)) cluster_choose(model, job, round);
    switch ((EvaluationTask)job->task) {
    case EVALUATE_TEST_SET:
        result = evaluate_test_set(model, job);
        break;
    case EVALUATE_BACKDOOR:
        result = evaluate_backdoor(model, job, &marked);
        break;
    case EVALUATE_VALIDATION:
    case EVALUATE_TRAINING_DATA:
    case EVALUATE_TRAINING_PART:
    case EVALUATE_CLIENT:
        result = evaluate_job(model, model->memory->weights, job, round);
        break;
    case EVALUATE_PERSONAL:
        result = job->epochs > 0 ? evaluate_fine_tuned(model, job, round) : evaluate_personal(model, job, round);
        break;
    case EVALUATE_FINE_TUNED:
        result = evaluate_fine_tuned(model, job, round);
        break;
    case TRAIN_ROOT:
        train_root(model, job, round);
        break;
    }
    model->net.answers = NULL;
    if (model->by.fault != STATUS_OK) return;
    const bool is_told = model->memory->data.items.are_clients && job->task != TRAIN_ROOT;
    assert(result.hits <= (is_told ? model->by.told.samples : job->count) && !(result.loss_sum < 0));
    job->loss_sum = result.loss_sum;
    job->hits = result.hits;
    job->samples = is_told ? model->by.told.samples : job->task == EVALUATE_BACKDOOR ? marked : job->count;
    job->seconds = clock_seconds_since(start);
    trainer_turn_end_job(model, job);
    queue_finish(job, JOB_DONE);
}
