// Tests which client trains from which version, and how stale updates are, on the simulated clock.
#include "fedavg/rules/world/schedule.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fedavg/algorithm/recipe.h"
#include "fedavg/rules/combine/combine_rules.h"
#include "fedavg/rules/world/sampler.h"
#include "fedavg/rules/world/stale_rules.h"
#include "tests/check.h"

enum { CLIENTS = 40, SEED = 3 };

// A world of CLIENTS, of which client c has 10 + c samples.
typedef struct Fixture {
    World world;
    Recipe recipe;
    Member clients[CLIENTS];
    ScheduleGiven given;
} Fixture;

static void share(Member *members, uint32_t count, const World *world, const Chosen *combine) {
    CohortShares whole;
    cohort_shares(&whole, members, count, world, combine);
}

static void set_up(Fixture *f, const char *numbers, uint32_t versions) {
    char text[256];
    Error err;
    snprintf(text, sizeof text, "schedule buffered %s", numbers);
    memset(f, 0, sizeof *f);
    check_ok(recipe_parse(&f->recipe, text, &err));
    f->world = (World){.availability = 1, .over_selection = 1, .time_mean = 1, .time_deviation = 1};
    for (uint32_t c = 0; c < CLIENTS; c++)
        f->clients[c] = (Member){.client = c, .samples = 10 + c, .times = 1};
    f->given = (ScheduleGiven){.world = &f->world,
                               .clients = f->clients,
                               .client_count = CLIENTS,
                               .population_count = CLIENTS,
                               .local_epochs = 1,
                               .seed = SEED,
                               .versions = versions,
                               .rule = &f->recipe.schedule,
                               .stale = &f->recipe.stale,
                               .share = share,
                               .combine = &f->recipe.combine};
}

static Schedule simulated(const Fixture *f) {
    Schedule schedule;
    Error err;
    check_ok(schedule_simulate(&schedule, &f->given, &err));
    return schedule;
}

static double mean_staleness(const Schedule *schedule) {
    double sum = 0;
    for (uint32_t j = 0; j < schedule->count; j++)
        sum += schedule->jobs[j].applied - schedule->jobs[j].start;
    return sum / schedule->count;
}

static void the_mean_staleness_is_what_m_and_k_say_whatever_the_durations(void **state) {
    (void)state;
    const ClientTime times[] = {CLIENT_TIME_CONSTANT,    CLIENT_TIME_HALF_NORMAL, CLIENT_TIME_UNIFORM,
                                CLIENT_TIME_EXPONENTIAL, CLIENT_TIME_LOGNORMAL,   CLIENT_TIME_PER_SAMPLE};
    const struct { uint32_t k, m; } sizes[] = {{1, 10}, {5, 20}, {10, 10}, {3, 12}, {10, 40}};
    for (size_t t = 0; t < sizeof times / sizeof *times; t++)
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
            for (int dispatch = 0; dispatch < 2; dispatch++) {
                Fixture f;
                char numbers[64];
                const uint32_t k = sizes[s].k, m = sizes[s].m;
                snprintf(numbers, sizeof numbers, "K=%u M=%u dispatch=%s", k, m, dispatch ? "publish" : "arrival");
                set_up(&f, numbers, 20000 / k);
                f.world.client_time = (int)times[t];
                f.world.time_minimum = 0.1;
                f.world.time_noise = 0.3;
                Schedule schedule = simulated(&f);
                const double expected = dispatch ? (double)m / k - 1 : (double)(m - 1) / k;
                assert_true(fabs(mean_staleness(&schedule) - expected) < 0.01 * expected + 0.01);
                schedule_free(&schedule);
            }
}

static void with_equal_durations_each_update_is_as_stale_as_the_others_in_flight(void **state) {
    (void)state;
    enum { M = 7 };
    Fixture f;
    set_up(&f, "K=1 M=7 dispatch=arrival", 500);
    Schedule schedule = simulated(&f);
    for (uint32_t j = 0; j < schedule.count; j++) {
        const ScheduledJob *job = &schedule.jobs[j];
        assert_int_equal(job->applied - job->start, j < M ? j : M - 1);
        assert_int_equal(job->end_microseconds, 1000000 * (j / M + 1));
    }
    schedule_free(&schedule);
}

static void no_client_trains_twice_at_a_time_and_every_version_has_its_updates(void **state) {
    (void)state;
    const char *const rules[] = {"K=4 M=30",         "K=4 M=30 dispatch=publish",
                                 "K=3 M=40",         "K=3 M=40 twice=no",
                                 "K=2 M=20 bound=3", "K=2 M=20 max-staleness=6 dispatch=publish"};
    for (size_t r = 0; r < sizeof rules / sizeof *rules; r++) {
        Fixture f;
        uint64_t free_at[CLIENTS] = {0};
        enum { VERSIONS = 300 };
        set_up(&f, rules[r], VERSIONS);
        f.world.client_time = CLIENT_TIME_LOGNORMAL;
        f.world.time_noise = 0.5;
        f.world.drop_out = 0.1;
        Schedule schedule = simulated(&f);
        const uint32_t k = (uint32_t)f.given.rule->number[BUFFERED_K];
        uint32_t applied[VERSIONS] = {0}, clients[VERSIONS][CLIENTS] = {{0}};
        double weights[VERSIONS] = {0};
        for (uint32_t j = 0; j < schedule.count; j++) {
            const ScheduledJob *job = &schedule.jobs[j];
            assert_true(job->begin_microseconds >= free_at[job->client]);
            assert_true(job->begin_microseconds >= schedule.published[job->start]);
            free_at[job->client] = job->end_microseconds;
            assert_true((job->fate == MEMBER_ARRIVES) == (job->applied != NEVER_APPLIED));
            if (job->applied >= VERSIONS) continue;
            assert_true(job->applied >= job->start && job->end_microseconds <= schedule.published[job->applied + 1]);
            assert_true(job->end_microseconds >= schedule.published[job->applied]);
            applied[job->applied]++;
            weights[job->applied] += job->weight;
            clients[job->applied][job->client]++;
        }
        for (uint32_t v = 0; v < VERSIONS; v++) {
            assert_int_equal(applied[v], k);
            assert_true(fabs(weights[v] - 1) < 1e-12);
            for (uint32_t c = 0; c < CLIENTS && strstr(rules[r], "twice=no"); c++)
                assert_true(clients[v][c] <= 1);
        }
        schedule_free(&schedule);
    }
}

// Returns the most staleness of the jobs that are applied.
static uint32_t most_staleness(const Schedule *schedule, uint32_t *dropped) {
    uint32_t most = 0;
    *dropped = 0;
    for (uint32_t j = 0; j < schedule->count; j++) {
        const ScheduledJob *job = &schedule->jobs[j];
        *dropped += job->fate == MEMBER_IS_LATE;
        if (job->applied != NEVER_APPLIED && job->applied - job->start > most) most = job->applied - job->start;
    }
    return most;
}

static void a_bound_keeps_clients_waiting_for_the_slowest_and_a_limit_drops_it(void **state) {
    (void)state;
    const struct {
        const char *numbers;
        uint32_t most;
        bool drops;
    } cases[] = {{"K=2 M=10 bound=0", 0 + 1 + 9 / 2, false},
                 {"K=2 M=10 bound=5", 5 + 1 + 9 / 2, false},
                 {"K=2 M=10 bound=2 dispatch=publish", 2 + 1 + 9 / 2, false},
                 {"K=2 M=10 max-staleness=4", 4, true},
                 {"K=2 M=10 max-staleness=4 dispatch=publish", 4, true}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Fixture f;
        uint32_t dropped;
        set_up(&f, "K=2 M=10", 2000);
        f.world.client_time = CLIENT_TIME_LOGNORMAL;
        Schedule schedule = simulated(&f);
        assert_true(most_staleness(&schedule, &dropped) > 20);
        schedule_free(&schedule);
        set_up(&f, cases[i].numbers, 2000);
        f.world.client_time = CLIENT_TIME_LOGNORMAL;
        schedule = simulated(&f);
        assert_in_range(most_staleness(&schedule, &dropped), 1, cases[i].most);
        assert_true((dropped > 0) == cases[i].drops);
        const double bound = f.given.rule->number[BUFFERED_BOUND];
        for (uint32_t j = 0; j < schedule.count && !isnan(bound); j++)
            for (uint32_t e = 0; e < j; e++) // who trained already when j began
                if (schedule.jobs[e].end_microseconds > schedule.jobs[j].begin_microseconds)
                    assert_true(schedule.jobs[j].start - schedule.jobs[e].start <= bound);
        schedule_free(&schedule);
    }
}

static void where_all_wait_for_all_it_is_fedavgs_cohorts_and_shares(void **state) {
    (void)state;
    enum { VERSIONS = 50, M = 12 };
    Fixture f;
    set_up(&f, "K=12 M=12 dispatch=publish", VERSIONS);
    f.world.client_time = CLIENT_TIME_EXPONENTIAL;
    Schedule schedule = simulated(&f);
    assert_int_equal(schedule.most_pending, 0);
    for (uint32_t v = 0; v < VERSIONS; v++) {
        uint32_t samples[CLIENTS], drawn[CLIENTS];
        for (uint32_t c = 0; c < CLIENTS; c++)
            samples[c] = f.clients[c].samples;
        const Draw draw = {
            .world = &f.world, .samples = samples, .clients = CLIENTS, .size = M, .seed = SEED, .round = v + 1};
        assert_int_equal(sampler_draw(drawn, &draw), M);
        assert_int_equal(schedule.first[v + 1] - schedule.first[v], M);
        Member members[M];
        for (uint32_t i = 0; i < M; i++)
            members[i] = f.clients[drawn[i]];
        cohort_shares(&(CohortShares){0}, members, M, &f.world, f.given.combine);
        for (uint32_t j = schedule.first[v]; j < schedule.first[v + 1]; j++) {
            uint32_t i = 0;
            while (drawn[i] != schedule.jobs[j].client)
                assert_true(++i < M);
            assert_true(schedule.jobs[j].weight == members[i].share && schedule.jobs[j].trust == 1);
            assert_int_equal(schedule.jobs[j].applied, v);
        }
    }
    schedule_free(&schedule);
}

static void more_versions_leave_the_beginning_as_it_was(void **state) {
    (void)state;
    Fixture f;
    set_up(&f, "K=3 M=20; stale poly", 40);
    f.world.client_time = CLIENT_TIME_LOGNORMAL;
    Schedule brief = simulated(&f);
    f.given.versions = 200;
    Schedule whole = simulated(&f);
    for (uint32_t j = 0; j < brief.count; j++) { // field by field: between them lie bytes that mean nothing
        const ScheduledJob *one = &brief.jobs[j], *other = &whole.jobs[j];
        assert_int_equal(one->client, other->client);
        assert_int_equal(one->visit, other->visit);
        assert_int_equal(one->start, other->start);
        assert_int_equal(one->applied, other->applied);
        assert_int_equal(one->epochs, other->epochs);
        assert_int_equal(one->pending, other->pending);
        assert_int_equal(one->fate, other->fate);
        assert_true(one->weight == other->weight && one->trust == other->trust);
        assert_int_equal(one->begin_microseconds, other->begin_microseconds);
        assert_int_equal(one->end_microseconds, other->end_microseconds);
    }
    assert_memory_equal(brief.published, whole.published, 41 * sizeof *brief.published);
    schedule_free(&brief);
    schedule_free(&whole);
}

static void no_two_updates_wait_in_one_place(void **state) {
    (void)state;
    enum { VERSIONS = 400, PLACES = 100 };
    Fixture f;
    set_up(&f, "K=3 M=30", VERSIONS);
    f.world.client_time = CLIENT_TIME_LOGNORMAL;
    Schedule schedule = simulated(&f);
    uint32_t taken_until[PLACES] = {0}, most = 0;
    assert_in_range(schedule.most_pending, 10, 30 + 3);
    for (uint32_t j = 0; j < schedule.count; j++) {
        const ScheduledJob *job = &schedule.jobs[j];
        assert_true((job->pending == NO_PENDING) == (job->applied == job->start));
        if (job->pending == NO_PENDING) continue;
        assert_true(job->start >=
                    taken_until[job->pending]); // the step of a version reads what its clients write beside
        taken_until[job->pending] = job->applied + 1;
        if (job->pending + 1 > most) most = job->pending + 1;
    }
    assert_int_equal(most, schedule.most_pending);
    schedule_free(&schedule);
}

static void stale_updates_count_as_their_papers_say(void **state) {
    (void)state;
    const Chosen poly = {.row = STALE_POLYNOMIAL, .number = {0.5}}, hinge = {.row = STALE_HINGE, .number = {10, 4}};
    const Chosen inverse = {.row = STALE_INVERSE}, constant = {.row = STALE_CONSTANT};
    assert_true(stale_weight(&poly, 0) == 1 && fabs(stale_weight(&poly, 3) - 0.5) < 1e-15);
    assert_true(stale_weight(&hinge, 4) == 1 && fabs(stale_weight(&hinge, 6) - 1.0 / 21) < 1e-15);
    assert_true(stale_weight(&inverse, 0) == 1 && stale_weight(&inverse, 1) == 1 && stale_weight(&inverse, 4) == 0.25);
    assert_true(stale_weight(&constant, 1000) == 1);
}

static void late_steps_are_compensated_by_the_square_of_their_gradient(void **state) {
    (void)state;
    enum { WEIGHTS = 37 };
    const Chosen half = {.row = STALE_COMPENSATED, .number = {0.5}}, none = {.row = STALE_COMPENSATED};
    const double lr = 0.1;
    float begun[WEIGHTS], now[WEIGHTS];
    int64_t update[WEIGHTS], before[WEIGHTS];
    for (int i = 0; i < WEIGHTS; i++) {
        begun[i] = 0.01f * (float)i, now[i] = begun[i] + (i % 3 == 0 ? 0 : 0.3f * (float)(i % 5 - 2));
        before[i] = update[i] = llrint(-lr * (i - 18) * 0.2 * 0x1p40); // of gradients from -3.6 to 3.6
    }
    assert_true(stale_weight(&half, 100) == 1 && stale_compensates(&half) && !stale_compensates(&none));
    assert_true(stale_compensate(update, begun, now, &half, lr, WEIGHTS));
    for (int i = 0; i < WEIGHTS; i++) {
        const double g = (i - 18) * 0.2, moved = (double)now[i] - (double)begun[i];
        assert_true(fabs((double)update[i] * 0x1p-40 + lr * (g + 0.5 * g * g * moved)) < 1e-11);
        if (moved == 0) assert_true(update[i] == before[i]);
    }
    now[7] = 1e30f; // a step that would be longer than any that may be summed
    assert_false(stale_compensate(update, begun, now, &half, lr, WEIGHTS));
}

static void models_of_any_size_are_mixed_by_their_difference(void **state) {
    (void)state;
    const Chosen constant = {.row = STALE_CONSTANT}, half = {.row = STALE_COMPENSATED, .number = {0.5}};
    Chosen updates = {.row = ENGINE_BUFFERED}, models = updates;
    models.number[BUFFERED_MIXES] = MIXES_MODELS;
    assert_true(stale_wants_begun(&constant, &models) && stale_wants_begun(&half, &updates));
    assert_false(stale_wants_begun(&constant, &updates));
    float begun[] = {0x1.8p30f, -0x1p24f, 3, 0}, now[] = {0x1.7ffffep30f, 0x1p20f, 1, 0};
    int64_t update[] = {0, 5, 0, -7};
    assert_true(stale_mix(update, begun, now, 0.125, 4));
    assert_true(update[0] == (int64_t)0x1p44 && update[1] == 5 - (int64_t)0x1.1p61 && update[2] == (int64_t)0x1p38 &&
                update[3] == -7);
    now[2] = NAN;
    assert_false(stale_mix(update, begun, now, 0.125, 4));
    now[2] = 3 + 0x1p25f;
    assert_false(stale_mix(update, begun, now, 0.125, 4));
    assert_true(update[2] == (int64_t)0x1p38); // nothing is added of what is refused
}

// While the schedule waits for a client that never comes, others make versions beyond those that were asked for: the
// schedule forgets them, and ends where no run could continue.
static void a_client_that_does_not_come_back_is_not_waited_for_without_end(void **state) {
    (void)state;
    Fixture f;
    set_up(&f, "K=2 M=10", 20);
    f.world.client_time = CLIENT_TIME_FILE;
    for (uint32_t c = 0; c < CLIENTS; c++)
        f.clients[c].seconds_per_sample = c % 10 ? 1e-6 : 1e7; // four never come back
    Schedule schedule = simulated(&f);
    assert_in_range(schedule.count, 40, 60);
    uint32_t never = 0;
    for (uint32_t j = 0; j < schedule.count; j++)
        never += schedule.jobs[j].applied == NEVER_APPLIED;
    assert_in_range(never, 1, 4);
    schedule_free(&schedule);
}

static void what_cannot_go_on_is_refused(void **state) {
    (void)state;
    Fixture f;
    Schedule schedule;
    Error err;
    set_up(&f, "K=2 M=39", 10);
    f.clients[3].samples = f.clients[5].samples = 0;
    assert_int_equal(schedule_simulate(&schedule, &f.given, &err), STATUS_USAGE);
    assert_non_null(strstr(err.message, "39 clients train at a time (M), but only 38 have samples"));
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_mean_staleness_is_what_m_and_k_say_whatever_the_durations),
        cmocka_unit_test(with_equal_durations_each_update_is_as_stale_as_the_others_in_flight),
        cmocka_unit_test(no_client_trains_twice_at_a_time_and_every_version_has_its_updates),
        cmocka_unit_test(a_bound_keeps_clients_waiting_for_the_slowest_and_a_limit_drops_it),
        cmocka_unit_test(where_all_wait_for_all_it_is_fedavgs_cohorts_and_shares),
        cmocka_unit_test(more_versions_leave_the_beginning_as_it_was),
        cmocka_unit_test(no_two_updates_wait_in_one_place),
        cmocka_unit_test(stale_updates_count_as_their_papers_say),
        cmocka_unit_test(models_of_any_size_are_mixed_by_their_difference),
        cmocka_unit_test(late_steps_are_compensated_by_the_square_of_their_gradient),
        cmocka_unit_test(a_client_that_does_not_come_back_is_not_waited_for_without_end),
        cmocka_unit_test(what_cannot_go_on_is_refused),
    };
    return run_cases(argc, argv, tests, NULL, NULL);
}
