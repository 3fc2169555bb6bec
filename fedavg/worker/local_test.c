#include "local_test.h"

#include <assert.h>

#include "fedavg/rules/world/view_rules.h"
#include "fedavg/worker/trainer_turn.h"

// The batch is as the data set has it; the model sees it by the view that has begun.
void local_test_batch(LocalModel *model, BatchResult *result, const float *weights, const Batch *batch,
                      const char *part, uint32_t client) {
    Batch seen = *batch;
    if (model->by.trainer) {
        trainer_turn_evaluate(model, result, weights, batch, part, client);
        return;
    }
    view_apply(&model->view, &seen);
    net_evaluate(&model->net, result, weights, &seen);
}

BatchResult local_test(LocalModel *model, const float *weights, const ClientSamples *samples, uint32_t client) {
    const Dataset *data = &model->memory->data;
    const DatasetSplit *split = samples->of_test_set ? &data->test : &data->train;
    const uint32_t size =
        model->by.trainer && model->memory->config->trainer.whole_test ? samples->count : EVALUATION_CHUNK;
    const char *part = client == VIEW_TEST_SET ? "validation" : "client";
    Answer *const answers = model->net.answers;
    BatchResult sum = {0};
    model->view.of_test_set = samples->of_test_set;
    for (uint32_t first = 0; first < samples->count; first += size) {
        const uint32_t left = samples->count - first;
        const Batch batch = view_batch(model->memory, split, samples->indices + first, left < size ? left : size);
        BatchResult result;
        if (answers) model->net.answers = answers + first * spec_answers(&model->net.spec);
        local_test_batch(model, &result, weights, &batch, part, client);
        sum.loss_sum += result.loss_sum;
        sum.hits += result.hits;
    }
    return sum;
}

// A client is tested on test samples of its own, on training samples that were held out, or on its training samples, as
// the partition has them. With drift the client holds another client's part of the data set.
ClientSamples local_test_samples(const RunMemory *memory, const Job *job, uint32_t round) {
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

const char *local_test_data_name(const Partition *partition) {
    static const char *const names[] = {[TESTS_ON_TRAINING] = "client's training samples",
                                        [TESTS_ON_HELD_OUT] = "client's held-out samples",
                                        [TESTS_ON_OWN] = "client's test samples"};
    return names[partition_tests_on(partition)];
}
