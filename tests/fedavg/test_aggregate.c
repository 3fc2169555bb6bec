// The exact mean: order, grouping and number of workers change nothing, and what must be refused is.
#include "fedavg/rules/server/server_rules.h"
#include "fedavg/rules/sum/aggregate.h"
#include "fedavg/worker/plain_sum.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "tests/check.h"

enum { PARAMETERS = 1003, CLIENTS = 37 };

// FedAvg's step.
static void aggregate_apply(float *weights, const int64_t *const *sums, size_t sum_count, double arrived,
                            size_t count) {
    const ServerSums all = {.updates = sums, .count = sum_count, .arrived = arrived, .factor = 1};
    const ServerTurn turn = {.round = 1, .cohort = 1, .population = 1, .number = {1}};
    server_apply(weights, &(ServerMemory){0}, &all, &turn, SERVER_ROW_average, count);
}

static float global[PARAMETERS], trained[CLIENTS][PARAMETERS];
static double share[CLIENTS];

static int make_updates(void **state) {
    (void)state;
    double total = 0;
    for (uint32_t k = 0; k < CLIENTS; k++)
        total += share[k] = 1 + k;
    for (uint32_t k = 0; k < CLIENTS; k++) {
        share[k] /= total;
        for (uint32_t i = 0; i < PARAMETERS; i++) {
            global[i] = (float)rng_normal(rng_key(1, RNG_INIT, 0, 0, 0), i);
            // Magnitudes from 1e-6 to 1e3, so that float addition in another order would differ.
            float size = powf(10.0f, (float)(i % 10) - 6.0f);
            trained[k][i] = global[i] + size * (float)rng_normal(rng_key(1, RNG_INIT, 1, k, 0), i);
        }
    }
    return 0;
}

// The mean with the clients dealt to `workers` slots in the order given.
static void mean_over(float *weights, size_t workers, const uint32_t *order) {
    int64_t *slots = calloc(workers * PARAMETERS, sizeof *slots);
    const int64_t *sums[CLIENTS];
    for (size_t w = 0; w < workers; w++)
        sums[w] = slots + w * PARAMETERS;
    for (size_t k = 0; k < CLIENTS; k++)
        aggregate_add(slots + k % workers * PARAMETERS, trained[order[k]], global, share[order[k]], PARAMETERS);
    memcpy(weights, global, sizeof global);
    aggregate_apply(weights, sums, workers, 1.0, PARAMETERS);
    free(slots);
}

static void any_order_on_any_number_of_workers_gives_the_same_bits(void **state) {
    (void)state;
    uint32_t order[CLIENTS];
    for (uint32_t k = 0; k < CLIENTS; k++)
        order[k] = k;
    float expected[PARAMETERS], mean[PARAMETERS];
    mean_over(expected, 1, order);
    for (size_t workers = 1; workers <= CLIENTS; workers++) {
        rng_shuffle(order, CLIENTS, rng_key(workers, RNG_SHUFFLE, 0, 0, 0));
        mean_over(mean, workers, order);
        assert_memory_equal(mean, expected, sizeof mean);
    }
}

static void the_mean_is_that_of_double_precision_to_a_rounding(void **state) {
    (void)state;
    uint32_t order[CLIENTS];
    for (uint32_t k = 0; k < CLIENTS; k++)
        order[k] = k;
    float mean[PARAMETERS];
    mean_over(mean, 3, order);
    for (size_t i = 0; i < PARAMETERS; i++) {
        double expected = global[i];
        for (size_t k = 0; k < CLIENTS; k++)
            expected += share[k] * ((double)trained[k][i] - (double)global[i]);
        assert_true(fabs((double)mean[i] - expected) <= 1e-7 * fabs(expected) + CLIENTS * 0x1p-41);
    }
}

static void totals_of_groups_give_the_bits_of_all_slots(void **state) {
    (void)state;
    enum { SLOTS = 7 };
    static int64_t slots[SLOTS][PARAMETERS], totals[3][PARAMETERS];
    const int64_t *sums[SLOTS], *groups[] = {totals[0], totals[1], totals[2]};
    memset(slots, 0, sizeof slots);
    for (int k = 0; k < SLOTS; k++) {
        aggregate_add(slots[k], trained[0], global, 1.0 / (k + 2), PARAMETERS);
        sums[k] = slots[k];
    }
    aggregate_total(totals[0], sums, 5, 0, PARAMETERS);
    aggregate_total(totals[1], sums, 0, 0, PARAMETERS); // a node whose clients were all refused
    aggregate_total(totals[2], sums + 5, 2, 0, PARAMETERS);
    float of_slots[PARAMETERS], of_groups[PARAMETERS];
    memcpy(of_slots, global, sizeof of_slots);
    memcpy(of_groups, global, sizeof of_groups);
    aggregate_apply(of_slots, sums, SLOTS, 1, PARAMETERS);
    aggregate_apply(of_groups, groups, 3, 1, PARAMETERS);
    assert_memory_equal(of_slots, of_groups, sizeof of_slots);
}

static void a_mean_without_the_refused_clients_is_divided_by_the_weight_that_arrived(void **state) {
    (void)state;
    int64_t sum[PARAMETERS] = {0};
    const int64_t *sums[] = {sum};
    aggregate_add(sum, trained[0], global, 0.25, PARAMETERS);
    float mean[PARAMETERS];
    memcpy(mean, global, sizeof mean);
    aggregate_apply(mean, sums, 1, 0.25, PARAMETERS); // one client of weight a quarter: its own model comes out
    for (size_t i = 0; i < PARAMETERS; i++)
        assert_true(fabs((double)mean[i] - (double)trained[0][i]) <= 1e-6 * fabs((double)trained[0][i]) + 4 * 0x1p-41);
}

static void updates_that_are_not_finite_or_too_large_are_found(void **state) {
    (void)state;
    float update[PARAMETERS];
    memcpy(update, trained[0], sizeof update);
    assert_int_equal(aggregate_first_unfit(update, global, PARAMETERS), PARAMETERS);
    const float bad[] = {NAN, INFINITY, -INFINITY, 0x1p21f, -0x1p21f};
    for (size_t b = 0; b < sizeof bad / sizeof *bad; b++)
        for (size_t at = 0; at < PARAMETERS; at += 167) {
            memcpy(update, trained[0], sizeof update);
            update[at] = bad[b];
            assert_int_equal(aggregate_first_unfit(update, global, PARAMETERS), at);
        }
}

static void the_largest_updates_that_fit_do_not_overflow(void **state) {
    (void)state;
    enum { MANY = 1000 };
    const float zero = 0, large = 0x1.fffffep19f;
    int64_t sum = 0;
    const int64_t *sums[] = {&sum};
    for (int k = 0; k < MANY; k++)
        aggregate_add(&sum, &large, &zero, 1.0 / MANY, 1);
    float mean = 0;
    aggregate_apply(&mean, sums, 1, 1.0, 1);
    assert_true(fabs((double)mean - (double)large) < 1);
}

// Of blocks with large differences and without, of exact halves, from zeros, and with every share, on and off the way
// that rounds small products without llrint.
static void differences_of_any_size_are_rounded_to_the_nearest_even_unit(void **state) {
    (void)state;
    enum { COUNT = 3 * 4096 + 5 };
    static float before[COUNT], after[COUNT];
    static int64_t sum[COUNT];
    const double shares[] = {1, 0.3, 1e-4, 0x1p-41, -0.7, 0};
    for (size_t s = 0; s < sizeof shares / sizeof *shares; s++) {
        memset(sum, 0, sizeof sum);
        for (uint32_t i = 0; i < COUNT; i++) {
            const float size = i < 2 * 4096 ? 4 : 0x1p20f, unit = (float)(i % 9) / 2 - 2;
            before[i] = i % 3 ? 0 : (float)rng_normal(rng_key(3, RNG_INIT, 0, 0, 0), i);
            after[i] = i % 5 ? before[i] + size * (float)rng_normal(rng_key(4, RNG_INIT, 0, 0, 0), i) / 8 : unit;
        }
        for (int times = 0; times < 2; times++)
            aggregate_add(sum, after, before, shares[s], COUNT);
        aggregate_add(sum, after, NULL, shares[s], COUNT);
        for (size_t i = 0; i < COUNT; i++) {
            const double scale = shares[s] * AGGREGATE_UNIT, value = (double)after[i];
            assert_int_equal(sum[i], 2 * llrint((value - (double)before[i]) * scale) + llrint(value * scale));
        }
    }
}

static void lengths_are_those_of_all_elements_of_any_number(void **state) {
    (void)state;
    enum { MOST = 40 };
    float values[MOST], other[MOST];
    int64_t total[MOST];
    double update = 0, length = 0, magnitudes = 0, of_total = 0;
    for (int i = 0; i < MOST; i++) { // whole numbers, so that no sum is rounded
        values[i] = (float)(i % 7 - 3);
        other[i] = (float)(i % 5 + 1);
        total[i] = i - 11;
        update += (double)(values[i] - other[i]) * (double)(values[i] - other[i]);
        length += (double)values[i] * (double)values[i];
        magnitudes += i % 7 < 3 ? 3 - i % 7 : i % 7 - 3;
        of_total += 4.0 * (i - 11) * (i - 11);
        assert_true(aggregate_squared_update(values, other, (size_t)i + 1) == update);
        assert_true(aggregate_squared_length(values, (size_t)i + 1) == length);
        assert_true(aggregate_absolute_sum(values, (size_t)i + 1) == magnitudes);
        assert_true(aggregate_squared_total(total, 2, (size_t)i + 1) == of_total);
    }
}

enum { LONG = 80011 }; // many runs of all loops

static void check_plain_sum(bool is_new, size_t bad) {
    static float before[LONG], after[LONG];
    static int64_t sum[LONG], expected[LONG];
    for (size_t i = 0; i < LONG; i++) {
        before[i] = global[i % PARAMETERS];
        after[i] = trained[i % 7][i % PARAMETERS];
        expected[i] = is_new ? 0 : (int64_t)i * 1000003 - 7;
        sum[i] = is_new ? INT64_MIN : expected[i];
    }
    if (bad < LONG) after[bad] = NAN;
    PlainSum plain = {.sum = sum, .share = 0.3, .is_new = is_new, .hash = XXH3_createState()};
    assert_int_equal(plain_sum_add(&plain, after, before, LONG), bad);
    assert_true(plain.fingerprint == XXH3_64bits(after, sizeof after));
    if (bad == LONG) aggregate_add(expected, after, before, 0.3, LONG);
    if (bad == LONG || !is_new) assert_memory_equal(sum, expected, sizeof sum);
    XXH3_freeState(plain.hash);
}

static void an_update_goes_into_the_sum_on_one_way_through_memory_or_not_at_all(void **state) {
    (void)state;
    const size_t bad[] = {0, 255, 256, 32768, LONG - 1, LONG};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        check_plain_sum(false, bad[i]);
        check_plain_sum(true, bad[i]);
    }
}

static int64_t parts[CLIENTS][LONG];

// LONG weights after a step by one total, dealt to `slots` slots.
static void step_by(float *weights, double *squared_length, size_t slots) {
    const int64_t *sums[CLIENTS];
    for (size_t i = 0; i < LONG; i++) {
        int64_t rest = (int64_t)(i * 2654435761u % (1u << 30)) - (1 << 29);
        weights[i] = (float)(i % 1000) * 1e-3f;
        for (size_t k = 1; k < slots; k++)
            rest -= parts[k][i] = (int64_t)((i + k * LONG) * 2246822519u % (1u << 29)) - (1 << 28);
        parts[0][i] = rest;
    }
    for (size_t k = 0; k < slots; k++)
        sums[k] = parts[k];
    const ServerSums all = {
        .updates = sums, .count = slots, .arrived = 0.7, .factor = 1, .squared_length = squared_length};
    const ServerTurn turn = {.round = 1, .cohort = 1, .population = 1, .number = {1}};
    server_apply(weights, &(ServerMemory){0}, &all, &turn, SERVER_ROW_average, LONG);
}

static void a_step_has_the_bits_and_the_length_of_its_total_however_many_sums_that_is_dealt_to(void **state) {
    (void)state;
    static float expected[LONG], weights[LONG];
    double expected_length = 0, length = 0;
    step_by(expected, &expected_length, 1);
    for (size_t i = 0; i < LONG; i++) {
        const double total = (double)((int64_t)(i * 2654435761u % (1u << 30)) - (1 << 29)) / (AGGREGATE_UNIT * 0.7),
                     before = (double)((float)(i % 1000) * 1e-3f);
        assert_true(fabs((double)expected[i] - before - total) <= 1e-7 * (fabs(before) + fabs(total)));
    }
    for (size_t slots = 1; slots <= CLIENTS; slots += slots < 10 ? 1 : 9) {
        step_by(weights, NULL, slots);
        assert_memory_equal(weights, expected, sizeof weights);
        step_by(weights, &length, slots);
        assert_memory_equal(weights, expected, sizeof weights);
        assert_true(length == expected_length && length > 0);
    }
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_order_on_any_number_of_workers_gives_the_same_bits),
        cmocka_unit_test(the_mean_is_that_of_double_precision_to_a_rounding),
        cmocka_unit_test(totals_of_groups_give_the_bits_of_all_slots),
        cmocka_unit_test(a_mean_without_the_refused_clients_is_divided_by_the_weight_that_arrived),
        cmocka_unit_test(updates_that_are_not_finite_or_too_large_are_found),
        cmocka_unit_test(an_update_goes_into_the_sum_on_one_way_through_memory_or_not_at_all),
        cmocka_unit_test(a_step_has_the_bits_and_the_length_of_its_total_however_many_sums_that_is_dealt_to),
        cmocka_unit_test(the_largest_updates_that_fit_do_not_overflow),
        cmocka_unit_test(differences_of_any_size_are_rounded_to_the_nearest_even_unit),
        cmocka_unit_test(lengths_are_those_of_all_elements_of_any_number),
    };
    return run_cases(argc, argv, tests, make_updates, NULL);
}
