// The options whose values only repeat an experiment: the seed, those that --over names, and --data where runs differ
// in the fold alone. Means are over them, and runs with equal values of them are pairs.
//
//   ByOptions over;
//   TRY(replicates_read(&over, "test-seed", &runs, err));
//   if (by_options_have(&over, option)) ...                      // no column, no group
#ifndef SOUNDER_APP_LOOK_REPLICATES_H
#define SOUNDER_APP_LOOK_REPLICATES_H

#include "app/look/by_options.h"

// names: of --over; "": none. runs: NULL for those of a plan. USAGE for an unknown name.
Status replicates_read(ByOptions *over, const char *names, const PastRuns *runs, Error *err);

// Whether two values of --data name one data set and differ in nothing but fold=k/K.
bool replicates_are_folds(const char *a, const char *b);

// Writes "seed" or "seed and data" to the caller's text (OPTION_TEXT_BYTES), and returns it.
const char *replicates_name(char *text, const ByOptions *over);

#endif
