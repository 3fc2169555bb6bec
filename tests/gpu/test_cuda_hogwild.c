// Hogwild on the GPU: shared weights, steps counted on the device, steps that are not finite refused there.
#include "gpu.h"
#include "gpu_net.h"
#include "nn/cuda/cuda_kernels.h"
#include "nn/cuda/cuda_progress.h"

static const char layers[] = "conv 3 3; relu; pool 2; linear 11; relu; dropout 0.3; linear 7";
static const Shape shape = {1, 8, 8};
enum { BATCH = 10, PARAMETERS_AT_MOST = 1024 };

// A net that trains weights which others train too, with the counter of everybody's updates.
typedef struct Hogwild {
    GpuNet on;
    GpuTensor updates;
} Hogwild;

static void start(Hogwild *hogwild, bool atomic_updates) {
    Error err;
    gpu_net_prepare(&hogwild->on, layers, shape, 1, BATCH);
    hogwild->updates = gpu_zeros(sizeof(uint64_t));
    CudaNetPlan *plan = &hogwild->on.plan;
    plan->weights_stride = 0;
    plan->updates = gpu_at(hogwild->updates);
    plan->atomic_updates = atomic_updates;
    check_ok(cuda_net_init(&hogwild->on.net, plan, &err));
}

static void stop(Hogwild *hogwild) {
    gpu_net_stop(&hogwild->on);
    gpu_free(hogwild->updates);
}

static uint64_t updates_of(const Hogwild *hogwild) {
    uint64_t updates;
    gpu_read(&updates, hogwild->updates);
    return updates;
}

static void check_counts(Hogwild *hogwild, uint64_t refused, uint64_t fresh) {
    Error err;
    uint64_t actual, sum, histogram[5];
    check_ok(cuda_net_staleness(hogwild->on.net, &actual, &sum, histogram, 5, &err));
    assert_int_equal(actual, refused);
    assert_int_equal(sum, 0);
    assert_int_equal(histogram[0], fresh);
    for (int i = 1; i < 5; i++)
        assert_int_equal(histogram[i], 0);
}

static void check_training(bool atomic_updates) {
    enum { SAMPLES = 43, STEPS = 20 }; // five batches, then idle
    Error err;
    Hogwild hogwild;
    BatchResult result, expected;
    start(&hogwild, atomic_updates);
    GpuNet *on = &hogwild.on;
    size_t count = on->plan.spec.parameter_count;
    gpu_assign(on, 0, SAMPLES);
    check_ok(cuda_net_train(on->net, STEPS, &err));
    check_ok(cuda_net_results(on->net, &result, &err));
    assert_int_equal(updates_of(&hogwild), 5);
    check_counts(&hogwild, 0, 5);
    check_counts(&hogwild, 0, 0); // since the last call
    Tensor weights = tensor_new(count), velocity = tensor_zeros(count);
    memcpy(weights.at, on->initial, count * sizeof(float));
    CudaTask task = gpu_task(0, SAMPLES);
    double loss = 0;
    for (uint32_t number = 0; number < 5; number++, task.noise.step++) {
        Batch batch = gpu_batch(on, &task, number);
        net_train_step(&on->cpu, weights.at, velocity.at, &expected, &gpu_sgd, NULL, &batch, &task.noise);
        loss += expected.loss_sum;
    }
    assert_true(fabs(loss - result.loss_sum) < 1e-4 * loss);
    float *actual = gpu_download(on->weights), *actual_velocity = gpu_download(on->velocity);
    double *exact = doubles(weights.at, count), *exact_velocity = doubles(velocity.at, count);
    check_close("weights", actual, exact, count, 1e-5);
    check_close("velocity", actual_velocity, exact_velocity, count, 1e-4);
    void *const all[] = {actual, actual_velocity, exact, exact_velocity};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
    tensor_free(weights);
    tensor_free(velocity);
    stop(&hogwild);
}

static void alone_it_trains_as_the_cpu_and_counts_every_update(void **state) {
    (void)state;
    check_training(false);
    check_training(true);
}

static void check_refusal(bool atomic_updates) {
    Error err;
    Hogwild hogwild;
    const float wild[] = {NAN, INFINITY};
    start(&hogwild, atomic_updates);
    GpuNet *on = &hogwild.on;
    size_t bytes = on->weights.bytes;
    // A logit's bias: with an infinite one the loss's gradient is NaN.
    float *place = gpu_floats(on->weights) + on->plan.spec.parameter_count - 1, before[PARAMETERS_AT_MOST];
    assert_true(bytes <= sizeof before);
    gpu_assign(on, 0, 1000);
    for (int i = 0; i < 2; i++) {
        check_cuda(cudaMemcpy(place, &wild[i], sizeof *wild, cudaMemcpyHostToDevice));
        gpu_read(before, on->weights);
        check_ok(cuda_net_train(on->net, 18, &err)); // directly, in a large and in a small graph
        float *after = gpu_download(on->weights), *velocity = gpu_download(on->velocity);
        assert_memory_equal(after, before, bytes);
        for (size_t p = 0; p < bytes / sizeof(float); p++)
            assert_true(velocity[p] == 0);
        free(after);
        free(velocity);
        check_counts(&hogwild, 18, 0);
    }
    assert_int_equal(updates_of(&hogwild), 0);
    check_cuda(cudaMemcpy(gpu_floats(on->weights), on->initial, bytes, cudaMemcpyHostToDevice));
    check_ok(cuda_net_train(on->net, 2, &err)); // the next ones are applied again
    check_counts(&hogwild, 0, 2);
    assert_int_equal(updates_of(&hogwild), 2);
    stop(&hogwild);
}

static void steps_that_are_not_finite_are_refused_and_counted(void **state) {
    (void)state;
    check_refusal(false);
    check_refusal(true);
}

static void two_nets_share_the_weights_and_the_count_of_updates(void **state) {
    (void)state;
    Error err;
    Hogwild one, other;
    start(&one, true);
    start(&other, true);
    cuda_net_free(other.on.net);
    CudaNetPlan plan = other.on.plan; // its own velocity and gradient
    plan.weights = one.on.plan.weights;
    plan.updates = one.on.plan.updates;
    check_ok(cuda_net_init(&other.on.net, &plan, &err));
    gpu_assign(&one.on, 0, 50);
    gpu_assign(&other.on, 0, 50);
    for (int step = 0; step < 4; step++) {
        check_ok(cuda_net_train(one.on.net, 1, &err));
        check_ok(cuda_net_train(other.on.net, 1, &err));
    }
    check_cuda(cudaDeviceSynchronize());
    assert_int_equal(updates_of(&one), 8);
    uint64_t refused, sum, total = 0, histogram[CUDA_NET_BUCKETS];
    Hogwild *const both[] = {&one, &other};
    for (int i = 0; i < 2; i++) {
        check_ok(cuda_net_staleness(both[i]->on.net, &refused, &sum, histogram, CUDA_NET_BUCKETS, &err));
        assert_int_equal(refused, 0);
        for (int others = 0; others < CUDA_NET_BUCKETS; others++)
            total += histogram[others];
    }
    assert_int_equal(total, 8);
    stop(&other);
    stop(&one);
}

static void no_step_is_applied_behind_a_closed_fence(void **state) {
    (void)state;
    Error err;
    Hogwild hogwild;
    uint32_t generation = 0;
    GpuTensor word = gpu_copy(&generation, sizeof generation, 0);
    start(&hogwild, false);
    GpuNet *on = &hogwild.on;
    cuda_net_free(on->net);
    on->plan.fence = (CudaFence){gpu_at(word), generation};
    check_ok(cuda_net_init(&on->net, &on->plan, &err));
    gpu_assign(on, 0, 1000);
    check_ok(cuda_net_train(on->net, 18, &err)); // directly, in a large and in a small graph
    float *before = gpu_download(on->weights);
    assert_int_equal(updates_of(&hogwild), 18);
    generation = 1;
    check_cuda(cudaMemcpy(word.at, &generation, sizeof generation, cudaMemcpyHostToDevice));
    check_ok(cuda_net_train(on->net, 17, &err));
    float *after = gpu_download(on->weights);
    assert_memory_equal(after, before, on->weights.bytes);
    assert_memory_not_equal(after, on->initial, on->weights.bytes);
    assert_int_equal(updates_of(&hogwild), 18);
    free(before);
    free(after);
    gpu_free(word);
    stop(&hogwild);
}

// Staleness, with others' updates in between --------------------------------------------------------------------------

typedef struct Counting {
    CudaProgress progress;
    GpuTensor words, counters, updates;
} Counting;

static void start_counting(Counting *counting) {
    const uint32_t words[] = {0, 0, 0, 0, 100, 0, 0, 0, 0}; // 100 samples left; the rest starts from zero
    counting->words = gpu_copy(words, sizeof words, 0);
    counting->counters = gpu_zeros((1 + CUDA_NET_BUCKETS + 2) * sizeof(uint64_t));
    counting->updates = gpu_zeros(sizeof(uint64_t));
    uint32_t *at = gpu_at(counting->words);
    uint64_t *counters = gpu_at(counting->counters);
    counting->progress = (CudaProgress){.models = 1,
                                        .batch_size = BATCH,
                                        .counts = at,
                                        .firsts = at + 1,
                                        .numbers = at + 2,
                                        .next = at + 3,
                                        .left = at + 4,
                                        .next_numbers = at + 5,
                                        .applied = at + 6,
                                        .updates = gpu_at(counting->updates),
                                        .refused = counters,
                                        .staleness = counters + 1,
                                        .read_at = counters + 2 + CUDA_NET_BUCKETS};
}

static void updates_that_landed_in_between_are_a_steps_staleness(void **state) {
    (void)state;
    const uint64_t others[] = {0, 3, 62, 63, 64, 1000000};
    uint64_t total = 0, counters[1 + CUDA_NET_BUCKETS + 2];
    Counting counting;
    start_counting(&counting);
    GpuTensor pixel[] = {gpu_zeros(BATCH), gpu_zeros(sizeof(float)), gpu_zeros(12 * sizeof(float))};
    const CudaStep step = {.models = 1, .samples = 12, .counts = counting.progress.counts};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        cuda_gather(gpu_floats(pixel[2]), gpu_at(pixel[0]), NULL, &counting.progress, gpu_floats(pixel[1]),
                    gpu_floats(pixel[1]), (Shape){1, 1, 1}, NULL, &step);
        total += others[i];
        check_cuda(cudaMemcpy(counting.updates.at, &total, sizeof total, cudaMemcpyHostToDevice));
        cuda_progress_count(&counting.progress, NULL);
        check_cuda(cudaGetLastError());
        uint64_t counted;
        gpu_read(&counted, counting.updates);
        assert_int_equal(counted, ++total);
    }
    gpu_read(counters, counting.counters);
    assert_int_equal(counters[0], 0);
    for (int b = 0; b < CUDA_NET_BUCKETS; b++)
        assert_int_equal(counters[1 + b], b == 63 ? 3 : b == 0 || b == 3 || b == 62 ? 1 : 0);
    assert_int_equal(counters[1 + CUDA_NET_BUCKETS], 3 + 62 + 63 + 64 + 1000000);
    for (size_t i = 0; i < sizeof pixel / sizeof *pixel; i++)
        gpu_free(pixel[i]);
    gpu_free(counting.words);
    gpu_free(counting.counters);
    gpu_free(counting.updates);
}

int main(int argc, char **argv) {
    if (gpu_is_missing()) return GPU_TEST_SKIPPED;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(alone_it_trains_as_the_cpu_and_counts_every_update),
        cmocka_unit_test(steps_that_are_not_finite_are_refused_and_counted),
        cmocka_unit_test(two_nets_share_the_weights_and_the_count_of_updates),
        cmocka_unit_test(no_step_is_applied_behind_a_closed_fence),
        cmocka_unit_test(updates_that_landed_in_between_are_a_steps_staleness),
    };
    return run_cases(argc, argv, tests, NULL, NULL);
}
