#include "run_goals.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/text.h"
#include "fedavg/memory/fingerprint.h"

Status goals_check(const Target *target, const Options *options, const Dataset *data, Error *err) {
    const RunFigure figure = run_figure_of(options, false);
    const bool is_named = target->given || options->patience_by[0];
    const unsigned traits = run_figure_row(&figure)->traits;
    const char *name = target->given ? "target" : "patience-by";
    char of[RUN_FIGURE_NAME_BYTES];
    if (is_named && traits & FIGURE_OF_ONE_LABEL && dataset_has_rows(&data->items))
        return options_refuse(options, name, err,
                              ": the samples of %.64s have several labels each, and so a model no %s; take macro-f1",
                              data->name, run_figure_name(of, &figure));
    if (is_named && traits & FIGURE_IS_SHARE && dataset_has_numbers(&data->items))
        return options_refuse(options, name, err,
                              ": the samples of %.64s have targets, no classes, and so a model no %s; write loss%s, or "
                              "end the run with --patience, which goes by the loss",
                              data->name, traits & FIGURE_OF_CLASSES ? run_figure_name(of, &figure) : "accuracy",
                              target->given ? "=VALUE" : "");
    if (!is_named || data->classes == 2 || !(traits & FIGURE_OF_TWO_CLASSES)) return STATUS_OK;
    return options_refuse(options, name, err,
                          ": an AUC is of two classes, and %.64s has %d; take balanced-accuracy or macro-f1, which "
                          "count all classes alike",
                          data->name, data->classes);
}

// How checkpoints name the figure. They have room for 31 letters: a longer metric keeps its beginning and a hash.
static void write_figure(char text[sizeof(((Goals *)0)->figure)], const RunFigure *figure) {
    const size_t room = sizeof(((Goals *)0)->figure), length = strlen(figure->metric);
    const char side = figure->falls ? '<' : '>';
    char key[FIGURE_KEY_BYTES];
    run_figure_key(key, figure);
    if (!run_figure_is_metric(figure))
        snprintf(text, room, "%.*s", (int)room - 1, key);
    else if (length + 2 <= room)
        snprintf(text, room, "%.*s%c", (int)room - 2, figure->metric, side); // all of it, which GCC does not see
    else
        snprintf(text, room, "%.13s~%016llx%c", figure->metric, (unsigned long long)XXH3_64bits(figure->metric, length),
                 side);
}

void goals_settle(const Goals *goals, RunFigure *figure) {
    char told[sizeof goals->figure];
    const RunFigure loss = run_figure_loss(figure);
    write_figure(told, &loss);
    if (strcmp(goals->figure, told) == 0) *figure = loss;
}

void goals_begin(Goals *goals, const Target *target, const RunFigure *figure) {
    char wanted[sizeof goals->figure];
    write_figure(wanted, figure);
    if (strcmp(goals->figure, wanted) != 0) *goals = (Goals){0};
    memcpy(goals->figure, wanted, sizeof wanted);
    if (goals->target == target->value) return;
    goals->target = target->value;
    goals->target_round = 0;
}

// Returns the round at which the line from the best test before, placed at the last test, to this one crosses the
// target.
static double crossing(const Goals *goals, double value, uint32_t round) {
    if (goals->tested_round == 0 || isnan(goals->best)) return round;
    assert(round > goals->tested_round);
    double part = (goals->target - goals->best) / (value - goals->best);
    return goals->tested_round + part * (round - goals->tested_round);
}

bool goals_note(Goals *goals, const Target *target, const RunFigure *figure, double value, uint32_t round,
                const WorldTotals *totals) {
    bool reaches = target->given && goals->target_round == 0 && target_is_reached(target, value);
    assert(round > goals->tested_round); // tests are noted in the order of the rounds
    if (reaches) {
        bool was_there =
            goals->tested_round > 0 && target_is_reached(target, goals->best); // reached earlier, for another target
        goals->target_crossing = was_there ? round : crossing(goals, value, round);
        goals->target_round = round;
        goals->target_totals = *totals;
    }
    goals->tests_since_best++;
    if (goals->tested_round == 0 || run_figure_is_better(figure, value, goals->best)) {
        goals->best = value;
        goals->best_round = round;
        goals->tests_since_best = 0;
    }
    assert(goals->best_round <= round);
    goals->tested_round = round;
    return reaches;
}

bool goals_are_at_target(const Goals *goals, const Options *options) {
    return options->stop_at_target && options->target[0] && goals->target_round > 0;
}

bool goals_are_out_of_patience(const Goals *goals, const Options *options) {
    return options->patience > 0 && goals->tests_since_best >= (uint32_t)options->patience;
}

bool goals_end(const Goals *goals, const Options *options) {
    return goals_are_at_target(goals, options) || goals_are_out_of_patience(goals, options);
}

void goals_put(JsonObject *line, const Goals *goals, const Options *options, const RunFigure *figure) {
    bool reached = goals->target_round > 0,
         counted = reached && goals->target_totals.down_bytes > 0; // runs without clients count none
    char best[FIGURE_KEY_BYTES];
    if (goals->tested_round > 0) put_real(line, run_figure_best_key(best, figure), goals->best);
    if (goals->tested_round > 0) put_whole(line, "best_round", goals->best_round);
    if (!options->target[0]) return;
    put_text(line, "target", options->target);
    if (run_figure_has(figure, FIGURE_IS_SHARE)) put_real(line, "target_accuracy", goals->target);
    put_real(line, "rounds_to_target", reached ? (double)goals->target_round : NAN);
    put_real(line, "rounds_to_target_interpolated", reached ? goals->target_crossing : NAN);
    put_real(line, "down_bytes_to_target", counted ? (double)goals->target_totals.down_bytes : NAN);
    put_real(line, "up_bytes_to_target", counted ? (double)goals->target_totals.up_bytes : NAN);
    if (goals->target_totals.tokens > 0) put_whole(line, "tokens_to_target", (int64_t)goals->target_totals.tokens);
    const double joules = goals->target_totals.training_joules + goals->target_totals.link_joules;
    if (joules > 0) put_real(line, "joules_to_target", joules);
    put_real(line, "simulated_seconds_to_target", counted ? (double)goals->target_totals.microseconds * 1e-6 : NAN);
}
