#include "evaluation.h"

#include "base/clock.h"

static BatchResult evaluate_test_set(LocalModel *model, const Job *job) {
    const Dataset *data = &model->memory->data;
    Batch batch = {.pixels = data->test.pixels,
                   .labels = data->test.labels,
                   .first = job->first,
                   .count = job->count,
                   .scale = data->scale,
                   .shift = data->shift};
    BatchResult result;
    net_evaluate(&model->net, &result, model->memory->weights, &batch);
    return result;
}

// weights on those of the training samples that indices (count) names.
static BatchResult evaluate_samples(LocalModel *model, const float *weights, const uint32_t *indices, uint32_t count) {
    const Dataset *data = &model->memory->data;
    BatchResult sum = {0};
    for (uint32_t first = 0; first < count; first += EVALUATION_CHUNK) {
        Batch batch = {.pixels = data->train.pixels,
                       .labels = data->train.labels,
                       .indices = indices + first,
                       .count = count - first < EVALUATION_CHUNK ? count - first : EVALUATION_CHUNK,
                       .scale = data->scale,
                       .shift = data->shift};
        BatchResult result;
        net_evaluate(&model->net, &result, weights, &batch);
        sum.loss_sum += result.loss_sum;
        sum.hits += result.hits;
    }
    return sum;
}

static BatchResult evaluate_training_data(LocalModel *model, Job *job) {
    const uint32_t *indices = partition_client(&model->memory->partition, job->client, &job->count);
    return evaluate_samples(model, model->memory->weights, indices, job->count);
}

void evaluation_run(LocalModel *model, Job *job) {
    uint64_t start = clock_nanoseconds();
    BatchResult result = {0};
    switch ((EvaluationTask)job->task) {
    case EVALUATE_TEST_SET:
        result = evaluate_test_set(model, job);
        break;
    case EVALUATE_TRAINING_DATA:
        result = evaluate_training_data(model, job);
        break;
    }
    job->loss_sum = result.loss_sum;
    job->hits = result.hits;
    job->samples = job->count;
    job->seconds = clock_seconds_since(start);
    queue_finish(job, JOB_DONE);
}
