// The tables of `sounder runs`, which a report and the end of a sweep show, too.
#ifndef SOUNDER_APP_INSPECT_RUNS_H
#define SOUNDER_APP_INSPECT_RUNS_H

#include "app/inspect/past_run.h"
#include "app/inspect/table.h"

// Fills an empty table with a line a run: path, state, the options in which the runs differ, figures.
void runs_table_list(Table *table, const PastRuns *runs);

// Prints a line for each value of the options `by` (names with commas between), with mean and standard deviation over
// the finished runs that have it; as text also over what, and how many runs were left out. The runs are put into
// another order. USAGE for a name that is none, NOINPUT where no run is finished.
Status runs_print_means(PastRuns *runs, const char *by, TableFormat format, Error *err);

#endif
