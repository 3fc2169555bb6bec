// Cohorts: without replacement, fair, and a function of seed and round alone.
#include "fedavg/rules/sampler.h"

#include <math.h>
#include <string.h>

#include "tests/check.h"

enum { CLIENTS = 50, COHORT = 10 };

static void a_cohort_has_no_client_twice_and_is_ascending(void **state) {
    (void)state;
    uint32_t cohort[COHORT], scratch[CLIENTS];
    for (uint32_t round = 1; round <= 200; round++) {
        sampler_draw(cohort, scratch, CLIENTS, COHORT, 1, round);
        for (size_t i = 1; i < COHORT; i++)
            assert_true(cohort[i - 1] < cohort[i]);
        assert_true(cohort[COHORT - 1] < CLIENTS);
    }
}

static void every_client_is_drawn_equally_often(void **state) {
    (void)state;
    enum { ROUNDS = 5000 };
    uint32_t cohort[COHORT], scratch[CLIENTS], drawn[CLIENTS] = {0};
    for (uint32_t round = 1; round <= ROUNDS; round++) {
        sampler_draw(cohort, scratch, CLIENTS, COHORT, 1, round);
        for (size_t i = 0; i < COHORT; i++)
            drawn[cohort[i]]++;
    }
    double expected = (double)ROUNDS * COHORT / CLIENTS;
    for (size_t client = 0; client < CLIENTS; client++)
        assert_true(fabs(drawn[client] - expected) < 5 * sqrt(expected));
}

static void the_same_seed_and_round_give_the_same_cohort_and_others_do_not(void **state) {
    (void)state;
    uint32_t first[COHORT], again[COHORT], other_round[COHORT], other_seed[COHORT], scratch[CLIENTS];
    sampler_draw(first, scratch, CLIENTS, COHORT, 7, 3);
    sampler_draw(other_round, scratch, CLIENTS, COHORT, 7, 4);
    sampler_draw(other_seed, scratch, CLIENTS, COHORT, 8, 3);
    sampler_draw(again, scratch, CLIENTS, COHORT, 7, 3);
    assert_memory_equal(first, again, sizeof first);
    assert_memory_not_equal(first, other_round, sizeof first);
    assert_memory_not_equal(first, other_seed, sizeof first);
}

static void a_cohort_of_everybody_is_everybody(void **state) {
    (void)state;
    uint32_t cohort[CLIENTS], scratch[CLIENTS];
    sampler_draw(cohort, scratch, CLIENTS, CLIENTS, 1, 1);
    for (uint32_t client = 0; client < CLIENTS; client++)
        assert_int_equal(cohort[client], client);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_cohort_has_no_client_twice_and_is_ascending),
        cmocka_unit_test(every_client_is_drawn_equally_often),
        cmocka_unit_test(the_same_seed_and_round_give_the_same_cohort_and_others_do_not),
        cmocka_unit_test(a_cohort_of_everybody_is_everybody),
    };
    return run_cases(argc, argv, tests, NULL, NULL);
}
