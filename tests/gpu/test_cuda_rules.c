// Every rule on the GPU has the bits of its function on the CPU.
#include "fedavg/gpu/cuda_rules.h"

#include <math.h>
#include <string.h>

#include "fedavg/rules/sum/aggregate.h"
#include "fedavg/rules/training.h"
#include "gpu.h"
#include "gpu_tensor.h"
#include "tests/tensor.h"

enum { COUNT = 3000, STRIDE = 3072, SLOTS = 3, EACH = 2, ROUNDS = 3 };

static float uniform(uint32_t what, uint32_t i) {
    return rng_float(rng_block((RngKey){{5, what}}, i, 0, 0, 0).word[0]) - 0.5f;
}

typedef struct Model {
    float weights[COUNT], common[COUNT];
    ServerState states[SERVER_STATES][COUNT];
} Model;

// Sums of three workers, the second of which has died.
static void make_sums(int64_t sums[SLOTS * EACH * STRIDE], uint32_t round) {
    for (uint32_t i = 0; i < SLOTS * EACH * STRIDE; i++)
        sums[i] = llrint((double)uniform(round, i) * 0x1p38);
}

static void step_on_cpu(Model *model, const int64_t *sums, const ServerTurn *turn, uint32_t row) {
    const int64_t *updates[] = {sums, sums + (size_t)2 * EACH * STRIDE};
    const int64_t *changes[] = {sums + STRIDE, sums + ((size_t)2 * EACH + 1) * STRIDE};
    const ServerSums all = {updates, changes, 2, 0.75, 1.25, NULL};
    const ServerMemory memory = {{model->states[0], model->states[1]}, model->common};
    server_apply(model->weights, &memory, &all, turn, row, COUNT);
}

static void check_rule(uint32_t row) {
    static Model expected, actual;
    static int64_t sums[SLOTS * EACH * STRIDE];
    static float view[COUNT];
    const uint8_t used[SLOTS] = {1, 0, 1};
    uint32_t not_finite;
    Chosen chosen = {.row = row};
    for (int n = 0; n < RULE_NUMBERS; n++)
        chosen.number[n] = server_rules[row]->text.numbers[n].preset;
    memset(&expected, 0, sizeof expected);
    for (uint32_t i = 0; i < COUNT; i++)
        expected.weights[i] = uniform(100, i);
    for (int s = 0; s < SERVER_STATES; s++)
        server_begin(expected.states[s], s, &chosen, COUNT);
    GpuTensor weights = gpu_copy(expected.weights, sizeof expected.weights, 0), host_view = gpu_new(sizeof view, 0);
    GpuTensor common = gpu_zeros(sizeof expected.common), count = gpu_new(sizeof not_finite, 0);
    GpuTensor states[] = {gpu_copy(expected.states[0], sizeof expected.states[0], 0),
                          gpu_copy(expected.states[1], sizeof expected.states[1], 0)};
    GpuTensor gpu_used = gpu_copy(used, sizeof used, 0);
    for (uint32_t round = 1; round <= ROUNDS; round++) {
        make_sums(sums, round);
        GpuTensor gpu_sums = gpu_copy(sums, sizeof sums, 0);
        const ServerTurn turn = server_turn(&chosen, round, 2, 5);
        const CudaServerStep step = {.weights = gpu_at(weights),
                                     .common = gpu_at(common),
                                     .states = {gpu_at(states[0]), gpu_at(states[1])},
                                     .host_view = gpu_at(host_view),
                                     .not_finite = gpu_at(count),
                                     .sums = gpu_at(gpu_sums),
                                     .used = gpu_at(gpu_used),
                                     .slots = SLOTS,
                                     .each = EACH,
                                     .stride = STRIDE,
                                     .count = COUNT,
                                     .arrived = 0.75,
                                     .factor = 1.25};
        step_on_cpu(&expected, sums, &turn, row);
        cuda_server_apply(&step, &turn, row, NULL);
        check_cuda(cudaGetLastError());
        gpu_read(actual.weights, weights);
        gpu_read(view, host_view);
        gpu_read(actual.common, common);
        gpu_read(actual.states[0], states[0]);
        gpu_read(actual.states[1], states[1]);
        gpu_read(&not_finite, count);
        if (memcmp(&expected, &actual, sizeof expected) != 0)
            fail_msg("server %s, round %u: the GPU has other bits", server_rules[row]->text.name, round);
        assert_memory_equal(view, expected.weights, sizeof view);
        assert_int_equal(not_finite, 0);
        gpu_free(gpu_sums);
    }
    const GpuTensor all[] = {weights, host_view, common, count, states[0], states[1], gpu_used};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        gpu_free(all[i]);
}

static void every_server_rule_has_the_bits_of_the_cpu(void **state) {
    (void)state;
    for (uint32_t row = 0; row < SERVER_RULE_COUNT; row++)
        check_rule(row);
}

enum { CLIENTS = 2 };

static void make_clients(float global[COUNT], float common[COUNT], float own[CLIENTS][STRIDE],
                         float kept[CLIENTS][STRIDE]) {
    for (uint32_t i = 0; i < COUNT; i++) {
        global[i] = uniform(0, i), common[i] = uniform(1, i);
        for (uint32_t k = 0; k < CLIENTS; k++)
            own[k][i] = global[i] + 0.1f * uniform(2 + k, i), kept[k][i] = k ? local_on_grid(uniform(4, i) * 1e-7f) : 0;
    }
}

// One rule comes twice, the second time with a look at the gradient.
static Chosen choose(uint32_t rule) {
    Chosen chosen = {.row = rule < LOCAL_RULE_COUNT ? rule : LOCAL_ROW_scaffold};
    for (int n = 0; n < RULE_NUMBERS; n++)
        chosen.number[n] = local_rules[chosen.row]->text.numbers[n].preset;
    if (rule == LOCAL_RULE_COUNT) chosen.number[0] = 1;
    return chosen;
}

static void check_clients(GpuTensor on_gpu, float expected[CLIENTS][STRIDE]) {
    static float actual[CLIENTS][STRIDE];
    gpu_read(actual, on_gpu);
    for (uint32_t k = 0; k < CLIENTS; k++)
        assert_memory_equal(actual[k], expected[k], COUNT * sizeof **actual);
}

// Two clients, the second of which keeps something from an earlier turn.
static void every_local_rule_has_the_bits_of_the_cpu(void **state) {
    (void)state;
    static float global[COUNT], common[COUNT], own[CLIENTS][STRIDE], kept[CLIENTS][STRIDE];
    static float shift[CLIENTS][STRIDE], after[CLIENTS][STRIDE];
    static int64_t changes[COUNT], gpu_changes[COUNT];
    make_clients(global, common, own, kept);
    GpuTensor gpu_global = gpu_copy(global, sizeof global, 0), gpu_common = gpu_copy(common, sizeof common, 0);
    GpuTensor gpu_own = gpu_copy(own, sizeof own, 0), gpu_kept = gpu_copy(kept, sizeof kept, 0);
    GpuTensor gpu_shift = gpu_new(sizeof shift, 0), gpu_after = gpu_new(sizeof after, 0);
    for (uint32_t rule = 0; rule <= LOCAL_RULE_COUNT; rule++) {
        const Training training = {.sgd = {.lr = 0.05f, .momentum = 0.5f}};
        const double shares[CLIENTS] = {0.25, 0.75};
        const Chosen chosen = choose(rule);
        const uint32_t row = chosen.row;
        LocalTurn turns[CLIENTS];
        float pulls[CLIENTS];
        uint32_t unfit[CLIENTS];
        memset(changes, 0, sizeof changes);
        for (uint32_t k = 0; k < CLIENTS; k++) {
            const LocalVectors at = {
                .global = global, .own = own[k], .state = kept[k], .common = common, .full_gradient = own[k]};
            turns[k] = local_turn(&chosen, &training, 3 + k, 1.5);
            pulls[k] = (float)local_pull(&chosen, &turns[k]);
            local_shift(shift[k], &at, &turns[k], (double)pulls[k], row, COUNT);
            assert_true(local_conclude(after[k], &at, &turns[k], row, 100, COUNT));
            aggregate_add(changes, after[k], kept[k], 1, COUNT);
        }
        GpuTensor gpu_turns = gpu_copy(turns, sizeof turns, 0), gpu_pulls = gpu_copy(pulls, sizeof pulls, 0);
        GpuTensor gpu_unfit = gpu_new(sizeof unfit, 0), gpu_sum = gpu_zeros(sizeof changes);
        GpuTensor gpu_shares = gpu_copy(shares, sizeof shares, 0), word = gpu_zeros(sizeof(uint32_t));
        const CudaFence fence = {.word = gpu_at(word)};
        const CudaTurns at = {.global = gpu_at(gpu_global),
                              .common = gpu_at(gpu_common),
                              .own = gpu_at(gpu_own),
                              .state = gpu_at(gpu_kept),
                              .full_gradient = gpu_at(gpu_own),
                              .turns = gpu_at(gpu_turns),
                              .pulls = gpu_at(gpu_pulls),
                              .count = COUNT,
                              .stride = STRIDE,
                              .models = CLIENTS};
        cuda_local_shift(gpu_at(gpu_shift), &at, row, NULL);
        cuda_local_conclude(gpu_at(gpu_after), gpu_at(gpu_unfit), &at, 100, row, NULL);
        cuda_local_add_changes(gpu_at(gpu_sum), gpu_at(gpu_after), gpu_at(gpu_shares), &at, &fence, NULL);
        check_cuda(cudaGetLastError());
        check_clients(gpu_shift, shift);
        check_clients(gpu_after, after);
        gpu_read(gpu_changes, gpu_sum);
        assert_memory_equal(gpu_changes, changes, sizeof changes);
        gpu_read(unfit, gpu_unfit);
        assert_true(unfit[0] == 0 && unfit[1] == 0);
        const GpuTensor all[] = {gpu_turns, gpu_pulls, gpu_unfit, gpu_sum, gpu_shares, word};
        for (size_t i = 0; i < sizeof all / sizeof *all; i++)
            gpu_free(all[i]);
    }
    const GpuTensor all[] = {gpu_global, gpu_common, gpu_own, gpu_kept, gpu_shift, gpu_after};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        gpu_free(all[i]);
}

static void weights_that_are_not_finite_are_counted(void **state) {
    (void)state;
    float weights[] = {1, NAN, 2, INFINITY, -INFINITY, 3};
    const int64_t sums[6] = {0};
    const uint8_t used = 1;
    uint32_t not_finite;
    const ServerTurn turn = {.round = 1, .cohort = 1, .population = 1, .number = {1}};
    GpuTensor gpu_weights = gpu_copy(weights, sizeof weights, 0), gpu_sums = gpu_copy(sums, sizeof sums, 0);
    GpuTensor gpu_used = gpu_copy(&used, 1, 0), count = gpu_new(sizeof not_finite, 0);
    GpuTensor host_view = gpu_new(sizeof weights, 0);
    const CudaServerStep step = {.weights = gpu_at(gpu_weights),
                                 .host_view = gpu_at(host_view),
                                 .not_finite = gpu_at(count),
                                 .sums = gpu_at(gpu_sums),
                                 .used = gpu_at(gpu_used),
                                 .slots = 1,
                                 .each = 1,
                                 .stride = 6,
                                 .count = 6,
                                 .arrived = 1,
                                 .factor = 1};
    cuda_server_apply(&step, &turn, SERVER_ROW_average, NULL);
    gpu_read(&not_finite, count);
    assert_int_equal(not_finite, 3);
    const GpuTensor all[] = {gpu_weights, gpu_sums, gpu_used, count, host_view};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        gpu_free(all[i]);
}

int main(int argc, char **argv) {
    if (gpu_is_missing()) return GPU_TEST_SKIPPED;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_server_rule_has_the_bits_of_the_cpu),
        cmocka_unit_test(every_local_rule_has_the_bits_of_the_cpu),
        cmocka_unit_test(weights_that_are_not_finite_are_counted),
    };
    return run_cases(argc, argv, tests, NULL, NULL);
}
