#include "run_goals.h"

#include <math.h>
#include <stdio.h>

Status goals_check(const Options *options, const Dataset *data, Error *err) {
    char name[OPTION_NAMED_BYTES];
    if (!dataset_has_targets(&data->items) || options->target_accuracy == 0) return STATUS_OK;
    return fail(
        err, STATUS_USAGE,
        "%s: the samples of %.64s have targets, no classes, and so a model no accuracy; leave it out, or end the "
        "run with --patience, which goes by the loss",
        options_named(name, options, "target-accuracy"), data->name);
}

void goals_begin(Goals *goals, const Options *options, RunFigure figure) {
    if (run_figure_named(goals->figure) != figure) *goals = (Goals){0};
    snprintf(goals->figure, sizeof goals->figure, "%s", run_figures[figure].key);
    if (goals->target == options->target_accuracy) return;
    goals->target = options->target_accuracy;
    goals->target_round = 0;
}

// Returns the round at which the line from the best test before, placed at the last test, to this one crosses the
// target.
static double crossing(const Goals *goals, double accuracy, uint32_t round) {
    if (goals->tested_round == 0) return round;
    double part = (goals->target - goals->best) / (accuracy - goals->best);
    return goals->tested_round + part * (round - goals->tested_round);
}

// A target is always an accuracy (goals_check), so more is better.
bool goals_note(Goals *goals, double value, uint32_t round, const WorldTotals *totals) {
    bool reaches = goals->target > 0 && goals->target_round == 0 && value >= goals->target;
    if (reaches) {
        bool was_there = goals->tested_round > 0 && goals->best >= goals->target; // reached earlier, for another target
        goals->target_crossing = was_there ? round : crossing(goals, value, round);
        goals->target_round = round;
        goals->target_totals = *totals;
    }
    goals->tests_since_best++;
    if (goals->tested_round == 0 || run_figure_is_better(run_figure_named(goals->figure), value, goals->best)) {
        goals->best = value;
        goals->best_round = round;
        goals->tests_since_best = 0;
    }
    goals->tested_round = round;
    return reaches;
}

bool goals_are_at_target(const Goals *goals, const Options *options) {
    return options->stop_at_target && goals->target > 0 && goals->target_round > 0;
}

bool goals_are_out_of_patience(const Goals *goals, const Options *options) {
    return options->patience > 0 && goals->tests_since_best >= (uint32_t)options->patience;
}

bool goals_end(const Goals *goals, const Options *options) {
    return goals_are_at_target(goals, options) || goals_are_out_of_patience(goals, options);
}

void goals_put(JsonObject *line, const Goals *goals) {
    bool reached = goals->target_round > 0,
         counted = reached && goals->target_totals.down_bytes > 0; // runs without clients count none
    if (goals->tested_round > 0) put_real(line, run_figures[run_figure_named(goals->figure)].best, goals->best);
    if (goals->tested_round > 0) put_whole(line, "best_round", goals->best_round);
    if (goals->target == 0) return;
    put_real(line, "target_accuracy", goals->target);
    put_real(line, "rounds_to_target", reached ? (double)goals->target_round : NAN);
    put_real(line, "rounds_to_target_interpolated", reached ? goals->target_crossing : NAN);
    put_real(line, "down_bytes_to_target", counted ? (double)goals->target_totals.down_bytes : NAN);
    put_real(line, "up_bytes_to_target", counted ? (double)goals->target_totals.up_bytes : NAN);
    put_real(line, "simulated_seconds_to_target", counted ? (double)goals->target_totals.microseconds * 1e-6 : NAN);
}
