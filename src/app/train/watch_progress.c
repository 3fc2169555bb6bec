// Part of watchers.h: the lines on standard output of a round and of the end of a run (progress.h).
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "app/train/missing_clients.h"
#include "app/train/run_goals.h"
#include "app/train/train_steps.h"
#include "app/train/watchers.h"
#include "fedavg/memory/state.h"
#include "fedavg/trainer/faults.h"

typedef struct Lines {
    bool lacks_clients; // drawn clients have not arrived in this process
} Lines;

static Status open(Run *run, void *state, const Seen *seen, Error *err) {
    (void)state, (void)seen, (void)err;
    progress_watch(&run->progress, &run->rounds);
    return STATUS_OK;
}

static void say_goals(Run *run, const Seen *seen) {
    const Goals *goals = &run->memory.control->goals;
    const RunFigure *figure = &run->ends.figure;
    char name[RUN_FIGURE_NAME_BYTES];
    if (seen->reaches_target && run_figure_has(figure, FIGURE_IS_SHARE))
        progress_say(&run->progress, "round %u reaches the target of %g%%\n", seen->round, 100 * goals->target);
    else if (seen->reaches_target)
        progress_say(&run->progress, "round %u reaches the target %s\n", seen->round, run->options.target);
    if (goals_are_out_of_patience(goals, &run->options))
        progress_say(&run->progress, "the %s has not been better since round %u: patience ends\n",
                     run_figure_name(name, figure), goals->best_round);
}

static Status round_over(Run *run, void *state, const Seen *seen, Error *err) {
    (void)err;
    const RoundReport *report = &run->results.report;
    ((Lines *)state)->lacks_clients |= report->cohort->jobs < report->cohort->count || report->refused > 0;
    progress_end(&run->progress, report, seen->test, &run->ends.figure);
    if (seen->test->tested) say_goals(run, seen);
    return STATUS_OK;
}

static void print_best(Run *run) {
    const Goals *goals = &run->memory.control->goals;
    const RoundTest *best = &run->results.best_final;
    char text[RUN_FIGURE_TEXT_BYTES], number[RUN_FIGURE_TEXT_BYTES], tested[RUN_FIGURE_TEXT_BYTES + 8] = "";
    const RunFigure *about = &run->ends.figure, figure = run_figure_on_test(about);
    if (best->tested && !run_figure_tests_clients(about))
        snprintf(tested, sizeof tested, ", test %s",
                 run_figure_number(number, &figure, round_test_value(best, &figure)));
    if (goals->best_round == run->rounds_done || !run_folder_has(&run->folder, BEST_MODEL_NAME)) return;
    progress_say(&run->progress, "best: %s/" BEST_MODEL_NAME "  round %u, %s%s\n", run->folder.path, goals->best_round,
                 run_figure_text(text, about, goals->best), tested);
}

// The record is read only if there is something to tell: it is long after many rounds.
static void print_missing(Run *run, const Lines *self) {
    char text[MISSING_TEXT_BYTES];
    Error ignored;
    const Folder folder = run_folder_at(&run->folder);
    if (!self->lacks_clients && !run->options.resume[0]) return;
    if (missing_clients_text(text, &folder, &ignored) == STATUS_OK && *text) progress_say(&run->progress, "%s\n", text);
}

static void print_energy(Run *run) {
    const WorldTotals *totals = &run->memory.control->totals;
    const double joules = run->results.joules;
    if (run->memory.world_files.powers)
        progress_say(&run->progress, "simulated energy: %.4g J of training, %.4g J of links\n", totals->training_joules,
                     totals->link_joules);
    if (!isnan(joules))
        progress_say(&run->progress, "measured energy: %.4g J of this machine, other programs included\n", joules);
}

static Status end(Run *run, void *state, const Seen *seen, Error *err) {
    (void)seen, (void)err;
    const RunResults *results = &run->results;
    const uint32_t rounds = run->rounds_done, again = trainer_faults_total(run->memory.control);
    const uint32_t models = state_models(run->memory.config);
    progress_conclude(&run->progress, &run->ends.figure, &results->tested, &results->final, rounds, results->seconds);
    print_missing(run, state);
    if (run->options.until[0] && strcmp(run->options.until, "none") != 0 && !run->ends.is_spent)
        progress_say(&run->progress, "%u rounds did not reach --until %s\n", rounds, run->options.until);
    print_energy(run);
    if (again > 0)
        progress_say(&run->progress, "%u turn%s done again after a fault of the trainer; its output is in %s/%s\n",
                     again, again == 1 ? " was" : "s were", run->folder.path, TRAINER_LOG_NAME);
    progress_say(&run->progress, "model: %s/" MODEL_NAME "  sha256 %.12s...\n", run->folder.path, results->sha256);
    if (models > 1)
        progress_say(&run->progress,
                     "that is cluster %u, which most clients trained last; all are %s/cluster-0.safetensors to %u\n",
                     run->memory.control->cluster, run->folder.path, models - 1);
    print_best(run);
    train_say_how_to_continue(run);
    return STATUS_OK;
}

static void tick(Run *run, void *state) {
    (void)state;
    progress_tick(&run->progress);
}

const Watcher progress_watcher = {.bytes = sizeof(Lines),
                                  .all_nodes = true,
                                  .at = {[MOMENT_OPEN] = open, [MOMENT_ROUND] = round_over, [MOMENT_END] = end},
                                  .tick = tick};
