// `sounder runs` lists runs, compares them, and averages over all options that --by does not name.
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/commands.h"
#include "app/inspect/look_options.h"
#include "app/inspect/run_columns.h"
#include "app/inspect/runs.h"

// Options as columns --------------------------------------------------------------------------------------------------

typedef struct Shown {
    const Option *options[OPTION_MAX_COUNT];
    size_t columns[OPTION_MAX_COUNT]; // columns of the table
    int count;
} Shown;

static void show_option(Shown *shown, const Option *option) {
    for (int i = 0; i < shown->count; i++)
        if (shown->options[i] == option) return;
    shown->options[shown->count++] = option;
}

static void add_options(Table *table, Shown *shown) {
    for (int i = 0; i < shown->count; i++)
        shown->columns[i] = table_add_column(table, shown->options[i]->name, shown->options[i]->name, -1);
}

static void put_options(Table *table, const Shown *shown, const PastRun *run) {
    for (int i = 0; i < shown->count; i++) {
        char text[OPTION_VALUE_BYTES];
        past_run_option(text, run, shown->options[i]);
        if (*text) table_put_text(table, shown->columns[i], text);
    }
}

// A line a run --------------------------------------------------------------------------------------------------------

Status runs_table_list(Table *table, const PastRuns *runs, const char *show, Error *err) {
    Shown shown = {.count = 0};
    RunColumns columns;
    for (int i = 0; i < option_count; i++)
        if (!option_table[i].unsaved && past_runs_differ(runs->all, runs->count, &option_table[i]))
            show_option(&shown, &option_table[i]);
    const size_t path = table_add_column(table, "run", "run", -1),
                 state = table_add_column(table, "state", "state", -1);
    add_options(table, &shown);
    TRY(run_columns_add(&columns, table, runs, show, err));
    for (size_t i = 0; i < runs->count; i++) {
        const PastRun *run = &runs->all[i];
        table_add_row(table);
        table_put_text(table, path, run->path);
        table_put_text(table, state, run_state_names[run->state]);
        put_options(table, &shown, run);
        for (int c = 0; c < columns.count; c++)
            table_put_number(table, columns.all[c].at, run_column_value(&columns.all[c], run));
    }
    table_drop_empty(table);
    return STATUS_OK;
}

// A line a group ------------------------------------------------------------------------------------------------------

static Status read_by(Shown *shown, const char *by, Error *err) {
    char names[OPTION_TEXT_BYTES], *rest;
    *shown = (Shown){.count = 0};
    snprintf(names, sizeof names, "%s", by);
    for (char *name = strtok_r(names, ", ", &rest); name; name = strtok_r(NULL, ", ", &rest)) {
        const Option *option = option_find(name);
        if (!option) return option_unknown(name, "--by ", err);
        if (option->unsaved || option->not_train)
            return fail(err, STATUS_USAGE,
                        "--by %s: is about one process, no run has a value of it; give one that stands "
                        "in config.yaml, such as alpha",
                        option->name);
        show_option(shown, option);
    }
    if (shown->count > 0) return STATUS_OK;
    return fail(err, STATUS_USAGE, "--by: needs the name of an option, such as alpha");
}

// Compares the runs' values of the options, numbers as numbers. 0: both are in one group.
static int compare_groups(const PastRun *a, const PastRun *b, const Shown *shown) {
    for (int i = 0; i < shown->count; i++) {
        char left[OPTION_VALUE_BYTES], right[OPTION_VALUE_BYTES], *left_end, *right_end;
        past_run_option(left, a, shown->options[i]);
        past_run_option(right, b, shown->options[i]);
        if (strcmp(left, right) == 0) continue;
        const double x = strtod(left, &left_end), y = strtod(right, &right_end);
        const bool numbers = *left && *right && !*left_end && !*right_end;
        if (numbers && x != y) return x < y ? -1 : 1;
        return strcmp(left, right);
    }
    return 0;
}

static int compare_runs(const void *a, const void *b, void *shown) {
    const int order = compare_groups(a, b, shown);
    return order ? order : strverscmp(((const PastRun *)a)->path, ((const PastRun *)b)->path);
}

// Computes mean and sample standard deviation (n - 1) of the known values and returns how many are known. NaN: unknown.
// Equal values give exactly that mean and deviation 0, which rounding would turn into 1e-14.
static int spread_of(double *mean, double *deviation, const PastRun *runs, size_t count, const RunColumn *column) {
    double sum = 0, squares = 0, least = INFINITY, most = -INFINITY;
    int known = 0;
    for (size_t i = 0; i < count; i++) {
        const double value = run_column_value(column, &runs[i]);
        if (isnan(value)) continue;
        sum += value;
        known++;
        least = fmin(least, value);
        most = fmax(most, value);
    }
    *mean = known > 0 ? least < most ? sum / known : least : NAN;
    for (size_t i = 0; i < count; i++) {
        const double value = run_column_value(column, &runs[i]);
        if (!isnan(value)) squares += (value - *mean) * (value - *mean);
    }
    *deviation = known > 1 ? sqrt(squares / (known - 1)) : NAN;
    return known;
}

static void put_group(Table *table, const RunColumns *columns, size_t reached, const PastRun *runs, size_t count) {
    const bool had_target = runs[0].options.target[0] != '\0';
    for (int c = 0; c < columns->count; c++) {
        const RunColumn *column = &columns->all[c];
        double mean, deviation;
        const int known = spread_of(&mean, &deviation, runs, count, column);
        table_put_spread(table, column->at, mean, deviation);
        if (run_column_is(table, column, "rounds_to_target") && had_target) table_put_number(table, reached, known);
    }
}

// Says which options the means are over, and how many runs are left out because they are not finished.
static void print_notes(const PastRuns *runs, size_t finished, const Shown *by) {
    const char *separator = "mean ± standard deviation over: ";
    for (int i = 0; i < option_count; i++) {
        bool named = false;
        for (int k = 0; k < by->count; k++)
            named |= by->options[k] == &option_table[i];
        if (named || option_table[i].unsaved || !past_runs_differ(runs->all, finished, &option_table[i])) continue;
        printf("%s%s", separator, option_table[i].name);
        separator = ", ";
    }
    if (separator[0] == ',') putchar('\n');
    if (finished < runs->count)
        printf("left out, for %s not finished: %zu of %zu runs\n", runs->count - finished == 1 ? "it is" : "they are",
               runs->count - finished, runs->count);
}

static int unfinished_last(const void *a, const void *b) {
    const PastRun *left = a, *right = b;
    const int order = (right->state == RUN_FINISHED) - (left->state == RUN_FINISHED);
    return order ? order : strverscmp(left->path, right->path);
}

static Status fill_means(Table *table, const PastRuns *runs, size_t finished, Shown *by, const char *show, Error *err) {
    RunColumns columns;
    add_options(table, by);
    const size_t number = table_add_column(table, "n", "runs", 0);
    TRY(run_columns_add(&columns, table, runs, show, err));
    const size_t reached = table_add_column(table, "reached it", "reached_target", 0);
    for (size_t first = 0, next; first < finished; first = next) {
        for (next = first + 1; next < finished && compare_groups(&runs->all[first], &runs->all[next], by) == 0;)
            next++;
        table_add_row(table);
        put_options(table, by, &runs->all[first]);
        table_put_number(table, number, (double)(next - first));
        put_group(table, &columns, reached, &runs->all[first], next - first);
    }
    table_drop_empty(table);
    return STATUS_OK;
}

Status runs_print_means(PastRuns *runs, const char *names, const char *show, TableFormat format, Error *err) {
    Table table = {0};
    Shown by;
    size_t finished = 0;
    TRY(read_by(&by, names, err));
    qsort(runs->all, runs->count, sizeof *runs->all, unfinished_last);
    while (finished < runs->count && runs->all[finished].state == RUN_FINISHED)
        finished++;
    if (finished == 0)
        return fail(err, STATUS_NOINPUT, "none of the %zu runs is finished; sounder runs without --by lists them",
                    runs->count);
    qsort_r(runs->all, finished, sizeof *runs->all, compare_runs, &by);
    Status status = fill_means(&table, runs, finished, &by, show, err);
    if (status == STATUS_OK) status = table_print(stdout, &table, format, err);
    table_free(&table);
    if (status == STATUS_OK && format == TABLE_TEXT) print_notes(runs, finished, &by);
    return status;
}

Status command_runs(int argc, char **argv, int *exit_code, Error *err) {
    (void)exit_code;
    static char *const usual[] = {"runs"};
    LookOptions options;
    PastRuns runs;
    TRY(look_options_parse(&options, command_find("runs"), argc, argv, err));
    const bool given = options.folder_count > 0;
    TRY(past_runs_find(&runs, given ? options.folders : usual, given ? options.folder_count : 1, err));
    Table table = {0};
    Status status = STATUS_OK;
    if (options.by[0]) {
        status = runs_print_means(&runs, options.by, options.show, (TableFormat)options.format, err);
    } else {
        status = runs_table_list(&table, &runs, options.show, err);
        if (status == STATUS_OK) status = table_print(stdout, &table, (TableFormat)options.format, err);
    }
    table_free(&table);
    past_runs_free(&runs);
    return status;
}
