// Every collective, type and combination on 1, 2, 3, 4 and 7 ranks, with whole numbers that are compared exactly.
#include "group_everything.h"

// More than one chunk of every kind, and no multiple of anything: bytes are many, so that 8192 of them are passed too.
static const size_t uneven = 9001;

static void every_collective_is_exact_on_one_rank(void **state) {
    (void)state;
    assert_int_equal(run_ranks(1, try_everything, &uneven), 0);
}

static void every_collective_is_exact_on_two_ranks(void **state) {
    (void)state;
    assert_int_equal(run_ranks(2, try_everything, &uneven), 0);
}

static void every_collective_is_exact_on_three_ranks(void **state) {
    (void)state;
    assert_int_equal(run_ranks(3, try_everything, &uneven), 0);
}

static void every_collective_is_exact_on_four_ranks(void **state) {
    (void)state;
    assert_int_equal(run_ranks(4, try_everything, &uneven), 0);
}

static void every_collective_is_exact_on_seven_ranks(void **state) {
    (void)state;
    assert_int_equal(run_ranks(7, try_everything, &uneven), 0);
}

// So large that every pass takes several steps.
static void try_large(Group *group, const void *context) {
    Error err = {.message = ""};
    Buffers buffers = buffers_init(group, *(const size_t *)context, GROUP_F32);
    try_combining(group, &buffers, GROUP_SUM);
    try_copying(group, &buffers, group_size(group) - 1);
    buffers_free(&buffers);
    require_ok(group_finish(group, &err));
}

static void data_of_many_chunks_is_exact_too(void **state) {
    (void)state;
    const size_t count = 600007; // half of it is more than the longest slot
    assert_int_equal(run_ranks(2, try_large, &count), 0);
    assert_int_equal(run_ranks(3, try_large, &count), 0);
}

// Numbers of very different sizes, whose sum depends on the order.
static float rough(uint32_t rank, size_t i) {
    uint32_t bits = (uint32_t)(i * 2654435761u + rank * 40503u);
    return (float)(int32_t)bits * (i % 3 ? 1e-6f : 1e3f);
}

static void require_rank_order(Group *group, const void *context) {
    Error err = {.message = ""};
    size_t count = *(const size_t *)context;
    float *sum = malloc(count * sizeof *sum);
    require(sum);
    for (int repetition = 0; repetition < 5; repetition++) {
        for (size_t i = 0; i < count; i++)
            sum[i] = rough(group_rank(group), i);
        require_ok(group_all_reduce(group, sum, sum, count, GROUP_F32, GROUP_SUM, &err));
        for (size_t i = 0; i < count; i++) {
            float expected = rough(0, i);
            for (uint32_t rank = 1; rank < group_size(group); rank++)
                expected += rough(rank, i);
            require(memcmp(&sum[i], &expected, sizeof expected) == 0);
        }
    }
    free(sum);
    require_ok(group_finish(group, &err));
}

static void sums_of_floats_are_those_in_rank_order_for_any_size(void **state) {
    (void)state;
    const size_t counts[] = {3, 2048, 2049, 70001};
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++)
        assert_int_equal(run_ranks(5, require_rank_order, &counts[c]), 0);
}

// Integers at their limits.
static void require_limits(Group *group, const void *context) {
    (void)context;
    Error err = {.message = ""};
    int64_t wide[2] = {INT64_MAX - (int64_t)group_rank(group), INT64_MIN + (int64_t)group_rank(group)};
    require_ok(group_all_reduce(group, wide, wide, 2, GROUP_I64, GROUP_AVG, &err));
    require(wide[0] == INT64_MAX - 1 && wide[1] == INT64_MIN + 1); // ranks 0, 1, 2
    uint8_t byte = 200;
    require_ok(group_all_reduce(group, &byte, &byte, 1, GROUP_U8, GROUP_AVG, &err));
    require(byte == 200);
    require_ok(group_all_reduce(group, &byte, &byte, 1, GROUP_U8, GROUP_SUM, &err));
    require(byte == 600 % 256);
    int32_t below[2] = {-1, group_rank(group) == 1 ? -5 : 0};
    require_ok(group_all_reduce(group, below, below, 2, GROUP_I32, GROUP_AVG, &err));
    require(below[0] == -1 && below[1] == -1);
    int32_t most = INT32_MAX;
    require_ok(group_all_reduce(group, &most, &most, 1, GROUP_I32, GROUP_SUM, &err));
    require(most == INT32_MAX - 2);
    require_ok(group_finish(group, &err));
}

static void integers_wrap_and_their_means_are_exact(void **state) {
    (void)state;
    assert_int_equal(run_ranks(3, require_limits, NULL), 0);
}

int main(int argc, char **argv) {
    deadline_set(100);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_collective_is_exact_on_one_rank),
        cmocka_unit_test(every_collective_is_exact_on_two_ranks),
        cmocka_unit_test(every_collective_is_exact_on_three_ranks),
        cmocka_unit_test(every_collective_is_exact_on_four_ranks),
        cmocka_unit_test(every_collective_is_exact_on_seven_ranks),
        cmocka_unit_test(data_of_many_chunks_is_exact_too),
        cmocka_unit_test(sums_of_floats_are_those_in_rank_order_for_any_size),
        cmocka_unit_test(integers_wrap_and_their_means_are_exact),
    };
    return run_cases(argc, argv, tests, NULL, NULL);
}
