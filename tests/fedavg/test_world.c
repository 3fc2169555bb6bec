// What happens to the clients of a cohort: who is missing, how long it takes, who is in time, with which share.
#include "fedavg/rules/combine/combine_rules.h"
#include "fedavg/rules/world/world.h"

#include <math.h>
#include <string.h>

#include "tests/check.h"

enum { MEMBERS = 20, EPOCHS = 5 };

static World quiet_world(void) {
    return (World){.availability = 1, .over_selection = 1, .time_mean = 1, .time_deviation = 1};
}

// Members 3, 6, 9, ... with 10, 20, 30, ... samples.
static void enlist(Member members[MEMBERS]) {
    for (uint32_t i = 0; i < MEMBERS; i++)
        members[i] = (Member){.client = 3 * i + 3, .samples = 10 * i + 10, .times = 1};
}

static void nothing_happens_unless_it_is_asked_for(void **state) {
    (void)state;
    Member members[MEMBERS];
    World world = quiet_world();
    double sum = 0;
    enlist(members);
    world_absences(members, MEMBERS, &world, EPOCHS, 1, 1);
    for (uint32_t i = 0; i < MEMBERS; i++)
        members[i].end_microseconds = world_duration(&members[i], &world, EPOCHS, 1000, 1000, 1, 1);
    Arrivals arrivals = world_arrivals(members, MEMBERS, MEMBERS, &world);
    cohort_shares(&(CohortShares){0}, members, MEMBERS, &world, &(Chosen){.row = COMBINE_ROW_mean});
    assert_int_equal(arrivals.count, MEMBERS);
    assert_int_equal(arrivals.microseconds, 1000000);
    assert_false(arrivals.abandoned);
    for (uint32_t i = 0; i < MEMBERS; i++) {
        assert_int_equal(members[i].fate, MEMBER_ARRIVES);
        assert_int_equal(members[i].epochs, EPOCHS);
        assert_true(members[i].share == members[i].samples / 2100.0); // what FedAvg has always computed
        sum += members[i].share;
    }
    assert_true(fabs(sum - 1) < 1e-12);
}

static void so_many_drop_out_as_the_probability_says_whatever_they_train(void **state) {
    (void)state;
    enum { ROUNDS = 2000 };
    Member members[MEMBERS], again[MEMBERS];
    World world = quiet_world();
    uint32_t gone = 0;
    world.drop_out = 0.3;
    for (uint32_t round = 1; round <= ROUNDS; round++) {
        enlist(members);
        enlist(again);
        world_absences(members, MEMBERS, &world, EPOCHS, 1, round);
        world_absences(again, MEMBERS, &world, 1, 1, round); // another number of epochs changes nothing in it
        for (uint32_t i = 0; i < MEMBERS; i++) {
            gone += members[i].fate == MEMBER_DROPS_OUT;
            assert_int_equal(members[i].fate, again[i].fate);
        }
    }
    double expected = 0.3 * ROUNDS * MEMBERS;
    assert_true(fabs(gone - expected) < 5 * sqrt(expected * 0.7));
}

static void stragglers_are_exactly_their_share_and_do_one_epoch_to_one_less_than_all(void **state) {
    (void)state;
    enum { ROUNDS = 1000 };
    Member members[MEMBERS];
    World world = quiet_world();
    uint32_t times[MEMBERS] = {0}, epochs[EPOCHS + 1] = {0};
    world.stragglers = 0.9;
    world.straggler_work = STRAGGLERS_PARTIAL;
    for (uint32_t round = 1; round <= ROUNDS; round++) {
        uint32_t slow = 0;
        enlist(members);
        world_absences(members, MEMBERS, &world, EPOCHS, 1, round);
        for (uint32_t i = 0; i < MEMBERS; i++) {
            assert_int_equal(members[i].fate, MEMBER_ARRIVES);
            slow += members[i].straggles;
            times[i] += members[i].straggles;
            epochs[members[i].epochs]++;
        }
        assert_int_equal(slow, 18);
    }
    for (uint32_t i = 0; i < MEMBERS; i++)
        assert_in_range(times[i], 0.85 * ROUNDS, 0.95 * ROUNDS);
    assert_int_equal(epochs[EPOCHS], 2 * ROUNDS);
    for (uint32_t e = 1; e < EPOCHS; e++)
        assert_in_range(epochs[e], 18 * ROUNDS / 4 * 0.93, 18 * ROUNDS / 4 * 1.07);
    assert_int_equal(epochs[0], 0);
}

static void dropped_stragglers_have_no_share_and_the_others_share_to_one(void **state) {
    (void)state;
    Member members[MEMBERS];
    World world = quiet_world();
    double sum = 0;
    uint32_t dropped = 0;
    world.stragglers = 0.5;
    enlist(members);
    world_absences(members, MEMBERS, &world, 1, 1, 1);
    world_arrivals(members, MEMBERS, MEMBERS, &world);
    cohort_shares(&(CohortShares){0}, members, MEMBERS, &world, &(Chosen){.row = COMBINE_ROW_mean});
    for (uint32_t i = 0; i < MEMBERS; i++) {
        dropped += members[i].fate == MEMBER_IS_DROPPED;
        if (members[i].fate == MEMBER_IS_DROPPED) assert_true(members[i].share == 0);
        sum += members[i].share;
    }
    assert_int_equal(dropped, MEMBERS / 2);
    assert_true(fabs(sum - 1) < 1e-12);
}

static double median_seconds(const World *world, double *mean, uint32_t epochs) {
    enum { DRAWS = 20001 };
    static double seconds[DRAWS];
    *mean = 0;
    for (uint32_t client = 0; client < DRAWS; client++) {
        Member member = {.client = client, .samples = 10, .epochs = epochs};
        seconds[client] = 1e-6 * (double)world_duration(&member, world, EPOCHS, 0, 0, 1, 1);
        *mean += seconds[client] / DRAWS;
    }
    uint32_t below[2] = {0};
    double low = 0, high = 1e6; // bisection: how many are below the middle
    for (int i = 0; i < 60; i++) {
        double middle = (low + high) / 2;
        below[0] = 0;
        for (uint32_t c = 0; c < DRAWS; c++)
            below[0] += seconds[c] < middle;
        if (below[0] > DRAWS / 2)
            high = middle;
        else
            low = middle;
    }
    return low;
}

// Means and medians as textbooks give them.
static void durations_follow_their_distributions(void **state) {
    (void)state;
    World world = quiet_world();
    double mean, median;
    world.client_time = CLIENT_TIME_LOGNORMAL;
    median = median_seconds(&world, &mean, EPOCHS);
    assert_true(fabs(median - 1) < 0.05 && fabs(mean - exp(0.5)) < 0.08);
    world.client_time = CLIENT_TIME_LOGNORMAL_PER_SAMPLE;
    median = median_seconds(&world, &mean, EPOCHS);
    assert_true(fabs(median / (10 * EPOCHS) - 1) < 0.05 && fabs(mean / (10 * EPOCHS) - exp(0.5)) < 0.08);
    world.client_time = CLIENT_TIME_HALF_NORMAL;
    world.time_minimum = 2;
    median_seconds(&world, &mean, EPOCHS);
    assert_true(fabs(mean - 2 - sqrt(2 / 3.14159265358979)) < 0.02);
    world.client_time = CLIENT_TIME_UNIFORM;
    world.time_mean = 3;
    median = median_seconds(&world, &mean, EPOCHS);
    assert_true(fabs(mean - 3) < 0.02 && fabs(median - 3) < 0.04);
    world.client_time = CLIENT_TIME_EXPONENTIAL;
    median = median_seconds(&world, &mean, EPOCHS);
    assert_true(fabs(mean - 3) < 0.1 && fabs(median - 3 * log(2)) < 0.1);
    world.client_time = CLIENT_TIME_PER_SAMPLE;
    world.time_deviation = 0;
    median_seconds(&world, &mean, EPOCHS);
    assert_true(fabs(mean - 3 * 10 * EPOCHS) < 1e-6);
    median_seconds(&world, &mean, 1);
    assert_true(fabs(mean - 3 * 10) < 1e-6);
}

static void less_work_takes_less_time_and_bytes_take_theirs(void **state) {
    (void)state;
    World world = quiet_world();
    Member member = {.client = 1, .samples = 10, .epochs = 2};
    assert_int_equal(world_duration(&member, &world, 5, 1000, 2000, 1, 1), 400000);
    world.down_bytes_per_second = 1000;
    world.up_bytes_per_second = 500;
    assert_int_equal(world_duration(&member, &world, 5, 1000, 2000, 1, 1), 400000 + 1000000 + 4000000);
    member.overlap = 0.75; // of 0.4 seconds
    assert_int_equal(world_duration(&member, &world, 5, 1000, 2000, 1, 1), 100000 + 1000000 + 4000000);
    assert_int_equal(world_duration(&member, &world, 5, 100, 50, 1, 1), 400000); // 0.2 seconds beside them
}

// One life, step by step as a clock does it, or at once: the same failures, each over before the next begins.
static void failures_follow_from_seed_and_client_and_have_their_mean(void **state) {
    (void)state;
    const Failures failures = {.mtbf = 20, .repair = 5};
    double worked = 0;
    for (uint32_t client = 0; client < 50; client++) {
        Life slow = {0}, fast = {0};
        for (uint64_t now = 0, last = 0; now < 1000000000; now += 2500000) {
            const Life before = slow;
            failures_advance(&slow, &failures, client, 1, now);
            assert_true(failures_over(&slow, &failures) > now);
            if (slow.failures == before.failures) continue;
            assert_true(slow.failures == 0 || slow.fails > last);
            last = failures_over(&slow, &failures);
        }
        failures_advance(&fast, &failures, client, 1, 997500000);
        assert_true(fast.failures == slow.failures && fast.fails == slow.fails);
        worked += (1000 - 5.0 * fast.failures) / (fast.failures + 1) / 50;
        const uint64_t over = failures_over(&fast, &failures), begin = fast.fails;
        assert_false(failures_begin_within(&fast, &failures, client, 1, begin - 2, begin - 1));
        assert_true(failures_begin_within(&fast, &failures, client, 1, begin - 1, begin));
        assert_false(failures_begin_within(&fast, &failures, client, 1, begin, over)); // one that has begun before
        assert_true(failures_begin_within(&fast, &failures, client, 1, begin, over + 1000000000000));
    }
    assert_true(worked > 17 && worked < 23);
}

static void joules_are_watts_times_the_seconds_of_training_and_of_the_bytes_that_travel(void **state) {
    (void)state;
    World world = quiet_world();
    world.client_time = CLIENT_TIME_FILE;
    world.up_bytes_per_second = 500;
    Member member = {.client = 1,
                     .samples = 10,
                     .epochs = 2,
                     .seconds_per_sample = 0.5,
                     .bytes_per_second = 1000,
                     .watts = 3,
                     .link_watts = 2};
    const struct {
        MemberFate fate;
        double training, links;
    } cases[] = {{MEMBER_ARRIVES, 30, 2 * (3 + 4)}, // 10 s; 1000 + 2000 bytes on one link, 2000 on the other
                 {MEMBER_IS_LATE, 30, 2 * (3 + 4)},
                 {MEMBER_IS_DROPPED, 30, 2}, // has trained in vain
                 {MEMBER_DROPS_OUT, 0, 2},
                 {MEMBER_HAS_NO_SAMPLES, 0, 2}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        double training = 1, links = 1; // sums
        member.fate = cases[i].fate;
        world_energy(&training, &links, &member, &world, 2, 1000, 2000, 1, 1);
        assert_true(fabs(training - 1 - cases[i].training) < 1e-9 && fabs(links - 1 - cases[i].links) < 1e-9);
    }
}

static void noise_is_drawn_anew_for_each_round_and_the_base_is_not(void **state) {
    (void)state;
    World world = quiet_world();
    Member member = {.client = 1, .samples = 10, .epochs = 5};
    world.client_time = CLIENT_TIME_LOGNORMAL;
    uint64_t first = world_duration(&member, &world, 5, 0, 0, 1, 1);
    assert_int_equal(world_duration(&member, &world, 5, 0, 0, 1, 2), first);
    world.time_noise = 0.5;
    assert_int_not_equal(world_duration(&member, &world, 5, 0, 0, 1, 2), first);
    assert_int_not_equal(world_duration(&member, &world, 5, 0, 0, 1, 2),
                         world_duration(&member, &world, 5, 0, 0, 1, 3));
}

// Ends at 1, 2, ..., 20 seconds, the first member last.
static void set_ends(Member members[MEMBERS]) {
    enlist(members);
    for (uint32_t i = 0; i < MEMBERS; i++)
        members[i].end_microseconds = (MEMBERS - i) * 1000000;
}

static void over_selection_keeps_the_first_to_come(void **state) {
    (void)state;
    Member members[MEMBERS];
    World world = quiet_world();
    world.over_selection = 2;
    set_ends(members);
    members[MEMBERS - 1].fate = MEMBER_DROPS_OUT; // the one at second 1
    Arrivals arrivals = world_arrivals(members, MEMBERS, 10, &world);
    assert_int_equal(arrivals.count, 10);
    assert_int_equal(arrivals.microseconds, 11000000);
    assert_false(arrivals.abandoned);
    for (uint32_t i = 0; i < MEMBERS; i++) {
        uint32_t second = (uint32_t)(members[i].end_microseconds / 1000000);
        assert_int_equal(members[i].fate, second == 1    ? MEMBER_DROPS_OUT
                                          : second <= 11 ? MEMBER_ARRIVES
                                                         : MEMBER_IS_LATE);
    }
}

static void who_hands_in_at_once_comes_in_the_order_of_numbers(void **state) {
    (void)state;
    Member members[MEMBERS];
    World world = quiet_world();
    world.over_selection = 2;
    enlist(members);
    world_arrivals(members, MEMBERS, 10, &world);
    for (uint32_t i = 0; i < MEMBERS; i++)
        assert_int_equal(members[i].fate, members[i].client <= 30 ? MEMBER_ARRIVES : MEMBER_IS_LATE);
}

static void a_round_with_a_deadline_waits_for_it_unless_all_have_come(void **state) {
    (void)state;
    Member members[MEMBERS];
    World world = quiet_world();
    world.deadline = 12.5;
    set_ends(members);
    Arrivals arrivals = world_arrivals(members, MEMBERS, MEMBERS, &world);
    assert_int_equal(arrivals.count, 12);
    assert_int_equal(arrivals.microseconds, 12500000);
    assert_false(arrivals.abandoned);
    world.deadline = 100;
    set_ends(members);
    assert_int_equal(world_arrivals(members, MEMBERS, MEMBERS, &world).microseconds, 20000000);
}

static void a_round_with_fewer_than_half_is_abandoned(void **state) {
    (void)state;
    Member members[MEMBERS];
    World world = quiet_world();
    world.deadline = 10;
    set_ends(members);
    assert_false(world_arrivals(members, MEMBERS, MEMBERS, &world).abandoned);
    world.deadline = 9;
    set_ends(members);
    assert_true(world_arrivals(members, MEMBERS, MEMBERS, &world).abandoned);
    world = quiet_world(); // without deadline and over-selection any number will do
    set_ends(members);
    for (uint32_t i = 1; i < MEMBERS; i++)
        members[i].fate = MEMBER_DROPS_OUT;
    assert_false(world_arrivals(members, MEMBERS, MEMBERS, &world).abandoned);
}

static void who_was_drawn_by_size_counts_as_often_as_it_was_drawn(void **state) {
    (void)state;
    World world = quiet_world();
    Member members[] = {{.client = 1, .samples = 100, .times = 3}, {.client = 2, .samples = 1, .times = 1}};
    world.sampling = SAMPLING_BY_SIZE;
    cohort_shares(&(CohortShares){0}, members, 2, &world, &(Chosen){.row = COMBINE_ROW_mean});
    assert_true(members[0].share == 0.75 && members[1].share == 0.25);
    members[0].fate = MEMBER_DROPS_OUT;
    cohort_shares(&(CohortShares){0}, members, 2, &world, &(Chosen){.row = COMBINE_ROW_mean});
    assert_true(members[0].share == 0 && members[1].share == 1);
    members[1].fate = MEMBER_DROPS_OUT;
    cohort_shares(&(CohortShares){0}, members, 2, &world, &(Chosen){.row = COMBINE_ROW_mean});
    assert_true(members[0].share == 0 && members[1].share == 0);
}

static void a_weight_of_its_own_takes_the_place_of_samples(void **state) {
    (void)state;
    World world = quiet_world();
    Member members[] = {{.client = 1, .samples = 100, .times = 1, .weight = 1},
                        {.client = 2, .samples = 1, .times = 1, .weight = 3}};
    cohort_shares(&(CohortShares){0}, members, 2, &world, &(Chosen){.row = COMBINE_ROW_mean});
    assert_true(members[0].share == 0.25 && members[1].share == 0.75);
    world.sampling = SAMPLING_BY_SIZE; // each time that it is drawn
    members[0].times = 5;
    cohort_shares(&(CohortShares){0}, members, 2, &world, &(Chosen){.row = COMBINE_ROW_mean});
    assert_true(members[0].share == 0.625 && members[1].share == 0.375);
    assert_true(combine_counts_samples(&(Chosen){.row = COMBINE_ROW_mean}));
    assert_false(combine_counts_samples(&(Chosen){.row = COMBINE_ROW_mean, .number = {WEIGHTS_UNIFORM}}));
    assert_false(combine_counts_samples(&(Chosen){.row = COMBINE_ROW_median}));
}

static void expect_cohorts(const CohortSchedule *cohort, uint32_t most, const uint32_t *sizes, uint32_t rounds) {
    World world = quiet_world();
    world.cohort = *cohort;
    for (uint32_t round = 1; round <= rounds; round++)
        assert_int_equal(world_cohort(&world, most, round), sizes[round - 1]);
    assert_int_equal(world_cohort(&world, most, UINT32_MAX), most);
}

static void cohorts_grow_as_their_schedule_says_and_never_beyond_the_full_one(void **state) {
    (void)state;
    const uint32_t linear[] = {2, 4, 6, 8, 10, 10, 10}, uneven[] = {1, 3, 6, 9, 12}, full[] = {7, 7, 7};
    const uint32_t doubled[] = {2, 2, 2, 4, 4, 4, 8, 8, 8, 10}, half_more[] = {3, 4, 6, 10}; // 3, 4.5, 6.75, 10.125
    expect_cohorts(&(CohortSchedule){COHORT_LINEAR, 2, 5, 0}, 10, linear, 7);
    expect_cohorts(&(CohortSchedule){COHORT_LINEAR, 1, 5, 0}, 12, uneven, 5);
    expect_cohorts(&(CohortSchedule){COHORT_LINEAR, 9, 5, 0}, 7, full, 3);
    expect_cohorts(&(CohortSchedule){COHORT_STEP, 2, 3, 2}, 10, doubled, 10);
    expect_cohorts(&(CohortSchedule){COHORT_STEP, 3, 1, 1.5}, 10, half_more, 4);
    expect_cohorts(&(CohortSchedule){COHORT_CONSTANT, 0, 0, 0}, 7, full, 3);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_happens_unless_it_is_asked_for),
        cmocka_unit_test(so_many_drop_out_as_the_probability_says_whatever_they_train),
        cmocka_unit_test(stragglers_are_exactly_their_share_and_do_one_epoch_to_one_less_than_all),
        cmocka_unit_test(dropped_stragglers_have_no_share_and_the_others_share_to_one),
        cmocka_unit_test(durations_follow_their_distributions),
        cmocka_unit_test(less_work_takes_less_time_and_bytes_take_theirs),
        cmocka_unit_test(failures_follow_from_seed_and_client_and_have_their_mean),
        cmocka_unit_test(joules_are_watts_times_the_seconds_of_training_and_of_the_bytes_that_travel),
        cmocka_unit_test(noise_is_drawn_anew_for_each_round_and_the_base_is_not),
        cmocka_unit_test(over_selection_keeps_the_first_to_come),
        cmocka_unit_test(who_hands_in_at_once_comes_in_the_order_of_numbers),
        cmocka_unit_test(a_round_with_a_deadline_waits_for_it_unless_all_have_come),
        cmocka_unit_test(a_round_with_fewer_than_half_is_abandoned),
        cmocka_unit_test(who_was_drawn_by_size_counts_as_often_as_it_was_drawn),
        cmocka_unit_test(a_weight_of_its_own_takes_the_place_of_samples),
        cmocka_unit_test(cohorts_grow_as_their_schedule_says_and_never_beyond_the_full_one),
    };
    return run_cases(argc, argv, tests, NULL, NULL);
}
