// Part of train_steps.h: one round of a run: its training and its tests.
#include "app/train/train_steps.h"

#include <math.h>
#include <string.h>

#include "app/train/run_goals.h"
#include "app/train/watchers.h"
#include "base/clock.h"
#include "base/text.h"

bool train_is_due(int every, uint32_t round) {
    return every > 0 && round % (uint32_t)every == 0;
}

double train_seconds(const Run *run) {
    return run->past.kept.seconds + clock_seconds_since(run->call.start_nanoseconds);
}

static Status evaluate_clients(Run *run, ClientTests *tests, uint32_t round, EvaluationTask task, Error *err) {
    TRY(rounds_evaluate_clients(&run->rounds, round, task, false, err));
    return client_tests_measure(tests, &run->memory, err);
}

// A trainer shows in its first test whether it counts hits and which metrics it has.
static Status settle_figure(Run *run, const RoundTest *test, Error *err) {
    char has[256] = "";
    const MetricSums *metrics = &test->metrics;
    if (!run->options.trainer[0]) return STATUS_OK;
    const char *name = run->ends.target.given ? "target" : "patience-by";
    const char *text = run->ends.target.given ? run->options.target : run->options.patience_by;
    for (uint32_t i = 0; i < metrics->count; i++)
        text_list(has, sizeof has, metrics->all[i].name, strlen(metrics->all[i].name));
    if (run_figure_is_metric(&run->ends.figure) && !metric_sums_find(metrics, run->ends.figure.metric))
        return options_refuse(
            &run->options, name, err,
            " %.100s: the trainer's test reports %s; take one of these, or give turn.add(..., %s=...)", text,
            *has ? has : "no metric", run->ends.figure.metric);
    if (!run_figure_has(&run->ends.figure, FIGURE_IS_SHARE) || test->judged) return STATUS_OK;
    if (*text)
        return options_refuse(
            &run->options, name, err,
            " %.100s: the trainer's test counts no hits; give turn.add(..., hits=...), or take loss%s", text,
            run->ends.target.given ? "=VALUE" : "");
    run->ends.figure = run_figure_loss(&run->ends.figure);
    if (train_is_first(run)) goals_begin(&run->memory.control->goals, &run->ends.target, &run->ends.figure);
    return STATUS_OK;
}

Status train_test_models(Run *run, RoundTest *test, uint32_t round, Error *err) {
    const bool validates = run->memory.partition.validation_count > 0;
    TRY(rounds_evaluate(&run->rounds, round, validates ? EVALUATE_VALIDATION : EVALUATE_TEST_SET, &run->results.report,
                        err));
    *test = round_test_of(&run->results.report, &run->memory);
    TRY(settle_figure(run, test, err));
    TRY(watchers_tell(run, MOMENT_TESTED, &(Seen){.round = round, .test = test}, err));
    if (!run_figure_tests_clients(&run->ends.figure)) return STATUS_OK;
    const uint64_t begin = clock_nanoseconds();
    const bool personal = run_figure_row(&run->ends.figure)->of == FIGURE_OF_PERSONAL;
    TRY(evaluate_clients(run, personal ? &test->personal : &test->clients, round,
                         personal ? EVALUATE_PERSONAL : EVALUATE_CLIENT, err));
    run->results.report.evaluate_seconds += clock_seconds_since(begin);
    return STATUS_OK;
}

// Reports tests of the clients on their own samples: with their own models, with the global one, and with the global
// one after further training by the client. due: --eval-clients-every asks for all of them; otherwise only results of
// the round's test are reported. Call it right after test_models. Results of the global model go into *test.
static Status report_client_evaluations(Run *run, RoundTest *test, uint32_t round, bool due, Error *err) {
    const FigureOf of = run_figure_row(&run->ends.figure)->of;
    const bool personal = run->options.recipe.personal.row != PERSONAL_NONE;
    const bool own = test->tested && of == FIGURE_OF_PERSONAL, global = test->tested && of == FIGURE_OF_CLIENTS;
    const struct {
        EvaluationTask task;
        const char *model;
        bool wanted, done;
    } kinds[] = {{EVALUATE_PERSONAL, "personal", own || (personal && due), own},
                 {EVALUATE_CLIENT, "global", global || due, global},
                 {EVALUATE_FINE_TUNED, "fine-tuned", due && run->options.finetune_epochs > 0, false}};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        ClientTests tests = own ? test->personal : test->clients;
        if (!kinds[i].wanted) continue;
        if (!kinds[i].done) TRY(evaluate_clients(run, &tests, round, kinds[i].task, err));
        if (kinds[i].task == EVALUATE_CLIENT) test->clients = tests;
        const Seen seen = {.round = round, .model = kinds[i].model, .tests = &tests, .each = due};
        TRY(watchers_tell(run, MOMENT_CLIENTS, &seen, err));
    }
    return STATUS_OK;
}

Status train_test_new_clients(Run *run, RoundTest *test, uint32_t round, bool each, Error *err) {
    const uint64_t begin = clock_nanoseconds();
    if (!run->memory.new_clients || !test->tested) return STATUS_OK;
    const bool chooses = run->memory.algorithm.traits.has[TRAIT_CLUSTERS]; // among several global models
    const struct {
        EvaluationTask task;
        const char *model;
        ClientTests *tests;
    } kinds[] = {{chooses ? EVALUATE_PERSONAL : EVALUATE_CLIENT, "new", &test->new_clients},
                 {EVALUATE_FINE_TUNED, "new-fine-tuned", &test->new_tuned}};
    for (size_t i = 0; i < (run->options.finetune_epochs > 0 ? 2 : 1); i++) {
        TRY(rounds_evaluate_clients(&run->rounds, round, kinds[i].task, true, err));
        TRY(client_tests_measure(kinds[i].tests, &run->memory, err));
        const Seen seen = {.round = round, .model = kinds[i].model, .tests = kinds[i].tests, .each = each};
        TRY(watchers_tell(run, MOMENT_CLIENTS, &seen, err));
    }
    run->results.report.evaluate_seconds += clock_seconds_since(begin);
    return STATUS_OK;
}

Status train_check_data(const Run *run, Status status, Error *err) {
    if (status == STATUS_CANCELLED) return status;
    TRY(dataset_segment_check(&run->memory.data_segment, err));
    return status;
}

// All nodes go by the first one's clock.
static Status note_budget(Run *run, uint32_t round, Error *err) {
    const Budget *budget = &run->ends.budget;
    const WorldTotals *totals = &run->memory.control->totals;
    bool late = clock_seconds_since(run->call.start_nanoseconds) >= budget->most[BUDGET_SECONDS];
    if (!isnan(budget->most[BUDGET_TOKENS]) && run->results.report.samples > 0 && totals->tokens == 0)
        return options_refuse(&run->options, "until", err,
                              " %.60s: the trainer counts no tokens; give turn.add(..., tokens=N)", run->options.until);
    if (!isnan(budget->most[BUDGET_SECONDS])) TRY(nodes_broadcast(&run->nodes, &late, sizeof late, err));
    run->ends.is_spent = late || budget_is_spent(budget, totals);
    if (run->ends.is_spent)
        progress_say(&run->progress, "round %u reaches %s: the run ends\n", round, run->options.until);
    return STATUS_OK;
}

Status train_round(Run *run, Error *err) {
    const Options *options = &run->options;
    RoundReport *report = &run->results.report;
    Control *control = run->memory.control;
    uint32_t round = run->rounds_done + 1, last = (uint32_t)options->rounds;
    bool evaluate = round == last || train_is_due(options->eval_every, round), reaches_target = false;
    uint64_t begin = trace_begin(run->rounds.trace);
    TRY(rounds_draw(&run->rounds, round, err));
    progress_begin(&run->progress, round, rounds_samples(&run->rounds, evaluate));
    TRY(train_check_data(run, rounds_train(&run->rounds, round, report, err), err));
    TRY(watchers_tell(run, MOMENT_TRAINED, &(Seen){.round = round}, err));
    TRY(note_budget(run, round, err));
    evaluate |= run->ends.is_spent;
    RoundTest test = round_test_none(&run->memory.data);
    test.judged &= run->results.tested.judged;
    test.validates = run->memory.partition.validation_count > 0;
    if (evaluate) {
        TRY(train_check_data(run, train_test_models(run, &test, round, err), err));
        run->results.tested = test;
        reaches_target = goals_note(&control->goals, &run->ends.target, &run->ends.figure,
                                    round_test_value(&test, &run->ends.figure), round, &control->totals);
    }
    const bool is_last = round == last || run->ends.is_spent || goals_end(&control->goals, options);
    const bool clients =
        options->eval_clients_every > 0 && (is_last || train_is_due(options->eval_clients_every, round));
    TRY(train_check_data(run, report_client_evaluations(run, &test, round, clients, err), err));
    TRY(train_check_data(run, train_test_new_clients(run, &test, round, clients || is_last, err), err));
    if (evaluate) run->results.tested = test, run->results.tested_round = round;
    TRY(rounds_conclude(&run->rounds, report, err));
    run->ends.signal = report->stop_signal;
    run->results.workers_lost += report->workers_lost;
    if (train_is_first(run)) TRY(nodes_busy(&run->nodes, err)); // the first node's disk may be slow
    const Seen seen = {.round = round,
                       .test = &test,
                       .reaches_target = reaches_target,
                       .is_last = is_last || run->ends.signal,
                       .began = begin};
    TRY(watchers_tell(run, MOMENT_ROUND, &seen, err));
    run->rounds_done = round;
    return watchers_tell(run, MOMENT_DONE, &seen, err);
}
