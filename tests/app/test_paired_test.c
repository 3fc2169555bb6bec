// Better or luck: Student's quantiles as tables print them, his own example, and the sign test.
#include "app/look/paired_test.h"

#include <math.h>

#include "tests/check.h"

static void check_close(double value, double expected, double tolerance) {
    if (!(fabs(value - expected) <= tolerance)) fail_msg("%.9g is not %.9g", value, expected);
}

static void quantiles_are_those_of_the_tables(void **state) {
    (void)state;
    static const struct {
        double probability, value;
        size_t freedom;
    } rows[] = {{0.975, 12.706, 1}, {0.975, 4.303, 2},  {0.975, 3.182, 3},   {0.975, 2.776, 4},    {0.975, 2.571, 5},
                {0.975, 2.262, 9},  {0.975, 2.228, 10}, {0.975, 2.042, 30},  {0.975, 1.980, 120},  {0.975, 1.962, 1000},
                {0.8, 1.376, 1},    {0.8, 1.061, 2},    {0.8, 0.879, 10},    {0.8, 0.854, 30},     {0.9, 1.886, 2},
                {0.99, 2.764, 10},  {0.995, 63.657, 1}, {0.9995, 31.599, 2}, {0.975, 1.960, 9999}, {0.5, 0, 7}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        check_close(student_quantile(rows[i].probability, rows[i].freedom), rows[i].value, 0.00051);
}

// Student's table of the hours of sleep that ten patients gained: the second drug's beyond the first's.
static void the_interval_of_students_sleepers_is_the_published_one(void **state) {
    (void)state;
    const double hours[] = {1.2, 2.4, 1.3, 1.3, 0, 1, 1.8, 0.8, 4.6, 1.4};
    PairedTest test;
    paired_test(&test, hours, 10);
    check_close(test.mean, 1.58, 1e-12);
    check_close(test.low, 0.7001142, 1e-7);
    check_close(test.high, 2.4598858, 1e-7);
    check_close(test.sign, 2.0 / 512, 1e-12); // nine above, one equal
    assert_true(test.more == 0);
}

static void a_difference_that_may_be_luck_says_how_many_pairs_it_needs(void **state) {
    (void)state;
    const double half[] = {-0.5, 1.5, -0.5, 1.5}; // mean 0.5, deviation 1.1547
    PairedTest test;
    paired_test(&test, half, 4);
    assert_true(test.low < 0 && test.high > 0);
    check_close(test.sign, 1, 1e-12);
    check_close((double)(4 + test.more), 44, 1); // Guenther: (1.960 + 0.842)^2 / 0.433^2 + 1.960^2 / 2
    const double none[] = {-1, 1, -1, 1};
    paired_test(&test, none, 4);
    assert_true(test.more == SIZE_MAX);
}

static void pairs_without_any_deviation_have_an_interval_of_one_point(void **state) {
    (void)state;
    const double equal[] = {0, 0, 0}, apart[] = {0.25, 0.25, 0.25};
    PairedTest test;
    paired_test(&test, equal, 3);
    assert_true(test.low == 0 && test.high == 0 && test.sign == 1 && test.more == 0);
    paired_test(&test, apart, 3);
    assert_true(test.low == 0.25 && test.high == 0.25 && test.more == 0);
    check_close(test.sign, 0.25, 1e-12);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(quantiles_are_those_of_the_tables),
        cmocka_unit_test(the_interval_of_students_sleepers_is_the_published_one),
        cmocka_unit_test(a_difference_that_may_be_luck_says_how_many_pairs_it_needs),
        cmocka_unit_test(pairs_without_any_deviation_have_an_interval_of_one_point),
    };
    return cmocka_run_group_tests_name("paired_test", tests, NULL, NULL);
}
