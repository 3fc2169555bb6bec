// Part of client.h: a worker's evaluation for the parent, by the task of a job.
#include "client.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "fedavg/memory/state.h"
#include "fedavg/rules/attack/attack_rules.h"

// The batch is as the data set has it; the model sees it by the view that has begun.
static void evaluate(LocalModel *model, BatchResult *result, const float *weights, const Batch *batch, const char *part,
                     uint32_t client) {
    Batch seen = *batch;
    if (model->trainer) {
        trainer_turn_evaluate(model, result, weights, batch, part, client);
        return;
    }
    view_apply(&model->view, &seen);
    net_evaluate(&model->net, result, weights, &seen);
}

// Evaluates one chunk of the test set. The parent cuts the set into chunks of a fixed size, so that the sum of their
// losses does not depend on the number of workers.
static BatchResult evaluate_test_set(LocalModel *model, const Job *job) {
    assert((uint64_t)job->first + job->count <= model->memory->data.test.count);
    Batch batch = view_batch(model->memory, &model->memory->data.test, NULL, job->count);
    BatchResult result;
    batch.first = job->first;
    evaluate(model, &result, model->memory->weights, &batch, "test", VIEW_TEST_SET);
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
    if (*count > 0) evaluate(model, &result, model->memory->weights, &batch, "test", VIEW_TEST_SET);
    return result;
}

static BatchResult evaluate_samples(LocalModel *model, const float *weights, const ClientSamples *samples,
                                    uint32_t client) {
    const Dataset *data = &model->memory->data;
    const DatasetSplit *split = samples->of_test_set ? &data->test : &data->train;
    const uint32_t size =
        model->trainer && model->memory->config->trainer.whole_test ? samples->count : EVALUATION_CHUNK;
    const char *part = client == VIEW_TEST_SET ? "validation" : "client";
    BatchResult sum = {0};
    model->view.of_test_set = samples->of_test_set;
    for (uint32_t first = 0; first < samples->count; first += size) {
        const uint32_t left = samples->count - first;
        const Batch batch = view_batch(model->memory, split, samples->indices + first, left < size ? left : size);
        BatchResult result;
        evaluate(model, &result, weights, &batch, part, client);
        sum.loss_sum += result.loss_sum;
        sum.hits += result.hits;
        assert(sum.hits <= first + batch.count);
    }
    return sum;
}

// A client is tested on test samples of its own, on training samples that were held out, or on its training samples, as
// the partition has them. With drift the client holds another client's part of the data set.
ClientSamples evaluation_samples(const RunMemory *memory, const Job *job, uint32_t round) {
    const RunConfig *config = memory->config;
    const Partition *partition = &memory->partition;
    const TestedOn tests = partition_tests_on(partition);
    if (job->task == EVALUATE_VALIDATION)
        return (ClientSamples){.indices = partition->validation + job->first, .count = job->count};
    const bool trains = job->task == EVALUATE_TRAINING_DATA || job->task == EVALUATE_TRAINING_PART;
    const uint32_t holding = view_holding(&config->view, config->seed, round, job->client, config->clients);
    ClientSamples samples = {.of_test_set = !trains && tests == TESTS_ON_OWN};
    samples.indices = trains || tests == TESTS_ON_TRAINING ? partition_client(partition, holding, &samples.count)
                                                           : partition_client_test(partition, holding, &samples.count);
    if (job->task == EVALUATE_TRAINING_PART) {
        samples.indices += job->first;
        samples.count = job->count;
    }
    return samples;
}

const char *evaluation_data_name(const Partition *partition) {
    static const char *const names[] = {[TESTS_ON_TRAINING] = "client's training samples",
                                        [TESTS_ON_HELD_OUT] = "client's held-out samples",
                                        [TESTS_ON_OWN] = "client's test samples"};
    return names[partition_tests_on(partition)];
}

// The validation set is a part of no client's data.
static BatchResult evaluate_job(LocalModel *model, const float *weights, Job *job, uint32_t round) {
    assert(job->task != TRAIN_ROOT && weights);
    const ClientSamples samples = evaluation_samples(model->memory, job, round);
    job->count = samples.count;
    return evaluate_samples(model, weights, &samples, job->task == EVALUATE_VALIDATION ? VIEW_TEST_SET : job->client);
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

// All models are evaluated on all samples, as in Algorithm 1 of IFCA. The first of equal ones is taken, and none whose
// loss is no number.
void evaluation_choose(LocalModel *model, Job *job, uint32_t round) {
    const uint32_t models = state_models(model->memory->config);
    if (models == 1) return;
    const Job about = {.client = job->client, .task = EVALUATE_TRAINING_DATA};
    const ClientSamples samples = evaluation_samples(model->memory, &about, round);
    double least = INFINITY;
    job->cluster = 0;
    for (uint32_t m = 0; m < models; m++) {
        const double loss = evaluate_samples(model, state_model(model->run, m), &samples, job->client).loss_sum;
        if (!(loss < least)) continue;
        least = loss;
        job->cluster = m;
    }
    model->of_cluster.weights = state_model(model->run, job->cluster);
    assert(job->cluster < models);
}

// The largest cluster's model is tested as the global one; a client's own tests and losses are of its cluster's model.
static bool is_of_cluster(const Job *job) {
    return job->task == EVALUATE_PERSONAL || job->task == EVALUATE_FINE_TUNED || job->task == EVALUATE_TRAINING_DATA ||
           job->task == EVALUATE_TRAINING_PART;
}

void evaluation_run(LocalModel *model, Job *job, uint32_t round) {
    uint64_t start = clock_nanoseconds();
    BatchResult result = {0};
    uint32_t marked = 0;
    assert(job->task <= EVALUATE_FINE_TUNED && job->state == JOB_OPEN);
    const bool is_test = job->task == EVALUATE_TEST_SET || job->task == EVALUATE_VALIDATION;
    Answer *answers = is_test ? model->memory->answers : NULL; // a trainer has its own net, and its own metrics
    view_begin(&model->view, is_test || job->task == TRAIN_ROOT ? VIEW_TEST_SET : job->client, round, NULL);
    model->net.answers = answers ? answers + job->first * spec_answers(&model->net.spec) : NULL;
    model->of_cluster.weights = state_tested_model(model->run);
    if (is_of_cluster(job)) evaluation_choose(model, job, round);
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
    if (model->fault != STATUS_OK) return;
    assert(result.hits <= job->count && !(result.loss_sum < 0));
    job->loss_sum = result.loss_sum;
    job->hits = result.hits;
    job->samples = job->task == EVALUATE_BACKDOOR ? marked : job->count;
    job->seconds = clock_seconds_since(start);
    trainer_turn_end_job(model, job);
    queue_finish(job, JOB_DONE);
}
