// The goals of a run besides its rounds: a value to reach (--target), and an end when it improves no more (--patience),
// both by the figure that the run is about (run_figure.h). The state is in shared memory and in checkpoints, so that a
// resumed run knows what it has reached.
//
//   TRY(goals_check(&target, &options, &data, err));
//   goals_begin(&goals, &target, &figure);                    // after a checkpoint was restored
//   if (goals_note(&goals, &target, &figure, value, round, &totals)) ...    // after each test: the target is reached
//   while (... && !goals_end(&goals, &options))
#ifndef SOUNDER_APP_TRAIN_RUN_GOALS_H
#define SOUNDER_APP_TRAIN_RUN_GOALS_H

#include <stdbool.h>

#include "app/options/options.h"
#include "app/options/run_target.h"
#include "datasets/dataset.h"
#include "fedavg/memory/layout.h"
#include "io/json.h"

// USAGE for a named figure that these data do not have: an accuracy of targets, an AUC of ten classes.
Status goals_check(const Target *target, const Options *options, const Dataset *data, Error *err);

// A new target starts over: it counts as reached from the next test on. Tests by another figure are forgotten.
void goals_begin(Goals *goals, const Target *target, const RunFigure *figure);

// Whether the tests so far were about the loss, since the trainer counts no hits (run_figure_settle): then *figure
// becomes the loss.
void goals_settle(const Goals *goals, RunFigure *figure);

// Notes a test, and returns whether it is the first to reach the target. value: of the figure; NaN is worse than all.
bool goals_note(Goals *goals, const Target *target, const RunFigure *figure, double value, uint32_t round,
                const WorldTotals *totals);

// Whether --stop-at-target, --patience, or either of them ends the run here.
bool goals_are_at_target(const Goals *goals, const Options *options);
bool goals_are_out_of_patience(const Goals *goals, const Options *options);
bool goals_end(const Goals *goals, const Options *options);

// Adds when the target was reached: rounds, also interpolated between this test and the last (McMahan et al. 2017),
// bytes, simulated seconds; nulls if it was not.
void goals_put(JsonObject *line, const Goals *goals, const Options *options, const RunFigure *figure);

#endif
