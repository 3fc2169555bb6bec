// Traits of runs (past_run.h) that tell groups of them apart, as the first columns of a table.
//
//   ByOptions by;
//   TRY(by_options_read(&by, "--by", "algorithm,alpha", err));
//   by_options_add_columns(&by, &table);
//   by_options_put(&table, &by, &run);              // in the last row
#ifndef SOUNDER_APP_LOOK_BY_OPTIONS_H
#define SOUNDER_APP_LOOK_BY_OPTIONS_H

#include "app/look/past_run.h"
#include "app/look/table.h"

// Empty if zeroed.
typedef struct ByOptions {
    const Option *all[OPTION_MAX_COUNT + RUN_INPUTS];
    int count;
    size_t first_column; // of the table; the others follow
} ByOptions;

// Adds an option unless it is there.
void by_options_add(ByOptions *by, const Option *option);
bool by_options_have(const ByOptions *by, const Option *option);

// Reads names with commas between. typed: the option that has them, such as "--by". USAGE for an unknown name, for an
// option that no run has a value of, and for none.
Status by_options_read(ByOptions *by, const char *typed, const char *names, Error *err);

// Adds the inputs in which the runs differ: no group mixes runs of different data, programs or first models.
void by_options_add_inputs(ByOptions *by, const PastRun *runs, size_t count);

// Writes the run's value as the table shows it: of an input the first six digits of its hash. The caller owns text
// (OPTION_VALUE_BYTES).
void by_options_text(char *text, const PastRun *run, const Option *trait);

void by_options_add_columns(ByOptions *by, Table *table);
void by_options_put(Table *table, const ByOptions *by, const PastRun *run);

// Compares the runs' values of the options, numbers as numbers. 0: both are in one group.
int by_options_compare(const PastRun *a, const PastRun *b, const ByOptions *by);

#endif
