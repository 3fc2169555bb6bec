// Updates side by side: what robust rules make of them, against the same by hand.
#include "fedavg/rules/combine/rows.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "fedavg/rules/combine/combine_rules.h"
#include "fedavg/rules/sum/aggregate.h"
#include "tests/check.h"

enum { CLIENTS = 40, PARAMETERS = 3 * ROW_LANES + 7 };

static float global[PARAMETERS], trained[CLIENTS][PARAMETERS];
static const float *values[CLIENTS], *from[CLIENTS];

static int make_updates(void **state) {
    (void)state;
    for (uint32_t k = 0; k < CLIENTS; k++) {
        values[k] = trained[k];
        from[k] = global;
        for (uint32_t i = 0; i < PARAMETERS; i++) {
            const float size = powf(10.0f, (float)(i % 10) - 6.0f);
            global[i] = (float)rng_normal(rng_key(1, RNG_INIT, 0, 0, 0), i);
            trained[k][i] = global[i] + size * (float)rng_normal(rng_key(1, RNG_INIT, 1, k, 0), i);
            if (i % 7 == 0) trained[k][i] = global[i] + (float)(k % 3); // many of the same
        }
    }
    return 0;
}

static Rows rows_of(uint32_t count) {
    return (Rows){.values = values, .from = from, .count = count};
}

static void combine(int64_t *total, const CombineRule *rule, uint32_t count, double number) {
    const Rows rows = rows_of(count);
    float *workspace = aligned_alloc(64, count * ROW_LANES * sizeof *workspace);
    assert_non_null(workspace);
    rows_columns(total, &rows, rule->column, &number, workspace, PARAMETERS);
    free(workspace);
}

static int ascending(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

// The updates of one weight, in order.
static void sorted_updates(double *updates, uint32_t count, uint32_t parameter) {
    for (uint32_t k = 0; k < count; k++)
        updates[k] = (double)trained[k][parameter] - (double)global[parameter];
    qsort(updates, count, sizeof *updates, ascending);
}

static void the_median_is_the_value_in_the_middle_or_the_mean_of_two(void **state) {
    (void)state;
    for (uint32_t count = 1; count <= CLIENTS; count++) {
        int64_t total[PARAMETERS];
        combine(total, &median_combine_rule, count, 0);
        for (uint32_t i = 0; i < PARAMETERS; i++) {
            double updates[CLIENTS];
            sorted_updates(updates, count, i);
            const double expected = (updates[(count - 1) / 2] + updates[count / 2]) / 2;
            if (!(fabs((double)total[i] * 0x1p-40 - expected) <= 0x1p-40))
                fail_msg("%u clients, weight %u: %g, not %g", count, i, (double)total[i] * 0x1p-40, expected);
        }
    }
}

static void a_trimmed_mean_leaves_out_as_many_at_either_end(void **state) {
    (void)state;
    static const struct {
        double share;
        uint32_t count, cut;
    } cases[] = {{0.2, 10, 2}, {0.2, 14, 2}, {0.29, 40, 11}, {0.3, 10, 3}, {0.4999, 39, 19}, {0.1, 9, 0}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        const uint32_t count = cases[c].count, cut = cases[c].cut;
        int64_t total[PARAMETERS];
        combine(total, &trimmed_combine_rule, count, cases[c].share);
        for (uint32_t i = 0; i < PARAMETERS; i++) {
            double updates[CLIENTS], mean = 0;
            sorted_updates(updates, count, i);
            for (uint32_t k = cut; k < count - cut; k++)
                mean += updates[k] / (count - 2 * cut);
            if (!(fabs((double)total[i] * 0x1p-40 - mean) <= count * 0x1p-41 + 1e-12 * fabs(mean)))
                fail_msg("case %zu, weight %u: %g, not %g", c, i, (double)total[i] * 0x1p-40, mean);
        }
    }
}

static void what_trims_nothing_is_the_exact_mean_and_what_trims_most_the_median(void **state) {
    (void)state;
    for (uint32_t count = 1; count <= CLIENTS; count++) {
        int64_t total[PARAMETERS], mean[PARAMETERS] = {0}, median[PARAMETERS];
        combine(total, &trimmed_combine_rule, count, 0);
        for (uint32_t k = 0; k < count; k++)
            aggregate_add(mean, trained[k], global, 1.0 / count, PARAMETERS);
        assert_memory_equal(total, mean, sizeof mean);
        combine(total, &trimmed_combine_rule, count, (count - 1) / 2 / (double)count);
        combine(median, &median_combine_rule, count, 0);
        assert_memory_equal(total, median, sizeof median);
    }
}

static double middle; // of the updates that are compared

static int nearest_first(const void *a, const void *b) {
    const double x = fabs(*(const double *)a - middle), y = fabs(*(const double *)b - middle);
    return (x > y) - (x < y);
}

static void bulyans_columns_are_means_of_the_values_nearest_the_median(void **state) {
    (void)state;
    for (uint32_t byzantine = 0; byzantine <= 5; byzantine++) {
        enum { COUNT = 15 };
        int64_t total[PARAMETERS], mean[PARAMETERS] = {0};
        combine(total, &bulyan_combine_rule, COUNT, byzantine);
        for (uint32_t k = 0; k < COUNT && byzantine == 0; k++)
            aggregate_add(mean, trained[k], global, 1.0 / COUNT, PARAMETERS);
        if (byzantine == 0) assert_memory_equal(total, mean, sizeof mean); // all values: the exact mean
        for (uint32_t i = 0; i < PARAMETERS; i++) {
            if (i % 7 == 0) continue; // values that are equally near
            double updates[COUNT], expected = 0;
            sorted_updates(updates, COUNT, i);
            middle = updates[COUNT / 2];
            qsort(updates, COUNT, sizeof *updates, nearest_first);
            for (uint32_t k = 0; k < COUNT - 2 * byzantine; k++)
                expected += updates[k] / (COUNT - 2 * byzantine);
            if (!(fabs((double)total[i] * 0x1p-40 - expected) <= COUNT * 0x1p-41 + 1e-12 * fabs(expected)))
                fail_msg("byzantine %u, weight %u: %g, not %g", byzantine, i, (double)total[i] * 0x1p-40, expected);
        }
    }
}

static void the_order_of_rows_does_not_matter_to_a_column(void **state) {
    (void)state;
    int64_t total[PARAMETERS], other[PARAMETERS];
    combine(total, &trimmed_combine_rule, CLIENTS, 0.2);
    for (uint32_t k = 0; k < CLIENTS; k++)
        values[k] = trained[(7 * k + 3) % CLIENTS];
    combine(other, &trimmed_combine_rule, CLIENTS, 0.2);
    for (uint32_t k = 0; k < CLIENTS; k++)
        values[k] = trained[k];
    assert_memory_equal(total, other, sizeof total);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_median_is_the_value_in_the_middle_or_the_mean_of_two),
        cmocka_unit_test(a_trimmed_mean_leaves_out_as_many_at_either_end),
        cmocka_unit_test(what_trims_nothing_is_the_exact_mean_and_what_trims_most_the_median),
        cmocka_unit_test(bulyans_columns_are_means_of_the_values_nearest_the_median),
        cmocka_unit_test(the_order_of_rows_does_not_matter_to_a_column),
    };
    return run_cases(argc, argv, tests, make_updates, NULL);
}
