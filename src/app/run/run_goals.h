// What a run is after besides its rounds: a test accuracy to reach (--target-accuracy), and no more rounds than help
// (--patience). The state lies in shared memory and in checkpoints, so that a run that goes on knows what it has
// reached.
//
//   TRY(goals_check(&options, &data, err));
//   goals_begin(&goals, &options);                            // after a checkpoint was restored
//   if (goals_note(&goals, &report, &totals)) ...             // after each evaluation: the target was just reached
//   while (... && !goals_end(&goals, &options))
#ifndef SOUNDER_APP_RUN_RUN_GOALS_H
#define SOUNDER_APP_RUN_RUN_GOALS_H

#include <stdbool.h>

#include "app/options/options.h"
#include "fedavg/parent/rounds.h"
#include "io/json.h"

enum { GOALS_TEXT_BYTES = 256 };

// USAGE where there is no accuracy.
Status goals_check(const Options *options, const Dataset *data, Error *err);

// Another target than before begins anew: it counts as reached from the next evaluation on.
void goals_begin(Goals *goals, const Options *options);

// Whether this evaluation, of the report's round, is the first that reaches the target.
bool goals_note(Goals *goals, const RoundReport *report, const WorldTotals *totals);

// Whether --stop-at-target, --patience, or either of them ends the run here.
bool goals_are_at_target(const Goals *goals, const Options *options);
bool goals_are_out_of_patience(const Goals *goals, const Options *options);
bool goals_end(const Goals *goals, const Options *options);

// When the target was reached: rounds, also interpolated between this evaluation and the last (McMahan et al. 2017),
// bytes, simulated seconds; nulls if it was not.
void goals_put(JsonObject *line, const Goals *goals);

// As a note in checkpoints; a note that is not of these leaves zeros.
void goals_write(char text[GOALS_TEXT_BYTES], const Goals *goals);
void goals_read(Goals *goals, const char *text);

#endif
