// The accountant against published figures and against other accountants (Opacus, Google's dp-accounting), whose
// results stand here as numbers.
#include "fedavg/rules/privacy/accountant.h"

#include <math.h>

#include "tests/check.h"

static void is_about(const char *what, double value, double expected, double tolerance) {
    if (!(fabs(value - expected) <= tolerance)) fail_msg("%s: %.9g, not %.9g", what, value, expected);
}

static double rdp_of(const Mechanism *mechanism, double order) {
    double rdp[ACCOUNTANT_ORDERS] = {0};
    accountant_add(rdp, mechanism, 1);
    for (int i = 0; i < ACCOUNTANT_ORDERS; i++)
        if (fabs(accountant_order(i) - order) < 1e-9) return rdp[i];
    fail_msg("no order %g", order);
    return NAN;
}

static void the_signed_series_agrees_with_numerical_integration(void **state) {
    (void)state;
    static const double cases[][2] = {{1.5, 9.554529e-5},   {2, 1.2851008161e-4}, {2.5, 1.62077409e-4},
                                      {4.7, 3.17788072e-4}, {8, 5.84070336e-4},   {32, 8.4694164337}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const double value = rdp_of(&(Mechanism){COHORTS_POISSON, 0.01, 1.1}, cases[i][0]);
        is_about("RDP", value / cases[i][1], 1, 2e-7);
    }
}

static void epsilon_is_that_of_other_accountants(void **state) {
    (void)state;
    static const struct {
        double rate, noise, rounds, delta, epsilon, order, before;
    } cases[] = {{.01, 1.1, 10000, 1e-5, 5.63199, 4.7, 6.2787}, {.01, 1, 1000, 1e-5, 2.10137, 7.8, 2.5380},
                 {.01, 4, 10000, 1e-5, 1.03549, 17, 1.2586},    {.1, 1, 100, 1e-5, 7.89926, 3.2, 8.7938},
                 {.05, .8, 200, 1e-5, 8.73183, 2.9, 9.7087},    {.001, .6, 1500, 1e-6, 3.23231, 4.8, 3.8787},
                 {1, 1, 1, 1e-5, 4.72851, 5.4, 5.2985},         {1, 10, 100, 1e-5, 4.72851, 5.4, 5.2985}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        double rdp[ACCOUNTANT_ORDERS] = {0};
        accountant_add(rdp, &(Mechanism){COHORTS_POISSON, cases[i].rate, cases[i].noise}, cases[i].rounds);
        const Spent spent = accountant_spent(rdp, cases[i].delta);
        is_about("epsilon", spent.epsilon, cases[i].epsilon, 5e-6);
        is_about("order", spent.order, cases[i].order, 1e-9);
        assert_false(spent.at_an_end);
        is_about("epsilon as before", accountant_spent_as_before(rdp, cases[i].delta).epsilon, cases[i].before, 5e-5);
    }
}

// Of the tutorial of TensorFlow Privacy: MNIST, batches of 256 of 60,000 samples; its figures are of the older
// conversion.
static void epsilon_is_that_of_a_well_known_tutorial(void **state) {
    (void)state;
    static const struct {
        double noise, epochs, epsilon;
    } cases[] = {{1.3, 15, 1.19}, {1.1, 60, 3.01}, {0.7, 45, 7.10}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        double rdp[ACCOUNTANT_ORDERS] = {0};
        accountant_add(rdp, &(Mechanism){COHORTS_POISSON, 256.0 / 60000, cases[i].noise},
                       cases[i].epochs * 60000 / 256);
        is_about("epsilon", accountant_spent_as_before(rdp, 1e-5).epsilon, cases[i].epsilon, 5e-3);
    }
}

// Noise counts half: theirs is in units of what one client changes, which is twice the norm.
static void cohorts_of_a_fixed_size_are_accounted_for_by_themselves(void **state) {
    (void)state;
    static const struct {
        double rate, noise, rounds, epsilon;
    } cases[] = {{.01, 2 * 1.1, 1000, 3.19000}, {.1, 2 * 1.0, 100, 14.05375}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        double rdp[ACCOUNTANT_ORDERS] = {0};
        accountant_add(rdp, &(Mechanism){COHORTS_FIXED, cases[i].rate, cases[i].noise}, cases[i].rounds);
        is_about("epsilon", accountant_spent(rdp, 1e-5).epsilon, cases[i].epsilon, 5e-6);
    }
    // Sampling never costs more than none, whose RDP at order a is 2 a / noise^2: epsilon 838.2, where the line between
    // whole orders has 1093.9.
    double sampled[ACCOUNTANT_ORDERS] = {0}, whole[ACCOUNTANT_ORDERS] = {0};
    accountant_add(sampled, &(Mechanism){COHORTS_FIXED, 0.446237, 2.344}, 1801);
    accountant_add(whole, &(Mechanism){COHORTS_FIXED, 1, 2.344}, 1801);
    for (int i = 0; i < ACCOUNTANT_ORDERS; i++)
        assert_true(sampled[i] <= whole[i]);
    is_about("epsilon of all", accountant_spent(whole, 5.9e-6).epsilon, 838.197, 1e-3);
    assert_true(accountant_spent(sampled, 5.9e-6).epsilon <= 838.198);
    // All clients in every round: the plain mechanism, with half the noise.
    is_about("RDP of all", rdp_of(&(Mechanism){COHORTS_FIXED, 1, 2}, 5), 5 / 2.0, 1e-12);
}

static void a_client_is_in_few_nodes_of_a_tree(void **state) {
    (void)state;
    double once[ACCOUNTANT_ORDERS] = {0}, large[ACCOUNTANT_ORDERS] = {0}, twice[ACCOUNTANT_ORDERS] = {0};
    accountant_add(once, &(Mechanism){COHORTS_TREE, 1.0 / 1000, 4}, 1000);
    is_about("epsilon", accountant_spent(once, 1e-5).epsilon, 3.61710, 5e-6);
    accountant_add(large, &(Mechanism){COHORTS_TREE, 1.0 / 2048, 8.83}, 2048);
    is_about("epsilon", accountant_spent(large, 1e-6).epsilon, 1.85790, 5e-6);
    accountant_add(twice, &(Mechanism){COHORTS_TREE, 1.0 / 500, 4}, 1003); // trees of 500, 500 and 3 rounds
    is_about("nodes", twice[0] / once[0], (9 + 9 + 2) / 10.0, 1e-12);
}

static void noise_is_found_for_an_epsilon(void **state) {
    (void)state;
    Error err;
    for (int cohorts = COHORTS_POISSON; cohorts <= COHORTS_TREE; cohorts++) {
        double noise, rdp[ACCOUNTANT_ORDERS] = {0}, less[ACCOUNTANT_ORDERS] = {0};
        check_ok(accountant_noise(&noise, (Cohorts)cohorts, 0.05, 100, 2, 1e-5, &err));
        accountant_add(rdp, &(Mechanism){(Cohorts)cohorts, 0.05, noise}, 100);
        accountant_add(less, &(Mechanism){(Cohorts)cohorts, 0.05, 0.999 * noise}, 100);
        assert_true(accountant_spent(rdp, 1e-5).epsilon <= 2);
        assert_true(accountant_spent(less, 1e-5).epsilon > 2);
    }
    double noise;
    assert_int_equal(accountant_noise(&noise, COHORTS_POISSON, 1, 1e12, 1e-3, 1e-15, &err), STATUS_USAGE);
}

static void one_release_of_all_is_known_exactly(void **state) {
    (void)state;
    is_about("epsilon", gaussian_epsilon(1, 1e-5), 4.377178096, 1e-9);
    is_about("epsilon", gaussian_epsilon(2, 1e-5), 1.993091404, 1e-9);
    is_about("epsilon", gaussian_epsilon(4, 1e-6), 1.060701862, 1e-9);
    is_about("noise", gaussian_noise(1.993091404, 1e-5), 2, 1e-8);
    is_about("delta", gaussian_delta(2, 1.993091404), 1e-5, 1e-13);
    assert_true(gaussian_epsilon(1e6, 0.4) == 0 && isinf(gaussian_epsilon(0, 1e-5)));
}

static void nothing_is_hidden_without_noise_and_nothing_spent_without_rounds(void **state) {
    (void)state;
    double rdp[ACCOUNTANT_ORDERS] = {0};
    accountant_add(rdp, &(Mechanism){COHORTS_POISSON, 0.01, 0}, 0);
    assert_true(accountant_spent(rdp, 1e-5).epsilon == 0);
    accountant_add(rdp, &(Mechanism){COHORTS_FIXED, 0.01, 0}, 1);
    assert_true(isinf(accountant_spent(rdp, 1e-5).epsilon));
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_signed_series_agrees_with_numerical_integration),
        cmocka_unit_test(epsilon_is_that_of_other_accountants),
        cmocka_unit_test(epsilon_is_that_of_a_well_known_tutorial),
        cmocka_unit_test(cohorts_of_a_fixed_size_are_accounted_for_by_themselves),
        cmocka_unit_test(a_client_is_in_few_nodes_of_a_tree),
        cmocka_unit_test(noise_is_found_for_an_epsilon),
        cmocka_unit_test(one_release_of_all_is_known_exactly),
        cmocka_unit_test(nothing_is_hidden_without_noise_and_nothing_spent_without_rounds),
    };
    return run_cases(argc, argv, tests, NULL, NULL);
}
