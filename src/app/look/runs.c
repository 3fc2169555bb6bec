// `sounder runs` lists runs, compares them, and averages over all options that --by does not name.
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/command.h"
#include "app/look/against.h"
#include "app/look/by_options.h"
#include "app/look/look_options.h"
#include "app/look/run_clients.h"
#include "app/look/run_columns.h"
#include "app/look/runs.h"
#include "base/spread.h"

// Whether --show names the rounds.
static bool names_rounds(const char *show) {
    char names[OPTION_TEXT_BYTES], *rest;
    snprintf(names, sizeof names, "%s", show);
    for (char *name = strtok_r(names, ", ", &rest); name; name = strtok_r(NULL, ", ", &rest))
        if (strcmp(name, "rounds") == 0) return true;
    return false;
}

// A line a run --------------------------------------------------------------------------------------------------------

Status runs_table_list(Table *table, const PastRuns *runs, const char *show, Error *err) {
    ByOptions shown = {0};
    RunColumns columns;
    const bool figure_tells = !*show || names_rounds(show); // the figure of that name tells of --rounds, too
    for (int i = 0; i < past_run_traits(); i++) {
        const Option *option = past_run_trait(i);
        if (figure_tells && option == option_find("rounds")) continue;
        if (!option->unsaved && past_runs_differ(runs->all, runs->count, option)) by_options_add(&shown, option);
    }
    const size_t path = table_add_column(table, "run", "run", -1),
                 state = table_add_column(table, "state", "state", -1);
    size_t unfinished = 0;
    for (size_t i = 0; i < runs->count; i++)
        unfinished += runs->all[i].state != RUN_FINISHED;
    table_set_room(table, path, ROOM_PATH);
    if (unfinished == 0) table_set_room(table, state, ROOM_SPARE);
    by_options_add_columns(&shown, table);
    TRY(run_columns_add(&columns, table, runs, show, err));
    for (size_t i = 0; i < runs->count; i++) {
        const PastRun *run = &runs->all[i];
        table_add_row(table);
        table_put_text(table, path, run->path);
        table_put_text(table, state, run_state_names[run->state]);
        by_options_put(table, &shown, run);
        for (int c = 0; c < columns.count; c++)
            table_put_number(table, columns.all[c].at, run_column_value(&columns.all[c], run));
    }
    table_drop_empty(table);
    return STATUS_OK;
}

// A line a group ------------------------------------------------------------------------------------------------------

static int compare_runs(const void *a, const void *b, void *by) {
    const int order = by_options_compare(a, b, by);
    return order ? order : strverscmp(((const PastRun *)a)->path, ((const PastRun *)b)->path);
}

// Summarizes the known values.
static Spread spread_of(const PastRun *runs, size_t count, const RunColumn *column) {
    Spread spread = {0};
    for (size_t i = 0; i < count; i++) {
        const double value = run_column_value(column, &runs[i]);
        if (!isnan(value)) spread_add(&spread, value);
    }
    return spread;
}

static void put_group(Table *table, const RunColumns *columns, size_t reached, const PastRun *runs, size_t count) {
    const bool had_target = runs[0].options.target[0] != '\0';
    for (int c = 0; c < columns->count; c++) {
        const RunColumn *column = &columns->all[c];
        const Spread spread = spread_of(runs, count, column);
        if (spread.count > 0) table_put_spread(table, column->at, spread.mean, spread_deviation(&spread));
        if (run_column_is(table, column, "rounds_to_target") && had_target)
            table_put_number(table, reached, (double)spread.count);
    }
}

// Says which options the means are over, and how many runs are left out because they are not finished.
static void print_notes(const PastRuns *runs, size_t finished, size_t copies, const ByOptions *by) {
    const char *separator = "mean ± standard deviation over: ";
    for (int i = 0; i < option_count; i++) {
        if (by_options_have(by, &option_table[i]) || option_table[i].unsaved ||
            !past_runs_differ(runs->all, finished, &option_table[i]))
            continue;
        printf("%s%s", separator, option_table[i].name);
        separator = ", ";
    }
    if (separator[0] == ',') putchar('\n');
    if (!by_options_have(by, option_find("rounds")) && past_runs_differ(runs->all, finished, option_find("rounds")))
        puts("runs of different --rounds, as --search halving leaves them: compare only lines of equal rounds");
    for (int i = 0; i < RUN_INPUTS; i++)
        if (by_options_have(by, &run_inputs[i].trait) && past_runs_differ(runs->all, finished, &run_inputs[i].trait))
            printf("%s: the %s %s not the same in all runs\n", run_inputs[i].trait.name, run_inputs[i].words,
                   run_inputs[i].is_plural ? "are" : "is");
    if (copies > 0)
        printf("left out: %zu run%s another one again\n", copies, copies == 1 ? ", which is" : "s, each of which is");
    if (finished < runs->count)
        printf("left out, for %s not finished: %zu of %zu runs\n", runs->count - finished == 1 ? "it is" : "they are",
               runs->count - finished, runs->count);
    past_runs_say_privacy(stdout, runs->all, finished);
}

static Status fill_means(Table *table, const PastRuns *runs, size_t finished, ByOptions *by, const char *show,
                         Error *err) {
    RunColumns columns;
    char shown[OPTION_TEXT_BYTES + 8];
    by_options_add_columns(by, table);
    const size_t number = table_add_column(table, "n", "runs", 0);
    const bool mixes = *show && !by_options_have(by, option_find("rounds")) && !names_rounds(show) &&
                       past_runs_differ(runs->all, finished, option_find("rounds"));
    snprintf(shown, sizeof shown, "%s%s", mixes ? "rounds," : "", show);
    TRY(run_columns_add(&columns, table, runs, shown, err));
    const size_t reached = table_add_column(table, "reached it", "reached_target", 0);
    for (size_t first = 0, next; first < finished; first = next) {
        for (next = first + 1; next < finished && by_options_compare(&runs->all[first], &runs->all[next], by) == 0;)
            next++;
        table_add_row(table);
        by_options_put(table, by, &runs->all[first]);
        table_put_number(table, number, (double)(next - first));
        put_group(table, &columns, reached, &runs->all[first], next - first);
    }
    table_drop_empty(table);
    return STATUS_OK;
}

Status runs_table_means(Table *table, const PastRuns *runs, const ByOptions *over, Error *err) {
    PastRuns sorted = {.all = malloc((runs->count + 1) * sizeof *sorted.all), .count = runs->count};
    ByOptions by = {0};
    if (!sorted.all) return fail(err, STATUS_OS, "no memory for a table of %zu runs", runs->count);
    memcpy(sorted.all, runs->all, runs->count * sizeof *runs->all);
    const size_t finished = past_runs_finished_first(&sorted);
    for (int i = 0; i < past_run_traits(); i++) {
        const Option *trait = past_run_trait(i);
        if (trait->unsaved || by_options_have(over, trait) || trait == option_find("rounds")) continue;
        if (past_runs_differ(sorted.all, finished, trait)) by_options_add(&by, trait);
    }
    qsort_r(sorted.all, finished, sizeof *sorted.all, compare_runs, &by);
    const Status status = finished > 0 ? fill_means(table, &sorted, finished, &by, "", err) : STATUS_OK;
    free(sorted.all);
    return status;
}

Status runs_print_means(PastRuns *runs, const char *names, const char *show, TableFormat format, Error *err) {
    Table table = {0};
    ByOptions by;
    TRY(by_options_read(&by, "--by", names, err));
    size_t finished = past_runs_finished_first(runs);
    if (finished == 0)
        return fail(err, STATUS_NOINPUT, "none of the %zu runs is finished; sounder runs without --by lists them",
                    runs->count);
    by_options_add_inputs(&by, runs->all, finished);
    const size_t copies = past_runs_drop_copies(runs, &finished);
    qsort_r(runs->all, finished, sizeof *runs->all, compare_runs, &by);
    Status status = fill_means(&table, runs, finished, &by, show, err);
    if (status == STATUS_OK) status = table_print(stdout, &table, format, err);
    table_free(&table);
    if (status == STATUS_OK && format == TABLE_TEXT) print_notes(runs, finished, copies, &by);
    return status;
}

// Means of the clients over runs.
static Status list_client_means(Table *table, PastRuns *runs, const LookOptions *options, ByOptions *by,
                                size_t *finished, size_t *copies, Error *err) {
    *by = (ByOptions){0};
    if (options->by[0]) TRY(by_options_read(by, "--by", options->by, err));
    *finished = past_runs_finished_first(runs);
    if (*finished == 0) return fail(err, STATUS_NOINPUT, "none of the %zu runs is finished", runs->count);
    by_options_add_inputs(by, runs->all, *finished);
    *copies = past_runs_drop_copies(runs, finished);
    qsort_r(runs->all, *finished, sizeof *runs->all, compare_runs, by);
    return run_clients_means(table, runs->all, *finished, by, options->show, err);
}

static Status print_clients(PastRuns *runs, const LookOptions *options, Error *err) {
    Table table = {0};
    ByOptions by;
    size_t finished = 0, copies = 0;
    const bool averages = runs->count > 1 || options->by[0] || options->show[0];
    if (options->against[0])
        return fail(err, STATUS_USAGE,
                    "--clients: lists clients, not runs, and does not go with --against; leave one out");
    Status status = averages ? list_client_means(&table, runs, options, &by, &finished, &copies, err)
                             : run_clients_table(&table, &runs->all[0], err);
    if (status == STATUS_OK) status = table_print(stdout, &table, (TableFormat)options->format, err);
    table_free(&table);
    if (status == STATUS_OK && averages && options->format == TABLE_TEXT) print_notes(runs, finished, copies, &by);
    return status;
}

Status command_runs(int argc, char **argv, int *exit_code, Error *err) {
    (void)exit_code;
    static char *const usual[] = {"runs"};
    LookOptions options;
    PastRuns runs;
    TRY(look_options_parse(&options, command_find("runs"), argc, argv, err));
    const bool given = options.folder_count > 0;
    if (options.over[0] && !options.against[0])
        return fail(err, STATUS_USAGE,
                    "--over: only used with --against; means of --by are over all that --by leaves out");
    TRY(past_runs_find(&runs, given ? options.folders : usual, given ? options.folder_count : 1, err));
    Table table = {0};
    Status status = STATUS_OK;
    if (options.against[0] && !options.clients) {
        const Against asked = {options.against, options.by, options.show, options.over};
        status = against_print(&runs, &asked, (TableFormat)options.format, err);
        if (status == STATUS_OK && options.format == TABLE_TEXT)
            past_runs_say_privacy(stdout, runs.all, past_runs_finished_first(&runs));
    } else if (options.by[0] && !options.clients) {
        status = runs_print_means(&runs, options.by, options.show, (TableFormat)options.format, err);
    } else if (options.clients) {
        status = print_clients(&runs, &options, err);
    } else {
        status = runs_table_list(&table, &runs, options.show, err);
        if (status == STATUS_OK) status = table_print(stdout, &table, (TableFormat)options.format, err);
    }
    table_free(&table);
    past_runs_free(&runs);
    return status;
}
