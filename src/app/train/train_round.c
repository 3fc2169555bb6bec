// Part of train_steps.h: one round of a run: its training, its tests, its checkpoint.
#include "app/train/train_steps.h"

#include <math.h>
#include <string.h>

#include "app/train/run_goals.h"
#include "base/clock.h"
#include "base/text.h"

// The record goes to the disk first: after a power loss it has all rounds of the checkpoint.
Status train_write_checkpoint(Run *run, Error *err) {
    TRY(metrics_sync(&run->metrics, err));
    TRY(run_checkpoint_write(&run->folder, &run->memory, &run->spec, &run->about, &run->record, run->rounds_done, err));
    run->saved = run->rounds_done;
    client_state_rows_saved(&run->rounds.client_states, run->rounds_done);
    return STATUS_OK;
}

static bool is_due(int every, uint32_t round) {
    return every > 0 && round % (uint32_t)every == 0;
}

static Status save_round(Run *run, Error *err) {
    uint64_t begin = trace_begin(run->rounds.trace);
    const Folder folder = run_folder_at(&run->folder);
    TRY(best_model_save(&run->best, &folder, run->memory.control->goals.best_round, run->rounds_done, err));
    TRY(train_write_checkpoint(run, err));
    trace_end(run->rounds.trace, TRACE_CHECKPOINT, begin, run->rounds_done, run->rounds_done);
    return STATUS_OK;
}

double train_seconds(const Run *run) {
    return run->kept.seconds + clock_seconds_since(run->start_nanoseconds);
}

double train_joules(Run *run) {
    if (run->meter.count == 0) return NAN;
    energy_meter_read(&run->meter);
    return run->kept.joules + run->meter.joules;
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
    const char *name = run->target.given ? "target" : "patience-by";
    const char *text = run->target.given ? run->options.target : run->options.patience_by;
    for (uint32_t i = 0; i < metrics->count; i++)
        text_list(has, sizeof has, metrics->all[i].name, strlen(metrics->all[i].name));
    if (run_figure_is_metric(&run->figure) && !metric_sums_find(metrics, run->figure.metric))
        return options_refuse(
            &run->options, name, err,
            " %.100s: the trainer's test reports %s; take one of these, or give turn.add(..., %s=...)", text,
            *has ? has : "no metric", run->figure.metric);
    if (!run_figure_has(&run->figure, FIGURE_IS_SHARE) || test->judged) return STATUS_OK;
    if (*text)
        return options_refuse(
            &run->options, name, err,
            " %.100s: the trainer's test counts no hits; give turn.add(..., hits=...), or take loss%s", text,
            run->target.given ? "=VALUE" : "");
    run->figure = run_figure_loss(&run->figure);
    if (train_is_first(run)) goals_begin(&run->memory.control->goals, &run->target, &run->figure);
    return STATUS_OK;
}

static Status check_reads(Run *run, Error *err) {
    if (!run->options.trainer[0] || run->checked_reads || !train_is_first(run)) return STATUS_OK;
    run->checked_reads = true;
    return run_check_reads(&run->options, &run->memory, err);
}

// JSON has null for such a loss, and charts a gap: it is said once.
static void warn_of_loss(Run *run, const RoundTest *test, uint32_t round) {
    if (run->warned_of_loss || !train_is_first(run) || isfinite(test->loss)) return;
    run->warned_of_loss = true;
    log_warning("round %u: the loss of the test is %g: answers of the net are not finite%s; a smaller --lr (now %g) or "
                "server step may help",
                round, test->loss, run->options.trainer[0] ? ", or the trainer gives no loss" : "",
                (double)run->options.training.sgd.lr);
}

Status train_test_models(Run *run, RoundTest *test, uint32_t round, Error *err) {
    const bool validates = run->memory.partition.validation_count > 0;
    TRY(rounds_evaluate(&run->rounds, round, validates ? EVALUATE_VALIDATION : EVALUATE_TEST_SET, &run->report, err));
    *test = round_test_of(&run->report, &run->memory);
    warn_of_loss(run, test, round);
    TRY(settle_figure(run, test, err));
    TRY(check_reads(run, err));
    if (!run_figure_tests_clients(&run->figure)) return STATUS_OK;
    const uint64_t begin = clock_nanoseconds();
    const bool personal = run_figure_row(&run->figure)->of == FIGURE_OF_PERSONAL;
    TRY(evaluate_clients(run, personal ? &test->personal : &test->clients, round,
                         personal ? EVALUATE_PERSONAL : EVALUATE_CLIENT, err));
    run->report.evaluate_seconds += clock_seconds_since(begin);
    return STATUS_OK;
}

// Reports tests of the clients on their own samples: with their own models, with the global one, and with the global
// one after further training by the client. due: --eval-clients-every asks for all of them; otherwise only results of
// the round's test are reported. Call it right after test_models. Results of the global model go into *test.
static Status report_client_evaluations(Run *run, RoundTest *test, uint32_t round, bool due, Error *err) {
    const FigureOf of = run_figure_row(&run->figure)->of;
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
        if (train_is_first(run))
            TRY(report_client_tests(&run->metrics, &run->memory, round, kinds[i].model, &tests, due, err));
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
        if (train_is_first(run) && run->kept.tested_round != round) // whose lines an earlier process wrote
            TRY(report_client_tests(&run->metrics, &run->memory, round, kinds[i].model, kinds[i].tests, each, err));
    }
    run->report.evaluate_seconds += clock_seconds_since(begin);
    return STATUS_OK;
}

static void say_goals(Run *run, uint32_t round, bool reaches_target) {
    const Goals *goals = &run->memory.control->goals;
    char name[RUN_FIGURE_NAME_BYTES];
    if (reaches_target && run_figure_has(&run->figure, FIGURE_IS_SHARE))
        progress_say(&run->progress, "round %u reaches the target of %g%%\n", round, 100 * goals->target);
    else if (reaches_target)
        progress_say(&run->progress, "round %u reaches the target %s\n", round, run->options.target);
    if (goals_are_out_of_patience(goals, &run->options))
        progress_say(&run->progress, "the %s has not been better since round %u: patience ends\n",
                     run_figure_name(name, &run->figure), goals->best_round);
}

Status train_check_data(const Run *run, Status status, Error *err) {
    if (status == STATUS_CANCELLED) return status;
    TRY(dataset_segment_check(&run->memory.data_segment, err));
    return status;
}

Status train_note_best(Run *run, uint32_t round, Error *err) {
    if (!train_is_first(run) || round == 0 || run->memory.control->goals.best_round != round) return STATUS_OK;
    return best_model_note(&run->best, &run->memory, err);
}

// All nodes go by the first one's clock.
static Status note_budget(Run *run, uint32_t round, Error *err) {
    const Budget *budget = &run->budget;
    const WorldTotals *totals = &run->memory.control->totals;
    bool late = clock_seconds_since(run->start_nanoseconds) >= budget->most[BUDGET_SECONDS];
    if (!isnan(budget->most[BUDGET_TOKENS]) && run->report.samples > 0 && totals->tokens == 0)
        return options_refuse(&run->options, "until", err,
                              " %.60s: the trainer counts no tokens; give turn.add(..., tokens=N)", run->options.until);
    if (!isnan(budget->most[BUDGET_SECONDS])) TRY(nodes_broadcast(&run->nodes, &late, sizeof late, err));
    run->spent = late || budget_is_spent(budget, totals);
    if (run->spent) progress_say(&run->progress, "round %u reaches %s: the run ends\n", round, run->options.until);
    return STATUS_OK;
}

Status train_round(Run *run, Error *err) {
    const Options *options = &run->options;
    RoundReport *report = &run->report;
    Control *control = run->memory.control;
    uint32_t round = run->rounds_done + 1, last = (uint32_t)options->rounds;
    bool evaluate = round == last || is_due(options->eval_every, round), reaches_target = false;
    uint64_t begin = trace_begin(run->rounds.trace);
    TRY(rounds_draw(&run->rounds, round, err));
    progress_begin(&run->progress, round, rounds_samples(&run->rounds, evaluate));
    TRY(train_check_data(run, rounds_train(&run->rounds, round, report, err), err));
    run->published = round;
    TRY(note_budget(run, round, err));
    evaluate |= run->spent;
    if (train_is_first(run)) TRY(report_clients(&run->metrics, &run->memory, round, err));
    RoundTest test = round_test_none(&run->memory.data);
    test.judged &= run->tested.judged;
    test.validates = run->memory.partition.validation_count > 0;
    if (evaluate) {
        TRY(train_check_data(run, train_test_models(run, &test, round, err), err));
        run->tested = test;
        reaches_target = goals_note(&control->goals, &run->target, &run->figure, round_test_value(&test, &run->figure),
                                    round, &control->totals);
        TRY(train_note_best(run, round, err));
    }
    const bool is_last = round == last || run->spent || goals_end(&control->goals, options);
    const bool clients = options->eval_clients_every > 0 && (is_last || is_due(options->eval_clients_every, round));
    TRY(train_check_data(run, report_client_evaluations(run, &test, round, clients, err), err));
    TRY(train_check_data(run, train_test_new_clients(run, &test, round, clients || is_last, err), err));
    if (evaluate) run->tested = test, run->tested_round = round;
    TRY(rounds_conclude(&run->rounds, report, err));
    run->stop_signal = report->stop_signal;
    run->summary.workers_lost += report->workers_lost;
    run->has_trained |= report->samples > 0;
    run->lacks_clients |= report->cohort->jobs < report->cohort->count || report->refused > 0;
    if (train_is_first(run)) TRY(nodes_busy(&run->nodes, err)); // the first node's disk may be slow
    progress_end(&run->progress, report, &test, &run->figure);
    if (evaluate) say_goals(run, round, reaches_target);
    if (train_is_first(run))
        TRY(report_round(&run->metrics, &run->memory, report, &test, &run->figure, run_device_name(&run->device),
                         (RunCosts){train_seconds(run), train_joules(run)}, err));
    run->rounds_done = round;
    const bool ends = is_last || run->stop_signal;
    if (train_is_first(run) && (ends || is_due(options->checkpoint_every, round))) TRY(save_round(run, err));
    trace_end(run->rounds.trace, TRACE_ROUND, begin, round, round);
    return trace_file_drain(&run->trace, &run->memory, &run->nodes, err);
}
