// Cohorts: fair, by the rule that each sampler states, and a function of seed and round alone.
#include "fedavg/rules/world/sampler.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/check.h"

enum { CLIENTS = 50, COHORT = 10 };

// Draws of a world in which client c has (c % 5) * 20 samples: a fifth of the clients has none.
typedef struct Trial {
    World world;
    uint32_t samples[CLIENTS], drawn[CLIENTS], count;
    uint64_t scratch[CLIENTS + 1], total;
    Draw draw;
} Trial;

static void begin(Trial *trial, Sampling sampling) {
    *trial =
        (Trial){.world = {.sampling = (int)sampling, .availability = 1, .candidates = 2 * COHORT, .over_selection = 1}};
    for (uint32_t client = 0; client < CLIENTS; client++)
        trial->total += trial->samples[client] = client % 5 * 20;
    trial->draw = (Draw){.world = &trial->world,
                         .samples = trial->samples,
                         .scratch = trial->scratch,
                         .clients = CLIENTS,
                         .size = COHORT,
                         .seed = 1};
}

static uint32_t draw(Trial *trial, uint64_t seed, uint32_t round) {
    trial->draw.seed = seed;
    trial->draw.round = round;
    return trial->count = sampler_draw(trial->drawn, &trial->draw);
}

static void check_ascending(const Trial *trial, bool repeats) {
    for (uint32_t i = 1; i < trial->count; i++)
        assert_true(trial->drawn[i - 1] < trial->drawn[i] || (repeats && trial->drawn[i - 1] == trial->drawn[i]));
    assert_true(trial->count == 0 || trial->drawn[trial->count - 1] < CLIENTS);
}

// How often each client came in so many rounds.
static void count_draws(uint32_t times[CLIENTS], Trial *trial, uint32_t rounds) {
    memset(times, 0, CLIENTS * sizeof *times);
    for (uint32_t round = 1; round <= rounds; round++) {
        draw(trial, 1, round);
        check_ascending(trial, trial->world.replacement);
        for (uint32_t i = 0; i < trial->count; i++)
            times[trial->drawn[i]]++;
    }
}

static void check_near(uint32_t times, double expected) {
    if (!(fabs(times - expected) < 5 * sqrt(expected) + 1e-9)) fail_msg("%u times, expected %g", times, expected);
}

static void a_cohort_has_no_client_twice_and_is_ascending(void **state) {
    (void)state;
    for (int sampling = 0; sampling < SAMPLING_COUNT; sampling++) {
        Trial trial;
        begin(&trial, (Sampling)sampling);
        for (uint32_t round = 1; round <= 200; round++) {
            draw(&trial, 1, round);
            check_ascending(&trial, false);
        }
    }
}

static void uniform_draws_every_client_equally_often(void **state) {
    (void)state;
    enum { ROUNDS = 5000 };
    Trial trial;
    uint32_t times[CLIENTS];
    begin(&trial, SAMPLING_UNIFORM);
    count_draws(times, &trial, ROUNDS);
    for (size_t client = 0; client < CLIENTS; client++)
        check_near(times[client], (double)ROUNDS * COHORT / CLIENTS);
}

static void the_same_seed_and_round_give_the_same_cohort_and_others_do_not(void **state) {
    (void)state;
    for (int sampling = 0; sampling < SAMPLING_COUNT; sampling++) {
        if (sampling == SAMPLING_CYCLIC) continue; // no seed in it
        Trial first, again, other_round, other_seed;
        begin(&first, (Sampling)sampling);
        begin(&again, (Sampling)sampling);
        begin(&other_round, (Sampling)sampling);
        begin(&other_seed, (Sampling)sampling);
        draw(&first, 7, 3);
        draw(&other_round, 7, 4);
        draw(&other_seed, 8, 3);
        draw(&again, 7, 3);
        assert_int_equal(first.count, again.count);
        assert_memory_equal(first.drawn, again.drawn, sizeof first.drawn);
        assert_memory_not_equal(first.drawn, other_round.drawn, sizeof first.drawn);
        assert_memory_not_equal(first.drawn, other_seed.drawn, sizeof first.drawn);
    }
}

static void a_cohort_of_everybody_is_everybody(void **state) {
    (void)state;
    Trial trial;
    const Sampling whole[] = {SAMPLING_UNIFORM, SAMPLING_POISSON, SAMPLING_CYCLIC, SAMPLING_AVAILABLE};
    for (size_t i = 0; i < sizeof whole / sizeof *whole; i++) {
        begin(&trial, whole[i]);
        trial.draw.size = CLIENTS;
        assert_int_equal(draw(&trial, 1, 1), CLIENTS);
        for (uint32_t client = 0; client < CLIENTS; client++)
            assert_int_equal(trial.drawn[client], client);
    }
}

static void who_is_always_there_is_drawn_as_by_uniform(void **state) {
    (void)state;
    Trial uniform, available;
    begin(&uniform, SAMPLING_UNIFORM);
    begin(&available, SAMPLING_AVAILABLE);
    for (uint32_t round = 1; round <= 50; round++) {
        draw(&uniform, 1, round);
        draw(&available, 1, round);
        assert_memory_equal(uniform.drawn, available.drawn, COHORT * sizeof *uniform.drawn);
    }
}

static void who_is_rarely_there_is_drawn_rarely_and_cohorts_shrink(void **state) {
    (void)state;
    enum { ROUNDS = 4000 };
    Trial trial;
    uint32_t times[CLIENTS];
    begin(&trial, SAMPLING_AVAILABLE);
    trial.world.availability = 0.1; // five are there on average, all of whom are taken up to ten
    count_draws(times, &trial, ROUNDS);
    for (size_t client = 0; client < CLIENTS; client++)
        assert_in_range(times[client], 0.1 * ROUNDS * 0.7, 0.1 * ROUNDS * 1.2);
}

static void poisson_draws_each_client_with_the_same_probability_and_sizes_vary_as_a_binomial(void **state) {
    (void)state;
    enum { ROUNDS = 5000 };
    Trial trial;
    uint32_t times[CLIENTS];
    double sum = 0, squares = 0, rate = (double)COHORT / CLIENTS;
    begin(&trial, SAMPLING_POISSON);
    count_draws(times, &trial, ROUNDS);
    for (size_t client = 0; client < CLIENTS; client++)
        check_near(times[client], ROUNDS * rate);
    for (uint32_t round = 1; round <= ROUNDS; round++) {
        double size = draw(&trial, 1, round);
        sum += size;
        squares += size * size;
    }
    double mean = sum / ROUNDS, variance = squares / ROUNDS - mean * mean;
    assert_true(fabs(mean - COHORT) < 0.2);
    assert_true(fabs(variance - CLIENTS * rate * (1 - rate)) < 0.8);
}

static void by_size_draws_as_often_as_a_client_has_samples(void **state) {
    (void)state;
    enum { ROUNDS = 5000 };
    Trial trial;
    uint32_t times[CLIENTS];
    begin(&trial, SAMPLING_BY_SIZE);
    trial.world.replacement = true;
    count_draws(times, &trial, ROUNDS);
    for (size_t client = 0; client < CLIENTS; client++)
        check_near(times[client], (double)ROUNDS * COHORT * trial.samples[client] / (double)trial.total);
}

// Of two draws without replacement the second is by size among the rest: p_i + sum over j of p_j p_i / (1 - p_j).
static void by_size_without_replacement_draws_one_after_the_other(void **state) {
    (void)state;
    enum { ROUNDS = 20000 };
    Trial trial;
    uint32_t times[CLIENTS];
    begin(&trial, SAMPLING_BY_SIZE);
    memset(trial.samples, 0, sizeof trial.samples);
    const double sizes[] = {5, 3, 1, 1};
    for (uint32_t client = 0; client < 4; client++)
        trial.samples[10 * client] = (uint32_t)sizes[client];
    trial.draw.size = 2;
    count_draws(times, &trial, ROUNDS);
    for (uint32_t i = 0; i < 4; i++) {
        double expected = sizes[i] / 10;
        for (uint32_t j = 0; j < 4; j++)
            if (j != i) expected += sizes[j] / 10 * sizes[i] / (10 - sizes[j]);
        check_near(times[10 * i], ROUNDS * expected);
    }
}

static void by_size_never_draws_who_has_nothing(void **state) {
    (void)state;
    Trial trial;
    begin(&trial, SAMPLING_BY_SIZE);
    trial.draw.size = CLIENTS; // more than have samples
    assert_int_equal(draw(&trial, 1, 1), CLIENTS / 5 * 4);
    for (uint32_t i = 0; i < trial.count; i++)
        assert_true(trial.samples[trial.drawn[i]] > 0);
}

static void cyclic_takes_one_group_after_the_other(void **state) {
    (void)state;
    Trial trial;
    begin(&trial, SAMPLING_CYCLIC);
    trial.draw.size = 20;
    draw(&trial, 1, 1);
    for (uint32_t i = 0; i < 20; i++)
        assert_int_equal(trial.drawn[i], i);
    draw(&trial, 1, 3); // 40 to 49, then 0 to 9
    for (uint32_t i = 0; i < 20; i++)
        assert_int_equal(trial.drawn[i], i < 10 ? i : i + 30);
}

static void a_shuffled_cycle_brings_everybody_once_in_an_order_of_its_own(void **state) {
    (void)state;
    Trial trial;
    uint32_t times[CLIENTS], first[20];
    begin(&trial, SAMPLING_CYCLIC);
    trial.world.cycle_shuffle = true;
    trial.draw.size = 20;
    count_draws(times, &trial, 3);
    for (size_t client = 0; client < CLIENTS; client++)
        assert_int_equal(times[client], 1);
    draw(&trial, 1, 1);
    memcpy(first, trial.drawn, sizeof first);
    draw(&trial, 1, 4);
    assert_memory_not_equal(first, trial.drawn, sizeof first);
}

static void power_of_choice_keeps_the_largest_losses_and_the_lower_number_of_equals(void **state) {
    (void)state;
    uint32_t candidates[] = {2, 3, 5, 7, 8};
    const double losses[] = {1, 3, 2, 2, NAN};
    double sorted[5];
    assert_int_equal(sampler_keep_largest(candidates, sorted, losses, 5, 3), 3);
    assert_int_equal(candidates[0], 3);
    assert_int_equal(candidates[1], 5);
    assert_int_equal(candidates[2], 8);
}

// A million candidates, most with equal losses, are a moment's work; comparing each with each takes half an hour.
static void as_many_candidates_as_there_may_be_are_chosen_at_once(void **state) {
    (void)state;
    enum { COUNT = 1000000, SIZE = 10 };
    uint32_t *candidates = malloc(COUNT * sizeof *candidates);
    double *losses = malloc(2 * COUNT * sizeof *losses);
    for (uint32_t i = 0; i < COUNT; i++)
        candidates[i] = i, losses[i] = i % 250000 == 7 ? 3 : i % 2 ? 2 : 1;
    assert_int_equal(sampler_keep_largest(candidates, losses + COUNT, losses, COUNT, SIZE), SIZE);
    static const uint32_t expected[SIZE] = {1, 3, 5, 7, 9, 11, 13, 250007, 500007, 750007};
    assert_memory_equal(candidates, expected, sizeof expected);
    free(losses);
    free(candidates);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_cohort_has_no_client_twice_and_is_ascending),
        cmocka_unit_test(uniform_draws_every_client_equally_often),
        cmocka_unit_test(the_same_seed_and_round_give_the_same_cohort_and_others_do_not),
        cmocka_unit_test(a_cohort_of_everybody_is_everybody),
        cmocka_unit_test(who_is_always_there_is_drawn_as_by_uniform),
        cmocka_unit_test(who_is_rarely_there_is_drawn_rarely_and_cohorts_shrink),
        cmocka_unit_test(poisson_draws_each_client_with_the_same_probability_and_sizes_vary_as_a_binomial),
        cmocka_unit_test(by_size_draws_as_often_as_a_client_has_samples),
        cmocka_unit_test(by_size_without_replacement_draws_one_after_the_other),
        cmocka_unit_test(by_size_never_draws_who_has_nothing),
        cmocka_unit_test(cyclic_takes_one_group_after_the_other),
        cmocka_unit_test(a_shuffled_cycle_brings_everybody_once_in_an_order_of_its_own),
        cmocka_unit_test(power_of_choice_keeps_the_largest_losses_and_the_lower_number_of_equals),
        cmocka_unit_test(as_many_candidates_as_there_may_be_are_chosen_at_once),
    };
    return run_cases(argc, argv, tests, NULL, NULL);
}
