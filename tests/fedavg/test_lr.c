// The learning rate of a round: the formulas, and what they come to without their numbers.
#include "fedavg/rules/training.h"

#include <math.h>

#include "tests/check.h"

enum { ROUNDS = 12 };

static void check_rates(const LrSchedule *schedule, const double expected[ROUNDS]) {
    for (uint32_t round = 1; round <= ROUNDS; round++) {
        const double rate = (double)lr_at(schedule, 0.5f, round);
        if (!(fabs(rate - expected[round - 1]) <= 1e-7))
            fail_msg("schedule %u, round %u: %.9g, not %.9g", schedule->kind, round, rate, expected[round - 1]);
    }
}

static void a_constant_rate_is_that_of_the_options_to_the_bit(void **state) {
    (void)state;
    const LrSchedule same[] = {{.kind = LR_CONSTANT},
                               {.kind = LR_STEP, .step = 3, .gamma = 1},
                               {.kind = LR_EXPONENTIAL, .gamma = 1},
                               {.kind = LR_COSINE, .rounds = ROUNDS, .minimum = (double)0.1f}};
    for (size_t i = 0; i < sizeof same / sizeof *same; i++)
        for (uint32_t round = 1; round <= ROUNDS; round++)
            assert_true(lr_at(&same[i], 0.1f, round) == 0.1f);
}

static void steps_and_powers_fall_by_gamma(void **state) {
    (void)state;
    double steps[ROUNDS], powers[ROUNDS];
    for (int t = 0; t < ROUNDS; t++)
        steps[t] = 0.5 * pow(0.3, t / 5), powers[t] = 0.5 * pow(0.9, t);
    check_rates(&(LrSchedule){.kind = LR_STEP, .step = 5, .gamma = 0.3}, steps);
    check_rates(&(LrSchedule){.kind = LR_EXPONENTIAL, .gamma = 0.9}, powers);
}

static void a_cosine_falls_to_its_minimum(void **state) {
    (void)state;
    double wave[ROUNDS];
    for (int t = 0; t < ROUNDS; t++)
        wave[t] = 0.1 + 0.4 * (1 + cos(acos(-1) * t / ROUNDS)) / 2;
    check_rates(&(LrSchedule){.kind = LR_COSINE, .rounds = ROUNDS, .minimum = 0.1}, wave);
    assert_true(fabs(wave[ROUNDS / 2] - 0.3) < 1e-12); // half way down
}

static void a_warm_up_comes_before_the_schedule(void **state) {
    (void)state;
    double expected[ROUNDS] = {0.125, 0.25, 0.375, 0.5}, wave[ROUNDS] = {0.125, 0.25, 0.375, 0.5};
    for (int t = 4; t < ROUNDS; t++)
        expected[t] = 0.5 * pow(0.9, t - 4), wave[t] = 0.5 * (1 + cos(acos(-1) * (t - 4) / (ROUNDS - 4))) / 2;
    check_rates(&(LrSchedule){.kind = LR_EXPONENTIAL, .gamma = 0.9, .warm_up = 4}, expected);
    check_rates(&(LrSchedule){.kind = LR_COSINE, .rounds = ROUNDS, .warm_up = 4}, wave);
    check_rates(&(LrSchedule){.kind = LR_COSINE, .rounds = ROUNDS, .warm_up = ROUNDS},
                (double[]){0.5 / 12, 1.0 / 12, 1.5 / 12, 2.0 / 12, 2.5 / 12, 3.0 / 12, 3.5 / 12, 4.0 / 12, 4.5 / 12,
                           5.0 / 12, 5.5 / 12, 0.5});
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_constant_rate_is_that_of_the_options_to_the_bit),
        cmocka_unit_test(steps_and_powers_fall_by_gamma),
        cmocka_unit_test(a_cosine_falls_to_its_minimum),
        cmocka_unit_test(a_warm_up_comes_before_the_schedule),
    };
    return run_cases(argc, argv, tests, NULL, NULL);
}
