// The tables of `sounder runs`, which a report and the end of a sweep show, too.
#ifndef SOUNDER_APP_LOOK_RUNS_H
#define SOUNDER_APP_LOOK_RUNS_H

#include "app/look/by_options.h"
#include "app/look/past_run.h"
#include "app/look/table.h"

// Fills an empty table with one line per run: path, state, the options in which the runs differ, figures. show: names
// of figures (run_columns.h); "": those that say something.
Status runs_table_list(Table *table, const PastRuns *runs, const char *show, Error *err);

// Fills an empty table with one line per combination of values of the options in which the finished runs differ, but
// for those in `over` (replicates.h): mean and standard deviation of the figures. Empty if no run is finished.
Status runs_table_means(Table *table, const PastRuns *runs, const ByOptions *over, Error *err);

// Prints one line per combination of values of the options `by` (names separated by commas), with mean and standard
// deviation over the finished runs. The text format also names the other options that differ and the number of runs
// left out. Reorders the runs. USAGE for an unknown name, NOINPUT if no run is finished.
Status runs_print_means(PastRuns *runs, const char *by, const char *show, TableFormat format, Error *err);

#endif
