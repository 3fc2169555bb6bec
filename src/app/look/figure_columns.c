#include "figure_columns.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static bool is_share(const Figure *figure) {
    return figure->traits & FIGURE_IS_SHARE;
}

// "best_", then the key of a round's line without "test_", then "_percent". Accuracies are called so only by their last
// value: "accuracy_percent", "best_percent".
static void write_key(FigureColumn *column) {
    static const char name[] = "accuracy", test[] = "test_";
    const Figure *row = column->figure.row;
    char key[FIGURE_KEY_BYTES];
    figure_key(key, row, column->figure.validates);
    const bool is_test = strncmp(key, test, sizeof test - 1) == 0 && (is_share(row) || column->is_best);
    const bool is_plain = strcmp(row->key, name) == 0 && (column->is_best || !figure_is_goal(row));
    const char *from = key + (is_test ? sizeof test - 1 : 0);
    size_t length = strlen(from) - (is_plain ? sizeof name - 1 : 0);
    if (is_plain && length > 0) length--; // the '_' in front
    char body[FIGURE_KEY_BYTES];
    snprintf(body, sizeof body, "%.*s", (int)length, from);
    snprintf(column->key, sizeof column->key, "%s%.48s%s%s", column->is_best ? "best_" : "", body,
             is_share(row) && *body ? "_" : "", is_share(row) ? "percent" : "");
}

static void write_title(FigureColumn *column) {
    const Figure *row = column->figure.row;
    const char *best = column->is_best ? "best " : "", *validation = column->figure.validates ? "validation " : "";
    const char *name = (*best || *validation) && row->after ? row->after : row->column;
    snprintf(column->title, sizeof column->title, "%s%s%.40s%s%s", best, validation, name,
             is_share(row) && *name ? " " : "", is_share(row) ? "%" : "");
}

static void add(FigureColumns *list, const Figure *row, bool validates, bool is_best) {
    assert(list->count < FIGURE_COLUMNS_MOST);
    FigureColumn *column = &list->all[list->count++];
    *column = (FigureColumn){.figure = {.row = row, .validates = validates}, .is_best = is_best};
    write_key(column);
    write_title(column);
}

static void add_kind(FigureColumns *list, FigureOf of, bool validates, bool share) {
    for (size_t i = 0; i < figure_count; i++) {
        const Figure *row = &figure_table[i];
        const bool is_goal = figure_is_goal(row);
        if (row->of != of || is_share(row) != share || !row->column || (validates && !is_goal)) continue;
        add(list, row, validates, false);
        if (is_goal) add(list, row, validates, true);
    }
}

void figure_columns_list(FigureColumns *list) {
    static const struct {
        FigureOf of;
        bool validates;
    } kinds[] = {{FIGURE_OF_PERSONAL, false}, {FIGURE_OF_MODEL, false},       {FIGURE_OF_MODEL, true},
                 {FIGURE_OF_CLIENTS, false},  {FIGURE_OF_NEW_CLIENTS, false}, {FIGURE_OF_NEW_TUNED, false},
                 {FIGURE_OF_ATTACK, false}};
    list->count = 0;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        add_kind(list, kinds[i].of, kinds[i].validates, true);
        add_kind(list, kinds[i].of, kinds[i].validates, false);
    }
}

const FigureColumn *figure_columns_find(const FigureColumns *list, const char *key) {
    for (size_t i = 0; i < list->count; i++)
        if (strcmp(list->all[i].key, key) == 0) return &list->all[i];
    return NULL;
}

// Runs are about a figure on the validation set, too.
bool figure_column_is_shown(const FigureColumn *column, const PastRuns *runs) {
    const Figure *row = column->figure.row;
    if (!(row->traits & FIGURE_OF_CLASSES) || column->is_best) return true;
    for (size_t i = 0; i < runs->count; i++)
        if (run_figure_row(&runs->all[i].figure) == row) return true;
    return false;
}

double figure_column_value(const RunFigure *figure, bool is_best, const PastRun *run) {
    const double value = is_best ? past_run_best(run, figure) : run_figure_in(run->values, figure);
    return (is_share(run_figure_row(figure)) ? 100 : 1) * value;
}
