// Figures of runs as columns of a table: the figures that say something about these runs, or those that --show names.
//
//   TRY(run_columns_add(&columns, &table, &runs, "test_macro_f1,epsilon", err));
//   table_put_number(&table, columns.all[i].at, run_column_value(&columns.all[i], &run));
#ifndef SOUNDER_APP_LOOK_RUN_COLUMNS_H
#define SOUNDER_APP_LOOK_RUN_COLUMNS_H

#include "app/look/past_run.h"
#include "app/look/table.h"

enum { RUN_COLUMNS_MOST = 192 };

typedef struct RunColumn {
    int fact;                     // number in the table of facts; -1: none of them
    RunFigure figure;             // without a fact and a name
    char name[COLUMN_NAME_BYTES]; // key of the record; of a trainer's metric
    bool is_best;                 // of the figure, or of the metric
    size_t at;                    // column of the table
} RunColumn;

typedef struct RunColumns {
    RunColumn all[RUN_COLUMNS_MOST];
    int count;
} RunColumns;

// Adds the columns to the table. show: keys of `runs --format json`, or of the record's last lines (the summary, the
// last round, the last test of the clients), with commas between; a part of a value follows a point
// ("test_accuracy_by_class.3"). "": those that say something. USAGE for a key that no run has.
Status run_columns_add(RunColumns *columns, Table *table, const PastRuns *runs, const char *show, Error *err);

// Whether the column has this key.
bool run_column_is(const Table *table, const RunColumn *column, const char *key);

// The run's value; NaN if it has none.
double run_column_value(const RunColumn *column, const PastRun *run);

#endif
