// Figures over clients, against NumPy's: numpy.quantile, var, mean of a sorted slice.
#include "fedavg/rules/combine/fairness.h"

#include <math.h>

#include "tests/check.h"

static void check_close(double value, double expected) {
    if (!(fabs(value - expected) < 1e-12 * (1 + fabs(expected)))) fail_msg("%.17g, expected %.17g", value, expected);
}

// a = numpy.array([.9, .5, .7, .1, .3, .85, .2, .6, .4, .95, .55, .65]); numpy.quantile(a, q), a.var() * 1e4,
// numpy.sort(a)[:2].mean(), numpy.sort(a)[-2:].mean(), a.sum() ** 2 / (12 * (a ** 2).sum())
static void figures_are_those_of_numpy(void **state) {
    (void)state;
    double accuracies[] = {.9, .5, .7, .1, .3, .85, .2, .6, .4, .95, .55, .65};
    const double quantiles[] = {0.1, 0.21, 0.375, 0.575, 0.7375, 0.895, 0.95};
    Fairness fairness;
    fairness_measure(&fairness, accuracies, 12);
    for (int q = 0; q < FAIRNESS_QUANTILES; q++)
        check_close(fairness.quantiles[q], quantiles[q]);
    check_close(fairness.mean, 0.558333333333333);
    check_close(fairness.variance, 682.638888888889);
    check_close(fairness.worst_tenth, 0.15);
    check_close(fairness.best_tenth, 0.925);
    check_close(fairness.jain, 0.820358187134503);
}

static void a_single_client_is_all_there_is(void **state) {
    (void)state;
    double accuracies[] = {0.25};
    Fairness fairness;
    fairness_measure(&fairness, accuracies, 1);
    for (int q = 0; q < FAIRNESS_QUANTILES; q++)
        check_close(fairness.quantiles[q], 0.25);
    assert_true(fairness.variance == 0 && fairness.worst_tenth == 0.25 && fairness.best_tenth == 0.25);
    check_close(fairness.jain, 1);
}

static void equals_are_fair_and_one_for_all_is_not(void **state) {
    (void)state;
    double equal[] = {.5, .5, .5, .5}, one[] = {0, 0, 0, 1}, none[] = {0, 0};
    Fairness fairness;
    fairness_measure(&fairness, equal, 4);
    check_close(fairness.jain, 1);
    fairness_measure(&fairness, one, 4);
    check_close(fairness.jain, 0.25);
    fairness_measure(&fairness, none, 2);
    assert_true(isnan(fairness.jain));
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(figures_are_those_of_numpy),
        cmocka_unit_test(a_single_client_is_all_there_is),
        cmocka_unit_test(equals_are_fair_and_one_for_all_is_not),
    };
    return run_cases(argc, argv, tests, NULL, NULL);
}
