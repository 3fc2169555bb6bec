// Every op against its twin on the GPU, from one table. An op of the CPU without a row, or a function of
// cuda_kernels.h that no row names, fails. M models in lockstep with different numbers of samples; sizes that divide
// neither vectors nor blocks.
#include <stdio.h>

#include "gpu.h"
#include "gpu_trial.h"
#include "twins.h"

typedef struct Twin {
    size_t first, bytes; // where the op stands in Kernels
    const char *on_gpu;  // functions of cuda_kernels.h, between spaces
    void (*check)(const Trial *trial);
} Twin;

#define OP(name) offsetof(Kernels, name), sizeof(((Kernels *)0)->name)

#define CONVOLUTION " cuda_conv_forward cuda_conv_backward_weight cuda_conv_scratch_floats cuda_conv_backward_input "

static const Twin twins[] = {
    {OP(sgd_step),
     " cuda_sgd_step cuda_join_terms cuda_add_lengths cuda_add_share cuda_begin_whole_step cuda_whole_step "
     "cuda_whole_step_atomically ",
     check_sgd},
    {OP(sgd_step_atomically), " cuda_sgd_step_atomically ", check_sgd},
    {OP(gather), " cuda_gather ", check_gather},
    {OP(gather_rows), " cuda_gather ", check_gather_rows},
    {OP(conv), CONVOLUTION, check_direct},
    {OP(winograd), CONVOLUTION, check_winograd},
    {OP(columns), CONVOLUTION, check_columns},
    {OP(pool_forward), " cuda_pool_forward ", check_pool},
    {OP(pool_backward), " cuda_pool_backward ", check_pool},
    {OP(average_forward), " cuda_average_forward ", check_average},
    {OP(average_backward), " cuda_average_backward ", check_average},
    {OP(relu_forward), " cuda_relu_forward ", check_relu},
    {OP(relu_backward), " cuda_relu_backward ", check_relu},
    {OP(activation_forward), " cuda_activation_forward ", check_activation},
    {OP(activation_backward), " cuda_activation_backward ", check_activation},
    {OP(norm_forward), " cuda_norm_forward ", check_norm},
    {OP(norm_backward), " cuda_norm_backward cuda_norm_backs_at_once ", check_norm},
    {OP(batch_norm_forward), " cuda_batch_norm_forward ", check_batch_norm},
    {OP(batch_norm_backward), " cuda_batch_norm_backward_weight cuda_batch_norm_backward_input ", check_batch_norm},
    {OP(embedding_forward), " cuda_embedding_forward ", check_embedding},
    {OP(embedding_backward), " cuda_embedding_backward ", check_embedding},
    {OP(positions_forward), " cuda_positions_forward ", check_positions},
    {OP(positions_backward), " cuda_positions_backward ", check_positions},
    {OP(lstm_forward), " cuda_lstm_forward cuda_lstm_kept_features ", check_lstm},
    {OP(lstm_backward), " cuda_lstm_backward ", check_lstm},
    {OP(gru_forward), " cuda_gru_forward cuda_gru_kept_features ", check_gru},
    {OP(gru_backward), " cuda_gru_backward ", check_gru},
    {OP(add), " cuda_add cuda_sum_forward cuda_sum_backward ", check_add},
    {OP(mul_forward), " cuda_mul_forward ", check_mul},
    {OP(mul_backward), " cuda_mul_backward ", check_mul},
    {OP(dropout_draw), " cuda_dropout_forward ", check_dropout},
    {OP(dropout_apply), " cuda_dropout_forward cuda_dropout_backward ", check_dropout},
    {OP(linear_rows), " cuda_linear_forward ", check_linear},
    {OP(linear_columns), " cuda_linear_backward_input ", check_linear},
    {OP(linear_forward), " cuda_linear_forward ", check_linear},
    {OP(linear_backward_input), " cuda_linear_backward_input ", check_linear},
    {OP(linear_backward_weight), " cuda_linear_backward_weight cuda_linear_step ", check_linear},
    {OP(linear_backward_step), " cuda_linear_backward_input cuda_linear_step ", check_linear},
    {OP(linear_backward_bias), " cuda_linear_backward_weight cuda_linear_step ", check_linear},
    {OP(linear_each_forward), " cuda_linear_forward ", check_linear_each},
    {OP(linear_each_backward), " cuda_linear_backward_input cuda_linear_backward_weight ", check_linear_each},
    {OP(attention_forward), " cuda_attention_forward cuda_attention_kept_features ", check_attention},
    {OP(attention_backward), " cuda_attention_backward ", check_attention},
    // No op of the CPU: its layer calls another one for each slope.
    {0, 0, " cuda_prelu_forward cuda_prelu_backward_input cuda_prelu_backward_weight ", check_prelu},
    // Copies on the CPU, too (src/nn/layers/swap.c).
    {0, 0, " cuda_swap ", check_swap},
    {OP(softmax_cross_entropy), " cuda_softmax_cross_entropy ", check_loss},
    // Plain C on the CPU (regression.h).
    {0, 0, " cuda_squared_loss ", check_values},
    // The CPU's workers copy samples as clients see them (worker/view.h).
    {0, 0, " cuda_gather cuda_add_noise cuda_softmax_cross_entropy ", check_views},
};

static void every_op_of_the_cpu_has_a_row(void **state) {
    (void)state;
    for (size_t at = offsetof(Kernels, sgd_step); at < sizeof(Kernels); at += sizeof(void (*)(void))) {
        size_t rows = 0;
        for (size_t i = 0; i < LENGTH(twins); i++)
            rows += at >= twins[i].first && at < twins[i].first + twins[i].bytes;
        if (rows != 1) fail_msg("byte %zu of Kernels is an op with %zu rows in the table", at, rows);
    }
}

static bool is_in_the_table(const char *name) {
    char between_spaces[80];
    snprintf(between_spaces, sizeof between_spaces, " %s ", name);
    for (size_t i = 0; i < LENGTH(twins); i++)
        if (strstr(twins[i].on_gpu, between_spaces)) return true;
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
    for (size_t i = 0; i < LENGTH(twins); i++)
        if (i == 0 || twins[i].check != twins[i - 1].check) {
            twins[i].check(&trial);
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
