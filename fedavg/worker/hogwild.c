#include "hogwild.h"

#include "base/clock.h"
#include "datasets/order.h"
#include "fedavg/worker/stepper.h"

static bool all_finite(const float *values, size_t count) {
    // x * 0 is 0 for every finite x and NaN otherwise; the sum stays 0 exactly when all are finite.
    float sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += values[i] * 0.0f;
    return sum == 0.0f;
}

void hogwild_plan(SlotPlan *slots, const RunConfig *config) {
    *slots = (SlotPlan){.vectors = config->clients, .lasting = config->clients};
}

// One step of one worker: read, compute, write, count.
static void hogwild_step(LocalModel *model, float *velocity, const Batch *batch, BatchResult *result,
                         const Noise *noise) {
    Control *control = model->memory->control;
    const RunConfig *config = &control->config;
    WorkerTally *tally = &control->tallies[model->rank];
    float *weights = model->memory->weights;
    uint64_t read_at = atomic_load_explicit(&control->updates, memory_order_relaxed);
    net_gradient(&model->net, model->gradient, result, weights, batch, noise);
    if (!all_finite(model->gradient, config->parameters)) {
        tally->refused_steps++;
        return;
    }
    clip_gradient(model->gradient, config->training.clip, config->parameters);
    const Kernels *kernels = model->net.kernels;
    const Training training = run_memory_training(model->memory);
    (config->training.hogwild_update == HOGWILD_ATOMIC ? kernels->sgd_step_atomically : kernels->sgd_step)(
        weights, velocity, model->gradient, &training.sgd, config->parameters);
    uint64_t staleness = atomic_fetch_add_explicit(&control->updates, 1, memory_order_relaxed) - read_at;
    tally->staleness[staleness < STALENESS_BUCKETS ? staleness : STALENESS_BUCKETS - 1]++;
}

void hogwild_train(LocalModel *model, Job *job, uint32_t round) {
    const RunMemory *memory = model->memory;
    const RunConfig *config = memory->config;
    uint64_t start = clock_nanoseconds();
    uint32_t count;
    const uint32_t *indices = partition_client(&memory->partition, job->client, &count);
    float *velocity = run_memory_vector(memory, job->client);
    Noise noise = {.seed = config->seed, .round = round, .client = job->client};
    job->loss_sum = 0;
    for (uint32_t epoch = 0; epoch < config->training.local_epochs; epoch++) {
        batch_order(model->order, indices, count, config->seed, round, job->client, epoch);
        for (uint32_t number = 0; number < local_model_batches(model, count); number++, noise.step++) {
            Batch batch = local_model_batch(model, model->order, number, count);
            BatchResult result;
            hogwild_step(model, velocity, &batch, &result, &noise);
            job->loss_sum += result.loss_sum;
        }
    }
    job->samples = (uint64_t)count * config->training.local_epochs;
    job->seconds = clock_seconds_since(start);
    queue_finish(job, JOB_DONE);
}
