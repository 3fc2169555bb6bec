// The figure that a run is about, the goals that go by it, and what tests of clients add up to.
#include "app/train/round_test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "app/train/run_goals.h"
#include "fedavg/memory/client_state_file.h"
#include "tests/check.h"

static void check_figure(const char *algorithm, bool has_targets, const char *expected) {
    char key[FIGURE_KEY_BYTES];
    static Options options; // zeroed: without a target
    Error err;
    check_ok(recipe_parse(&options.recipe, algorithm, &err));
    const RunFigure figure = run_figure_of(&options, has_targets);
    run_figure_key(key, &figure);
    assert_string_equal(key, expected);
}

static void personal_recipes_are_about_clients_and_targets_about_the_loss(void **state) {
    (void)state;
    check_figure("scaffold", false, "test_accuracy");
    check_figure("fedavg", true, "test_loss");
    check_figure("hogwild", true, "test_loss");
    static const char *const personal[] = {"ditto", "pfedme", "fedper", "fedrep", "lg-fedavg", "local-only", "fedbn"};
    for (size_t i = 0; i < sizeof personal / sizeof *personal; i++) {
        check_figure(personal[i], false, "personal_accuracy");
        check_figure(personal[i], true, "personal_loss");
    }
}

static void a_figure_is_read_by_the_key_that_it_is_written_by(void **state) {
    (void)state;
    char text[RUN_FIGURE_TEXT_BYTES], key[FIGURE_KEY_BYTES];
    const RunFigure personal = run_figure_of_key("personal_accuracy"), loss = run_figure_of_key("test_loss");
    const RunFigure perplexity = {.row = &figure_metric, .falls = true, .metric = "perplexity"};
    for (size_t i = 0; i < 2 * (figure_count + 1); i++) {
        const Figure *row = i / 2 < figure_count ? &figure_table[i / 2] : &figure_metric;
        const RunFigure figure = row == &figure_metric ? perplexity : (RunFigure){.row = row, .validates = i % 2 == 1};
        if (!figure_is_goal(row) || (i % 2 == 1 && row->of != FIGURE_OF_MODEL)) continue;
        run_figure_key(key, &figure);
        json_t *start = json_pack("{s:s, s:b}", "figure", key, "lower_is_better", figure.falls);
        const RunFigure told = run_figure_told(start);
        assert_true(run_figure_same(&told, &figure));
        json_decref(start);
    }
    assert_ptr_equal(run_figure_told(NULL).row, NULL); // of a run from before figures had names: the accuracy
    assert_string_equal(run_figure_text(text, &(RunFigure){0}, 0.408), "40.80%");
    assert_string_equal(run_figure_text(text, &personal, 0.89434), "personal 89.43%");
    assert_string_equal(run_figure_text(text, &loss, 3.67), "loss 3.6700");
    assert_string_equal(run_figure_text(text, &perplexity, 18.25), "perplexity 18.2500");
    assert_string_equal(run_figure_text(text, &perplexity, 1.25e-5), "perplexity 1.25e-05");
}

static void a_figure_is_found_in_a_round_s_line_and_a_missing_accuracy_gives_way_to_the_loss(void **state) {
    (void)state;
    json_t *line = json_pack("{s:f, s:{s:f}}", "test_loss", 0.5, "test_metrics", "recall", 0.75);
    RunFigure figure = {.row = &figure_metric, .metric = "recall"};
    assert_true(run_figure_in(line, &figure) == 0.75);
    assert_false(run_figure_settle(&figure, line));
    assert_true(run_figure_is_better(&figure, 0.8, 0.7) && run_figure_is_better(&figure, 0.1, NAN));
    figure.falls = true;
    assert_true(run_figure_is_better(&figure, 0.7, 0.8));
    figure = (RunFigure){0};
    assert_true(isnan(run_figure_in(line, &figure)));
    assert_true(run_figure_settle(&figure, line));
    assert_ptr_equal(figure.row, figure_find(FIGURE_OF_MODEL, "loss"));
    json_object_set_new(line, "test_accuracy", json_null()); // not tested, or not finite
    figure = run_figure_of_key("test_accuracy");
    assert_false(run_figure_settle(&figure, line));
    json_decref(line);
}

static void a_loss_tells_the_root_of_the_mean_square_and_r2(void **state) {
    (void)state;
    const float targets[] = {1, 2, 3, 6}; // mean 3, variance (4 + 1 + 0 + 9) / 4
    const RunMemory memory = {
        .data = {.items.label_bytes = 4, .test = {.count = 4, .labels = (const uint16_t *)(const void *)targets}}};
    assert_true(fabs(test_variance(&memory.data) - 3.5) < 1e-12);
    const RoundReport report = {
        .test_loss = 1.75, .test_count = 4, .test_hits = 3, .test_judged = true}; // the mean square
    const RoundTest test = round_test_of(&report, &memory);
    assert_true(isnan(test.accuracy));
    assert_true(fabs(test.rmse - sqrt(1.75)) < 1e-12 && fabs(test.r2 - 0.5) < 1e-12);
    assert_true(isnan(loss_as_r2(1, 0)));
}

static void a_test_that_counts_no_hits_has_no_accuracy(void **state) {
    (void)state;
    const RunMemory memory = {.data = {.items.label_bytes = 2}};
    RoundReport report = {.test_loss = 0.5, .test_count = 4, .test_hits = 3, .test_judged = true};
    Error err;
    check_ok(metric_sums_add(&report.test_metrics, "recall", 3, 4, &err));
    RoundTest test = round_test_of(&report, &memory);
    assert_true(test.accuracy == 0.75);
    assert_true(round_test_value(&test, &(RunFigure){.row = &figure_metric, .metric = "recall"}) == 0.75);
    assert_true(isnan(round_test_value(&test, &(RunFigure){.row = &figure_metric, .metric = "other"})));
    report.test_judged = false;
    test = round_test_of(&report, &memory);
    assert_true(isnan(test.accuracy) && !test.judged && test.loss == 0.5);
}

static void patience_goes_by_the_run_s_figure(void **state) {
    (void)state;
    const struct {
        RunFigure figure;
        double values[4]; // the second is better, the others are not
    } cases[] = {{run_figure_of_key("personal_accuracy"), {0.5, 0.6, 0.6, 0.1}},
                 {run_figure_of_key("test_loss"), {3, 2, 2, 9}},
                 {{.row = &figure_metric, .falls = true, .metric = "perplexity"}, {30, 20, 20, 40}},
                 {{.row = &figure_metric, .metric = "recall"}, {0.2, 0.3, 0.3, 0.1}}};
    const WorldTotals totals = {0};
    const Target none = {0};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Goals goals = {0};
        Options options = {.patience = 4};
        goals_begin(&goals, &none, &cases[i].figure);
        for (uint32_t round = 0; round < 4; round++)
            assert_false(goals_note(&goals, &none, &cases[i].figure, cases[i].values[round], round + 1, &totals));
        goals_note(&goals, &none, &cases[i].figure, NAN, 5, &totals); // worse than all
        assert_int_equal(goals.best_round, 2);
        assert_int_equal(goals.tests_since_best, 3);
        assert_false(goals_end(&goals, &options));
        options.patience = 3;
        assert_true(goals_end(&goals, &options));
    }
}

static void tests_by_another_figure_are_forgotten(void **state) {
    (void)state;
    Goals goals = {.tested_round = 4, .best = 0.25, .best_round = 2, .target = 0.7, .figure = "test_accuracy"};
    Target target = {.given = true, .value = 0.7};
    goals_begin(&goals, &target, &target.figure);
    assert_int_equal(goals.best_round, 2);
    assert_string_equal(goals.figure, "test_accuracy");
    target.figure = run_figure_of_key("personal_accuracy");
    goals_begin(&goals, &target, &target.figure);
    assert_int_equal(goals.tested_round, 0);
    assert_true(goals.target == 0.7);
    assert_true(goals_note(&goals, &target, &target.figure, 0.8, 5, &(WorldTotals){0}));
}

static void goals_know_long_metrics_apart_and_which_way_they_go(void **state) {
    (void)state;
    Goals goals = {0};
    Target target = {.given = true, .value = 0, .figure = {.row = &figure_metric, .falls = true}};
    char *name = target.figure.metric;
    strcpy(name, "the_mean_squared_error_of_the_last_hour");
    goals_begin(&goals, &target, &target.figure);
    assert_false(goals_note(&goals, &target, &target.figure, 0.5, 1, &(WorldTotals){0}));
    assert_true(goals_note(&goals, &target, &target.figure, 0, 2, &(WorldTotals){0})); // at the value is enough
    goals_begin(&goals, &target, &target.figure);
    assert_int_equal(goals.target_round, 2);
    strcpy(name, "the_mean_squared_error_of_the_last_day");
    goals_begin(&goals, &target, &target.figure);
    assert_int_equal(goals.tested_round, 0);
    goals_note(&goals, &target, &target.figure, 1, 3, &(WorldTotals){0});
    target.figure.falls = false;
    goals_begin(&goals, &target, &target.figure);
    assert_int_equal(goals.tested_round, 0);
}

static void a_resumed_run_without_hits_stays_with_the_loss(void **state) {
    (void)state;
    Goals goals = {0};
    RunFigure figure = run_figure_of_key("test_accuracy");
    const RunFigure loss = run_figure_of_key("test_loss");
    goals_settle(&goals, &figure);
    assert_string_equal(figure.row->key, "accuracy");
    goals_begin(&goals, &(Target){0}, &loss);
    goals_settle(&goals, &figure);
    assert_ptr_equal(figure.row, figure_find(FIGURE_OF_MODEL, "loss"));
}

static void clients_without_samples_or_training_are_counted(void **state) {
    (void)state;
    Queue *queue = calloc(1, queue_bytes(4));
    Error err;
    ClientTests tests;
    assert_non_null(queue);
    queue_init(queue, 4);
    static const RunConfig config = {.client_state.rows = 4};
    const RunMemory memory = {.queue = queue, .config = &config};
    queue->count = 4;
    static const struct {
        uint32_t samples, hits, row;
        double loss_sum;
    } told[] = {{10, 9, 1, 2}, {0, 0, 2, 0}, {20, 2, NO_CLIENT_STATE, 40}, {5, 4, 3, 1}};
    for (uint32_t i = 0; i < 4; i++) {
        Job *job = &queue->jobs[i];
        job->task = EVALUATE_PERSONAL;
        job->samples = told[i].samples;
        job->hits = told[i].hits;
        job->state_from = told[i].row;
        job->loss_sum = told[i].loss_sum;
    }
    check_ok(client_tests_measure(&tests, &memory, &err));
    assert_int_equal(tests.clients, 3);
    assert_int_equal(tests.untested, 1);
    assert_int_equal(tests.never_trained, 1);
    assert_int_equal(tests.samples, 35);
    assert_true(fabs(tests.accuracy.mean - 0.6) < 1e-12 && fabs(tests.loss.mean - 0.8) < 1e-12);
    queue->jobs[3].unjudged = 5; // a trainer that counts no hits
    check_ok(client_tests_measure(&tests, &memory, &err));
    assert_false(tests.judged);
    assert_true(isnan(tests.accuracy.mean) && fabs(tests.loss.mean - 0.8) < 1e-12);
    for (uint32_t i = 0; i < 4; i++)
        queue->jobs[i].samples = 0;
    check_ok(client_tests_measure(&tests, &memory, &err));
    assert_int_equal(tests.clients, 0);
    assert_true(isnan(tests.accuracy.mean) && isnan(tests.loss.mean));
    free(queue);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(personal_recipes_are_about_clients_and_targets_about_the_loss),
        cmocka_unit_test(a_figure_is_read_by_the_key_that_it_is_written_by),
        cmocka_unit_test(a_figure_is_found_in_a_round_s_line_and_a_missing_accuracy_gives_way_to_the_loss),
        cmocka_unit_test(a_loss_tells_the_root_of_the_mean_square_and_r2),
        cmocka_unit_test(a_test_that_counts_no_hits_has_no_accuracy),
        cmocka_unit_test(patience_goes_by_the_run_s_figure),
        cmocka_unit_test(tests_by_another_figure_are_forgotten),
        cmocka_unit_test(goals_know_long_metrics_apart_and_which_way_they_go),
        cmocka_unit_test(a_resumed_run_without_hits_stays_with_the_loss),
        cmocka_unit_test(clients_without_samples_or_training_are_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
