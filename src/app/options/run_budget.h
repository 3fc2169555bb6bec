// The budget of a run (--until): the run ends after the whole round that reaches a number.
//
//   Budget budget;
//   TRY(budget_read(&budget, &options, err));
//   if (budget_is_spent(&budget, &control->totals)) ...    // after each round, and after a checkpoint was restored
//
// All but the seconds of the wall clock follow from the totals, which checkpoints have: such a run repeats, and a
// resumed one ends with that round.
#ifndef SOUNDER_APP_OPTIONS_RUN_BUDGET_H
#define SOUNDER_APP_OPTIONS_RUN_BUDGET_H

#include "app/options/options.h"
#include "fedavg/memory/layout.h"

enum { BUDGET_TOKENS, BUDGET_BYTES, BUDGET_SIMULATED, BUDGET_JOULES, BUDGET_SECONDS, BUDGET_NUMBERS };

typedef struct Budget {
    double most[BUDGET_NUMBERS]; // NAN: no bound. Bytes are of both directions, joules of training and links
} Budget;

// Reads --until. USAGE for a text that is none, and for a number that the run does not count.
Status budget_read(Budget *budget, const Options *options, Error *err);

// Whether the totals of the rounds so far have reached a number; seconds are another question.
bool budget_is_spent(const Budget *budget, const WorldTotals *totals);

#endif
