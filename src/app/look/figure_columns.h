// The columns that figures have in tables of runs: the last value, and of a figure that runs may be about
// the best value; on the test set and on the validation set.
//
//   FigureColumns list;
//   figure_columns_list(&list);
//   for (size_t i = 0; i < list.count; i++) ... list.all[i].title, list.all[i].key
#ifndef SOUNDER_APP_LOOK_FIGURE_COLUMNS_H
#define SOUNDER_APP_LOOK_FIGURE_COLUMNS_H

#include "app/look/past_run.h"
#include "app/look/table.h"

enum { FIGURE_COLUMNS_MOST = 96 };

typedef struct FigureColumn {
    RunFigure figure;
    bool is_best;
    char title[COLUMN_NAME_BYTES], key[COLUMN_NAME_BYTES]; // "best validation %", "best_validation_percent"
} FigureColumn;

typedef struct FigureColumns {
    FigureColumn all[FIGURE_COLUMNS_MOST];
    size_t count;
} FigureColumns;

// Lists them in the order of the table: shares before other figures of a kind.
void figure_columns_list(FigureColumns *list);

// The column with this key; NULL if there is none.
const FigureColumn *figure_columns_find(const FigureColumns *list, const char *key);

// Whether a table shows it without being asked: figures of single classes are in every record, and shown where runs are
// about them.
bool figure_column_is_shown(const FigureColumn *column, const PastRuns *runs);

// The value of a run, shares in percent; NaN if it has none. "Best" means best by the figure that the run is about.
double figure_column_value(const RunFigure *figure, bool is_best, const PastRun *run);

#endif
