// What fedavg and ssgd do with whole models on the GPU, and what a run is given of its memory.
#include <math.h>
#include <stdio.h>

#include "fedavg/gpu/cuda_aggregate.h"
#include "fedavg/gpu/cuda_pace.h"
#include "fedavg/gpu/gpu.h"
#include "fedavg/parent/engine.h"
#include "fedavg/rules/sum/shard_sum.h"
#include "gpu.h"
#include "gpu_tensor.h"

static void every_model_starts_from_the_global_weights(void **state) {
    (void)state;
    static const size_t counts[] = {1, 255, 257, 1000};
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++)
        for (int models = 1; models <= 5; models += 2) {
            const size_t count = counts[c], stride = count + 3;
            float global[1000], copies[5 * 1003];
            for (size_t i = 0; i < count; i++)
                global[i] = (float)i + 0.5f;
            GpuTensor from = gpu_copy(global, count * sizeof *global, 4);
            GpuTensor to = gpu_new(stride * (size_t)models * sizeof *copies, 4);
            cuda_broadcast(gpu_floats(to), gpu_floats(from), count, stride, models, NULL);
            gpu_read(copies, to);
            for (size_t i = 0; i < stride * (size_t)models; i++)
                assert_true(i % stride < count ? copies[i] == global[i % stride] : isnan(copies[i]) != 0);
            gpu_free(to);
            gpu_free(from);
        }
}

static const CudaFence open_fence = {0};

enum { SHARDS = 3, STRIDE = 320, PARAMETERS = 300, BATCH = 4 };

static float value(size_t i) {
    return (float)((i * 7919) % 1000) / 500 - 1;
}

// The step on the CPU, in double precision. counts: samples of each shard in this step.
static void expect_step(double *weight, double *velocity, const float *gradients, const double *samples, Sgd sgd) {
    double mean = 0, total = samples[0] + samples[1] + samples[2];
    for (size_t s = 0; s < SHARDS; s++)
        if (samples[s] > 0) mean += samples[s] / total * (double)gradients[s * STRIDE];
    *velocity = (double)sgd.momentum * *velocity + mean + (double)sgd.weight_decay * *weight;
    *weight -= (double)sgd.lr * *velocity;
}

static void a_slice_is_stepped_by_the_mean_of_the_shards_that_have_samples(void **state) {
    (void)state;
    static const uint32_t counts[SHARDS] = {9, 4, 12};
    static const double samples[][SHARDS] = {{4, 4, 4}, {4, 0, 4}, {1, 0, 4}}; // in batches 0, 1, 2
    const Sgd sgd = {0.1f, 0.9f, 0.01f};
    float weights[PARAMETERS], velocity[PARAMETERS], gradients[SHARDS * STRIDE];
    for (uint32_t number = 0; number < 3; number++)
        for (size_t first = 0; first < PARAMETERS; first += 112) {
            size_t count = first + 112 < PARAMETERS ? 112 : PARAMETERS - first;
            for (size_t i = 0; i < PARAMETERS; i++)
                weights[i] = value(i), velocity[i] = value(i + 5000);
            for (size_t i = 0; i < SHARDS * STRIDE; i++) // what an idle shard left behind must not be looked at
                gradients[i] = samples[number][i / STRIDE] > 0 ? value(i + 9000) : NAN;
            GpuTensor w = gpu_copy(weights, sizeof weights, 0), v = gpu_copy(velocity, sizeof velocity, 0);
            GpuTensor g = gpu_copy(gradients, sizeof gradients, 0), c = gpu_copy(counts, sizeof counts, 0);
            CudaShards shards = {.gradients = gpu_floats(g) + first,
                                 .stride = STRIDE,
                                 .counts = gpu_at(c),
                                 .shards = SHARDS,
                                 .batch_size = BATCH,
                                 .number = number,
                                 .total = (uint32_t)(samples[number][0] + samples[number][1] + samples[number][2])};
            cuda_ssgd_step(gpu_floats(w) + first, gpu_floats(v) + first, &shards, &sgd, count, &open_fence, NULL);
            float stepped[PARAMETERS];
            gpu_read(stepped, w);
            for (size_t i = 0; i < PARAMETERS; i++) {
                double weight = (double)weights[i], speed = (double)velocity[i];
                if (i >= first && i < first + count) expect_step(&weight, &speed, gradients + i, samples[number], sgd);
                assert_float_equal(stepped[i], weight, 1e-6);
            }
            gpu_free(c);
            gpu_free(g);
            gpu_free(v);
            gpu_free(w);
        }
}

static void nothing_is_stepped_behind_a_closed_fence(void **state) {
    (void)state;
    static const uint32_t count = 4;
    float weights[PARAMETERS], stepped[PARAMETERS];
    uint32_t generation = 1;
    for (size_t i = 0; i < PARAMETERS; i++)
        weights[i] = value(i);
    GpuTensor w = gpu_copy(weights, sizeof weights, 0), v = gpu_zeros(sizeof weights);
    GpuTensor g = gpu_copy(weights, sizeof weights, 0), c = gpu_copy(&count, sizeof count, 0);
    GpuTensor word = gpu_copy(&generation, sizeof generation, 0);
    const CudaShards shards = {.gradients = gpu_floats(g),
                               .stride = PARAMETERS,
                               .counts = gpu_at(c),
                               .shards = 1,
                               .batch_size = 4,
                               .total = 4};
    for (uint32_t expected = 0; expected <= 1; expected++) {
        const CudaFence fence = {gpu_at(word), expected};
        cuda_ssgd_step(gpu_floats(w), gpu_floats(v), &shards, &(Sgd){.lr = 1}, PARAMETERS, &fence, NULL);
        gpu_read(stepped, w);
        for (size_t i = 0; i < PARAMETERS; i++)
            assert_true(stepped[i] == (expected == generation ? 0 : weights[i]));
    }
    gpu_free(word), gpu_free(c), gpu_free(g), gpu_free(v), gpu_free(w);
}

static const Dataset data = {.items = {.pixel_bytes = 1, .label_bytes = sizeof(uint16_t)},
                             .shape = {1, 28, 28},
                             .classes = 10,
                             .train.count = 60000,
                             .test.count = 10000};

static void shards_are_summed_along_the_tree_to_the_bits_of_the_cpu(void **state) {
    (void)state;
    enum { MOST = 37 };
    static float gradients[MOST * STRIDE];
    for (size_t i = 0; i < MOST * STRIDE; i++)
        gradients[i] = value(i + 9000) * (float)(1 + i % 7) / 3;
    uint32_t counts[MOST];
    for (uint32_t s = 0; s < MOST; s++)
        counts[s] = s % 5 == 2 ? 0 : 1 + s % 4;
    for (uint32_t count = 1; count <= MOST; count++) {
        uint32_t total = 0;
        for (uint32_t s = 0; s < count; s++)
            total += counts[s];
        ShardLeaf leaves[MOST];
        for (uint32_t s = 0; s < count; s++)
            leaves[s] = (ShardLeaf){{s, s + 1}, gradients + s * STRIDE, (float)counts[s] / (float)total};
        float mean[PARAMETERS], velocity[PARAMETERS] = {0}, weights[PARAMETERS] = {0};
        shard_sum(mean, leaves, (ShardRange){0, count}, 0, PARAMETERS);
        GpuTensor w = gpu_copy(weights, sizeof weights, 0), v = gpu_copy(velocity, sizeof velocity, 0);
        GpuTensor g = gpu_copy(gradients, sizeof gradients, 0), c = gpu_copy(counts, sizeof counts, 0);
        const CudaShards shards = {.gradients = gpu_floats(g),
                                   .stride = STRIDE,
                                   .counts = gpu_at(c),
                                   .shards = count,
                                   .batch_size = BATCH,
                                   .total = total};
        cuda_ssgd_step(gpu_floats(w), gpu_floats(v), &shards, &(Sgd){.lr = 1}, PARAMETERS, &open_fence, NULL);
        gpu_read(velocity, v);
        assert_memory_equal(velocity, mean, sizeof mean);
        gpu_free(c), gpu_free(g), gpu_free(v), gpu_free(w);
    }
}

static Status plan(RunConfig *config, const char *model, EngineKind engine, uint32_t workers, uint32_t clients,
                   uint32_t models, size_t free_mebibytes, Error *err) {
    Spec spec;
    if (spec_parse(&spec, model, data.shape, data.classes, err) != STATUS_OK) fail_msg("%s", err->message);
    Device device = {.name = "A card", .memory_bytes = (size_t)8 << 30, .free_bytes = free_mebibytes << 20};
    *config = (RunConfig){.engine = engine,
                          .workers = workers,
                          .clients = clients,
                          .nodes = 1,
                          .training.batch_size = 64,
                          .parameters = spec.parameter_count};
    engine_plan(config);
    return gpu_plan(config, &device, &spec, &data, clients, models, err);
}

static void models_a_launch_follow_from_cohort_workers_and_memory(void **state) {
    (void)state;
    static const struct {
        EngineKind engine;
        uint32_t workers, clients, wanted;
        size_t free_mebibytes;
        uint32_t models;
    } rows[] = {
        {ENGINE_ROUNDS, 4, 100, 0, 100000, 25},     {ENGINE_ROUNDS, 4, 10, 0, 100000, 3},
        {ENGINE_ROUNDS, 2, 1000, 0, 100000, 125},   {ENGINE_ROUNDS, 2, 10, 32, 100000, 10},
        {ENGINE_ROUNDS, 2, 1000, 300, 100000, 300}, {ENGINE_WILD, 4, 4, 0, 100000, 1},
        {ENGINE_ROUNDS, 1, 128, 0, 100000, 128},    {ENGINE_ROUNDS, 1, 130, 0, 100000, 65},
        {ENGINE_LOCKSTEP, 1, 300, 0, 100000, 100},  {ENGINE_LOCKSTEP, 2, 9, 0, 100000, 5},
        {ENGINE_LOCKSTEP, 2, 9, 2, 100000, 2},
    };
    RunConfig config;
    Error err;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        check_ok(plan(&config, "linear 10", rows[i].engine, rows[i].workers, rows[i].clients, rows[i].wanted,
                      rows[i].free_mebibytes, &err));
        assert_int_equal(config.gpu.models_per_launch, rows[i].models);
    }
    check_ok(plan(&config, "linear 2000; linear 10", ENGINE_ROUNDS, 1, 100, 0, 2048, &err));
    const uint32_t models = config.gpu.models_per_launch, launches = (100 + models - 1) / models;
    assert_in_range(models, 2, 99); // 1.6 million parameters: not all fit
    assert_int_equal(models, (100 + launches - 1) / launches);
}

// Before the run's memory is laid out the option alone tells of them.
static void weights_of_classes_are_planned(void **state) {
    (void)state;
    RunConfig config;
    Spec spec;
    Error err;
    const Device device = {.name = "A card", .memory_bytes = (size_t)8 << 30, .free_bytes = (size_t)8 << 30};
    check_ok(plan(&config, "linear 10", ENGINE_ROUNDS, 2, 9, 3, 8192, &err));
    const uint64_t without = config.gpu.worker_bytes;
    check_ok(spec_parse(&spec, "linear 10", data.shape, data.classes, &err));
    config.weighs_classes = true;
    check_ok(gpu_plan(&config, &device, &spec, &data, 9, 3, &err));
    assert_int_equal(config.gpu.worker_bytes, without + 256); // ten floats
}

static void a_worker_waits_after_a_step_at_first_and_then_about_twice_a_second(void **state) {
    (void)state;
    assert_int_equal(cuda_pace_steps(0), 1);
    assert_int_equal(cuda_pace_steps(1e-5), 64);
    assert_int_equal(cuda_pace_steps(0.02), 25);
    assert_int_equal(cuda_pace_steps(0.4), 1);
    assert_int_equal(cuda_pace_steps(40), 1);
    CudaPace pace = {0};
    assert_int_equal(cuda_pace_begin(&pace, 9), 1);
    pace.step_seconds = 1e-5;
    assert_int_equal(cuda_pace_begin(&pace, 9), 9);
    assert_int_equal(cuda_pace_begin(&pace, 90), 64);
}

static void what_a_run_shares_on_the_gpu_does_not_overlap(void **state) {
    (void)state;
    RunConfig config;
    Error err;
    check_ok(plan(&config, "conv 3 5; relu; linear 10", ENGINE_LOCKSTEP, 2, 5, 0, 100000, &err));
    const GpuConfig *gpu = &config.gpu;
    assert_true(gpu->used == 1);
    assert_true(gpu->updates_offset >= config.parameters * sizeof(float));
    assert_true(gpu->generations_offset >= gpu->updates_offset + sizeof(uint64_t));
    assert_true(gpu->weights_bytes >= gpu->generations_offset + MAX_WORKERS * sizeof(uint32_t));
    uint64_t stride = config.slots.vector_bytes;
    assert_true(stride >= config.parameters * sizeof(float) && stride % 256 == 0);
    assert_int_equal(gpu->slots_bytes, 6 * stride); // the velocity and five gradients
    // Test samples are also those behind the training samples.
    assert_int_equal(gpu->test_pixels_offset, 60000 * 784);
    assert_true(gpu->train_labels_offset >= gpu->test_pixels_offset + 10000 * 784);
    assert_int_equal(gpu->test_labels_offset, gpu->train_labels_offset + 2 * 60000);
    assert_true(gpu->data_bytes >= gpu->test_labels_offset + 2 * 10000);
}

static void too_little_memory_is_refused_with_how_many_workers_would_fit(void **state) {
    (void)state;
    RunConfig config;
    Error err;
    assert_int_equal(plan(&config, "linear 10", ENGINE_ROUNDS, 20, 20, 0, 4096, &err), STATUS_OS);
    assert_non_null(strstr(err.message, "--workers 20: with 1 models a launch they need "));
    assert_non_null(strstr(err.message, "GiB on A card (contexts 12.50, "));
    assert_non_null(strstr(err.message, "but 4.00 of its 8.00 GiB are free: "));
    unsigned fitting = 0;
    assert_int_equal(sscanf(strstr(err.message, "free: "), "free: %u workers would fit", &fitting), 1);
    check_ok(plan(&config, "linear 10", ENGINE_ROUNDS, fitting, 20, 1, 4096, &err));
    assert_int_equal(plan(&config, "linear 10", ENGINE_ROUNDS, fitting + 1, 20, 1, 4096, &err), STATUS_OS);
    assert_int_equal(plan(&config, "linear 10", ENGINE_ROUNDS, 1, 20, 20, 100, &err), STATUS_OS);
    assert_non_null(strstr(err.message, "not even one worker fits; lower --batch-size, --models-per-launch or take"));
}

int main(int argc, char **argv) {
    if (gpu_is_missing()) return GPU_TEST_SKIPPED;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_model_starts_from_the_global_weights),
        cmocka_unit_test(shards_are_summed_along_the_tree_to_the_bits_of_the_cpu),
        cmocka_unit_test(a_slice_is_stepped_by_the_mean_of_the_shards_that_have_samples),
        cmocka_unit_test(nothing_is_stepped_behind_a_closed_fence),
        cmocka_unit_test(models_a_launch_follow_from_cohort_workers_and_memory),
        cmocka_unit_test(weights_of_classes_are_planned),
        cmocka_unit_test(a_worker_waits_after_a_step_at_first_and_then_about_twice_a_second),
        cmocka_unit_test(what_a_run_shares_on_the_gpu_does_not_overlap),
        cmocka_unit_test(too_little_memory_is_refused_with_how_many_workers_would_fit),
    };
    return run_cases(argc, argv, tests, NULL, NULL);
}
