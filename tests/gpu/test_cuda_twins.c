// Every op against its twin on the GPU, from the tables of twins.h. An op of the CPU without a row, or a function of
// cuda_kernels.h that no row names, fails. M models in lockstep with different numbers of samples; sizes that divide
// neither vectors nor blocks.
#include <stdio.h>

#include "gpu.h"
#include "gpu_trial.h"
#include "twins.h"

static const Twins *const twins[] = {&layer_twins, &join_twins, &sequence_twins, &sample_twins, &step_twins};

// NULL after the last.
static const Twin *row_of(size_t number) {
    for (size_t i = 0; i < LENGTH(twins); number -= twins[i++]->count)
        if (number < twins[i]->count) return &twins[i]->rows[number];
    return NULL;
}

static void every_op_of_the_cpu_has_a_row(void **state) {
    (void)state;
    for (size_t at = offsetof(Kernels, sgd_step); at < sizeof(Kernels); at += sizeof(void (*)(void))) {
        size_t rows = 0;
        for (size_t i = 0; row_of(i); i++)
            rows += at >= row_of(i)->first && at < row_of(i)->first + row_of(i)->bytes;
        if (rows != 1) fail_msg("byte %zu of Kernels is an op with %zu rows in the table", at, rows);
    }
}

static bool is_in_the_table(const char *name) {
    char between_spaces[80];
    snprintf(between_spaces, sizeof between_spaces, " %s ", name);
    for (size_t i = 0; row_of(i); i++)
        if (strstr(row_of(i)->on_gpu, between_spaces)) return true;
    return false;
}

static void every_function_of_cuda_kernels_is_in_a_row(void **state) {
    (void)state;
    FILE *header = fopen(CUDA_KERNELS_H, "r");
    char line[512], name[64];
    int functions = 0;
    if (!header) skip(); // a build that was carried to a machine without the sources
    while (fgets(line, sizeof line, header))
        if (sscanf(line, "%*[a-z_] %63[a-z_0-9](", name) == 1 && strncmp(name, "cuda_", 5) == 0) {
            functions++;
            if (!is_in_the_table(name)) fail_msg("%s has no row in the table", name);
        }
    fclose(header);
    assert_true(functions >= 15);
}

static void twins_agree(int models, int samples, const uint32_t *counts) {
    Trial trial = {.models = models, .samples = samples, .cpu = kernels_named("baseline")};
    memcpy(trial.counts, counts, (size_t)models * sizeof *counts);
    trial.gpu_counts = gpu_copy(counts, (size_t)models * sizeof *counts, 0);
    trial.step = (CudaStep){.models = models, .samples = samples, .counts = gpu_at(trial.gpu_counts)};
    check_cuda(cudaStreamCreate(&trial.step.stream));
    for (size_t i = 0; row_of(i); i++)
        if (i == 0 || row_of(i)->check != row_of(i - 1)->check) {
            row_of(i)->check(&trial);
            check_cuda(cudaGetLastError());
        }
    check_cuda(cudaStreamDestroy(trial.step.stream));
    gpu_free(trial.gpu_counts);
}

static void twins_agree_for_one_model(void **state) {
    (void)state;
    twins_agree(1, 16, (const uint32_t[]){16});
    twins_agree(1, 4, (const uint32_t[]){1});
}

static void twins_agree_for_models_with_different_counts(void **state) {
    (void)state;
    twins_agree(3, 12, (const uint32_t[]){10, 0, 12});
}

static void twins_agree_for_eight_models_of_large_batches(void **state) {
    (void)state;
    twins_agree(8, 64, (const uint32_t[]){64, 1, 0, 33, 63, 40, 0, 64});
}

int main(int argc, char **argv) {
    if (gpu_is_missing()) return GPU_TEST_SKIPPED;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_op_of_the_cpu_has_a_row),
        cmocka_unit_test(every_function_of_cuda_kernels_is_in_a_row),
        cmocka_unit_test(twins_agree_for_one_model),
        cmocka_unit_test(twins_agree_for_models_with_different_counts),
        cmocka_unit_test(twins_agree_for_eight_models_of_large_batches),
    };
    return run_cases(argc, argv, tests, NULL, NULL);
}
