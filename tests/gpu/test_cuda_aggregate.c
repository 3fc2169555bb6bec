// The exact sum on the GPU: the same bits as aggregate.c for any values, models and slots.
#include "gpu.h"
#include "gpu_tensor.h"
#include "fedavg/rules/sum/aggregate.h"
#include "fedavg/gpu/cuda_aggregate.h"
#include "tests/tensor.h"

enum { PARAMETERS = 1003, MODELS = 5, STRIDE = PARAMETERS + 5, SLOTS = 4, SLOT_STRIDE = PARAMETERS + 7 };

static const CudaFence open_fence = {0};

typedef struct Updates {
    float global[PARAMETERS], trained[MODELS * STRIDE];
    double shares[MODELS];
    GpuTensor gpu_global, gpu_trained, gpu_shares;
} Updates;

// Updates of all magnitudes that fit, and ties that round to even.
static void make_updates(Updates *updates) {
    for (uint32_t i = 0; i < PARAMETERS; i++) {
        RngBlock block = rng_block((RngKey){{5, 6}}, i, 0, 0, 0);
        updates->global[i] = rng_float(block.word[0]) - 0.5f;
        for (uint32_t m = 0; m < MODELS; m++) {
            float change = ldexpf(rng_float(block.word[1]) - 0.5f, (int)((i * 7 + m * 3) % 60) - 41);
            updates->trained[m * STRIDE + i] = i % 11 == 0 ? ldexpf(1.5f, -40) : updates->global[i] + change;
        }
    }
    for (uint32_t i = 0; i < PARAMETERS; i += 11)
        updates->global[i] = ldexpf((float)(i % 4), -41);
    const double shares[MODELS] = {0.3, 0.25, 0.2, 0.125, 0.125};
    memcpy(updates->shares, shares, sizeof shares);
    updates->gpu_global = gpu_copy(updates->global, sizeof updates->global, 0);
    updates->gpu_trained = gpu_copy(updates->trained, sizeof updates->trained, 0);
    updates->gpu_shares = gpu_copy(updates->shares, sizeof updates->shares, 0);
}

static void free_updates(Updates *updates) {
    gpu_free(updates->gpu_global);
    gpu_free(updates->gpu_trained);
    gpu_free(updates->gpu_shares);
}

static void the_sum_of_models_has_the_bits_of_the_cpu(void **state) {
    (void)state;
    static Updates updates;
    static int64_t expected[PARAMETERS], actual[PARAMETERS];
    make_updates(&updates);
    GpuTensor sum = gpu_zeros(sizeof actual);
    for (int twice = 0; twice < 2; twice++) { // added to what is there
        cuda_aggregate_add(gpu_at(sum), gpu_at(updates.gpu_trained), gpu_at(updates.gpu_global),
                           gpu_at(updates.gpu_shares), PARAMETERS, STRIDE, MODELS, &open_fence, NULL);
        for (int m = 0; m < MODELS; m++)
            aggregate_add(expected, updates.trained + m * STRIDE, updates.global, updates.shares[m], PARAMETERS);
    }
    check_cuda(cudaGetLastError());
    gpu_read(actual, sum);
    assert_memory_equal(actual, expected, sizeof actual);
    gpu_free(sum);
    free_updates(&updates);
}

static void a_model_without_a_share_adds_nothing_even_if_it_is_not_finite(void **state) {
    (void)state;
    static Updates updates;
    static int64_t expected[PARAMETERS], actual[PARAMETERS];
    make_updates(&updates);
    float *diverged = malloc(sizeof updates.trained);
    assert_non_null(diverged);
    memcpy(diverged, updates.trained, sizeof updates.trained);
    for (int i = 0; i < PARAMETERS; i++)
        diverged[2 * STRIDE + i] = i % 2 ? NAN : INFINITY;
    double shares[MODELS];
    memcpy(shares, updates.shares, sizeof shares);
    shares[2] = 0;
    GpuTensor sum = gpu_zeros(sizeof actual), gpu_diverged = gpu_copy(diverged, sizeof updates.trained, 0);
    GpuTensor gpu_shares = gpu_copy(shares, sizeof shares, 0);
    cuda_aggregate_add(gpu_at(sum), gpu_at(gpu_diverged), gpu_at(updates.gpu_global), gpu_at(gpu_shares),
                       PARAMETERS, STRIDE, MODELS, &open_fence, NULL);
    for (int m = 0; m < MODELS; m++)
        if (m != 2) aggregate_add(expected, updates.trained + m * STRIDE, updates.global, shares[m], PARAMETERS);
    gpu_read(actual, sum);
    assert_memory_equal(actual, expected, sizeof actual);
    free(diverged);
    gpu_free(sum);
    gpu_free(gpu_diverged);
    gpu_free(gpu_shares);
    free_updates(&updates);
}

// What a process has queued may begin when it is dead and its work given to another, who has changed the word.
static void nothing_is_added_or_copied_behind_a_closed_fence(void **state) {
    (void)state;
    static Updates updates;
    static int64_t sums[PARAMETERS], copied[PARAMETERS];
    make_updates(&updates);
    uint32_t generation = 3;
    GpuTensor word = gpu_copy(&generation, sizeof generation, 0), sum = gpu_zeros(sizeof sums);
    GpuTensor to = gpu_zeros(sizeof copied);
    for (uint32_t expected = 2; expected <= 3; expected++) {
        const CudaFence fence = {gpu_at(word), expected};
        cuda_aggregate_add(gpu_at(sum), gpu_at(updates.gpu_trained), gpu_at(updates.gpu_global),
                           gpu_at(updates.gpu_shares), PARAMETERS, STRIDE, MODELS, &fence, NULL);
        cuda_copy_shared(gpu_at(to), gpu_at(sum), sizeof sums, &fence, NULL);
        check_cuda(cudaGetLastError());
        gpu_read(sums, sum);
        gpu_read(copied, to);
        assert_true((sums[1] != 0) == (expected == generation));
        assert_memory_equal(copied, sums, sizeof sums);
    }
    cuda_copy_shared(gpu_at(to), NULL, sizeof sums, &(CudaFence){gpu_at(word), 4}, NULL);
    gpu_read(copied, to);
    assert_memory_equal(copied, sums, sizeof sums);
    cuda_copy_shared(gpu_at(to), NULL, sizeof sums, &open_fence, NULL); // no source: zeros
    gpu_read(copied, to);
    for (size_t i = 0; i < PARAMETERS; i++)
        assert_true(copied[i] == 0);
    gpu_free(word), gpu_free(sum), gpu_free(to);
    free_updates(&updates);
}

static void the_first_element_that_does_not_fit_is_found_in_each_model(void **state) {
    (void)state;
    static Updates updates;
    make_updates(&updates);
    uint64_t actual[MODELS];
    const float bad[] = {NAN, INFINITY, -INFINITY, 0x1p21f, -0x1p21f};
    const size_t places[MODELS] = {PARAMETERS - 1, 0, PARAMETERS, 300, 255};
    for (int m = 0; m < MODELS; m++)
        for (size_t i = places[m]; i < PARAMETERS; i += 100)
            updates.trained[(size_t)m * STRIDE + i] = bad[m];
    GpuTensor trained = gpu_copy(updates.trained, sizeof updates.trained, 0), first = gpu_new(sizeof actual, 0);
    for (int twice = 0; twice < 2; twice++)
        cuda_aggregate_first_unfit(gpu_at(first), gpu_at(trained), gpu_at(updates.gpu_global), PARAMETERS, STRIDE,
                                   MODELS, NULL);
    check_cuda(cudaGetLastError());
    gpu_read(actual, first);
    for (int m = 0; m < MODELS; m++) {
        assert_int_equal(actual[m], places[m]);
        assert_int_equal(actual[m], aggregate_first_unfit(updates.trained + m * STRIDE, updates.global, PARAMETERS));
    }
    gpu_free(trained);
    gpu_free(first);
    free_updates(&updates);
}

// Lengths that fill no tile, one tile and several, with a rest.
static void the_squared_lengths_of_updates_have_the_bits_of_the_cpu(void **state) {
    (void)state;
    enum { MOST = 3 * 2048 + 77, APART = MOST + 3 };
    const size_t counts[] = {1, 16, 17, 2047, 2048, 2049, MOST};
    float *trained = malloc(MODELS * APART * sizeof *trained), *global = malloc(MOST * sizeof *global);
    assert_true(trained && global);
    for (uint32_t i = 0; i < MODELS * APART; i++)
        trained[i] = ldexpf(rng_float(rng_block((RngKey){{7, 8}}, i, 0, 0, 0).word[0]) - 0.5f, (int)(i % 23) - 11);
    for (uint32_t i = 0; i < MOST; i++)
        global[i] = rng_float(rng_block((RngKey){{9, 8}}, i, 0, 0, 0).word[0]);
    GpuTensor on_gpu = gpu_copy(trained, MODELS * APART * sizeof *trained, 0);
    GpuTensor gpu_global = gpu_copy(global, MOST * sizeof *global, 0), lengths = gpu_new(MODELS * sizeof(double), 0);
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
        double actual[MODELS];
        cuda_aggregate_squared_updates(gpu_at(lengths), gpu_at(on_gpu), gpu_at(gpu_global), counts[c], APART, MODELS,
                                       NULL);
        check_cuda(cudaGetLastError());
        gpu_read(actual, lengths);
        for (int m = 0; m < MODELS; m++) {
            const double expected = aggregate_squared_update(trained + m * APART, global, counts[c]);
            assert_memory_equal(&actual[m], &expected, sizeof expected);
        }
    }
    gpu_free(on_gpu), gpu_free(gpu_global), gpu_free(lengths);
    free(trained), free(global);
}

int main(int argc, char **argv) {
    if (gpu_is_missing()) return GPU_TEST_SKIPPED;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_sum_of_models_has_the_bits_of_the_cpu),
        cmocka_unit_test(a_model_without_a_share_adds_nothing_even_if_it_is_not_finite),
        cmocka_unit_test(nothing_is_added_or_copied_behind_a_closed_fence),
        cmocka_unit_test(the_first_element_that_does_not_fit_is_found_in_each_model),
        cmocka_unit_test(the_squared_lengths_of_updates_have_the_bits_of_the_cpu),
    };
    return run_cases(argc, argv, tests, NULL, NULL);
}
