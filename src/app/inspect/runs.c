// `sounder runs` lists runs, compares them, and averages over all options that --by does not name.
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/commands.h"
#include "app/inspect/look_options.h"
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

// Figures -------------------------------------------------------------------------------------------------------------

static double rounds_of(const PastRun *run) {
    return run->rounds;
}

static double nodes_of(const PastRun *run) {
    const json_t *nodes = json_object_get(run->start, "nodes");
    return json_is_integer(nodes) ? json_number_value(nodes) : NAN;
}

static double restarts_of(const PastRun *run) {
    return run->options.trainer[0] ? run->trainer_restarts : (double)NAN;
}

static double seconds_of(const PastRun *run) {
    return run->rounds > 0 ? run->seconds : NAN;
}

static double speed_of(const PastRun *run) {
    return run->seconds > 0 ? run->samples / run->seconds : NAN;
}

// Figures of each run that follow its options in the table; a figure that no run has gets no column. "Best" means best
// by the figure that the run is about.
#define IN_RUN(member)           .at = offsetof(PastRun, member)
#define CLASSES(member, figure_) .at = offsetof(PastRun, member[figure_]), .about = figure_
static const struct {
    const char *title, *key;
    int decimals;
    double scale;
    double (*of)(const PastRun *run);
    size_t at;        // offset in PastRun; used if `of` is NULL
    FigureKind about; // shown if a run is about this figure; 0: always
} figures[] = {
    {"rounds", "rounds", 0, 1, .of = rounds_of},
    {"nodes", "nodes", 0, 1, .of = nodes_of},
    {"personal %", "personal_accuracy_percent", 2, 100, IN_RUN(last[FIGURE_PERSONAL_ACCURACY])},
    {"best personal %", "best_personal_percent", 2, 100, IN_RUN(best[FIGURE_PERSONAL_ACCURACY])},
    {"personal loss", "personal_loss", 4, 1, IN_RUN(last[FIGURE_PERSONAL_LOSS])},
    {"best personal loss", "best_personal_loss", 4, 1, IN_RUN(best[FIGURE_PERSONAL_LOSS])},
    {"accuracy %", "accuracy_percent", 2, 100, IN_RUN(last[FIGURE_ACCURACY])},
    {"best %", "best_percent", 2, 100, IN_RUN(best[FIGURE_ACCURACY])},
    {"test loss", "test_loss", 4, 1, IN_RUN(last[FIGURE_LOSS])},
    {"best loss", "best_loss", 4, 1, IN_RUN(best[FIGURE_LOSS])},
    {"test % of best", "best_model_test_percent", 2, 100, IN_RUN(best_test_accuracy)},
    {"test loss of best", "best_model_test_loss", 4, 1, IN_RUN(best_test_loss)},
    {"validation %", "validation_accuracy_percent", 2, 100, IN_RUN(last[FIGURE_VALIDATION_ACCURACY])},
    {"best validation %", "best_validation_percent", 2, 100, IN_RUN(best[FIGURE_VALIDATION_ACCURACY])},
    {"validation loss", "validation_loss", 4, 1, IN_RUN(last[FIGURE_VALIDATION_LOSS])},
    {"best validation loss", "best_validation_loss", 4, 1, IN_RUN(best[FIGURE_VALIDATION_LOSS])},
    {"balanced %", "balanced_accuracy_percent", 2, 100, CLASSES(last, FIGURE_BALANCED_ACCURACY)},
    {"best balanced %", "best_balanced_accuracy_percent", 2, 100, CLASSES(best, FIGURE_BALANCED_ACCURACY)},
    {"macro F1 %", "macro_f1_percent", 2, 100, CLASSES(last, FIGURE_MACRO_F1)},
    {"best macro F1 %", "best_macro_f1_percent", 2, 100, CLASSES(best, FIGURE_MACRO_F1)},
    {"AUC %", "auc_percent", 2, 100, CLASSES(last, FIGURE_AUC)},
    {"best AUC %", "best_auc_percent", 2, 100, CLASSES(best, FIGURE_AUC)},
    {"best validation balanced %", "best_validation_balanced_percent", 2, 100,
     CLASSES(best, FIGURE_VALIDATION_BALANCED_ACCURACY)},
    {"best validation macro F1 %", "best_validation_macro_f1_percent", 2, 100,
     CLASSES(best, FIGURE_VALIDATION_MACRO_F1)},
    {"best validation AUC %", "best_validation_auc_percent", 2, 100, CLASSES(best, FIGURE_VALIDATION_AUC)},
    {"clients %", "client_accuracy_percent", 2, 100, IN_RUN(last[FIGURE_CLIENT_ACCURACY])},
    {"best clients %", "best_client_percent", 2, 100, IN_RUN(best[FIGURE_CLIENT_ACCURACY])},
    {"client loss", "client_loss", 4, 1, IN_RUN(last[FIGURE_CLIENT_LOSS])},
    {"best client loss", "best_client_loss", 4, 1, IN_RUN(best[FIGURE_CLIENT_LOSS])},
    {"RMSE", "test_rmse", 4, 1, IN_RUN(rmse)},
    {"R2", "test_r2", 4, 1, IN_RUN(r2)},
    {"MAE", "test_mae", 4, 1, IN_RUN(mae)},
    {"worst tenth %", "worst_tenth_percent", 2, 100, IN_RUN(worst_tenth)},
    {"worst tenth's loss", "worst_tenth_loss", 4, 1, IN_RUN(worst_loss)},
    {"attack %", "attack_success_percent", 2, 100, IN_RUN(attack_success)},
    {"epsilon", "epsilon", 3, 1, IN_RUN(epsilon)},
    {"local epsilon", "local_epsilon", 3, 1, IN_RUN(local_epsilon)},
    {"rounds to target", "rounds_to_target", 0, 1, IN_RUN(rounds_to_target)},
    {"simulated s", "simulated_seconds", 0, 1, IN_RUN(simulated_seconds)},
    {"MB sent", "megabytes_sent", 1, 1e-6, IN_RUN(bytes)},
    {"restarts", "trainer_restarts", 0, 1, .of = restarts_of},
    {"seconds", "seconds", 2, 1, .of = seconds_of},
    {"samples/s", "samples_per_second", 0, 1, .of = speed_of},
};
enum { FIGURES = sizeof figures / sizeof *figures, FIRST_RESULT = 2, MOST_METRICS = 6, EACH = 2 };

// The metrics of trainers become two columns each, the last value and the best one: those that runs are about, and the
// first of the others by name. Their numbers follow those of `figures`.
typedef struct Columns {
    size_t of[FIGURES + MOST_METRICS * EACH]; // columns of the table; SIZE_MAX: not shown
    char metrics[MOST_METRICS][METRIC_NAME_BYTES];
    int count; // of the metrics
} Columns;

static void add_metric(Columns *columns, const char *name) {
    for (int m = 0; m < columns->count; m++)
        if (strcmp(columns->metrics[m], name) == 0) return;
    if (columns->count < MOST_METRICS) snprintf(columns->metrics[columns->count++], METRIC_NAME_BYTES, "%s", name);
}

static void find_metrics(Columns *columns, const PastRuns *runs) {
    const char *name;
    json_t *value;
    columns->count = 0;
    for (size_t i = 0; i < runs->count; i++)
        if (runs->all[i].figure.kind == FIGURE_METRIC) add_metric(columns, runs->all[i].figure.metric);
    for (size_t i = 0; i < runs->count; i++)
        json_object_foreach(runs->all[i].metrics, name, value) add_metric(columns, name);
}

// Returns NaN if unknown.
static double metric_of(const PastRun *run, const char *name, bool best) {
    const bool is_figure = run->figure.kind == FIGURE_METRIC && strcmp(run->figure.metric, name) == 0;
    if (best) return is_figure ? run->best[FIGURE_METRIC] : (double)NAN;
    return past_run_number(run->metrics, name);
}

static double figure_of(const PastRun *run, const Columns *columns, int figure) {
    const int metric = (figure - FIGURES) / EACH;
    if (figure >= FIGURES) return metric_of(run, columns->metrics[metric], (figure - FIGURES) % EACH > 0);
    if (figures[figure].of) return figures[figure].of(run);
    double value;
    memcpy(&value, (const uint8_t *)run + figures[figure].at, sizeof value);
    return figures[figure].scale * value;
}

static bool is_figure(int figure, const char *key) {
    return figure < FIGURES && strcmp(figures[figure].key, key) == 0;
}

// Runs are about a figure on the validation set, too.
static bool is_about(const PastRuns *runs, FigureKind kind) {
    for (size_t i = 0; i < runs->count; i++) {
        const FigureKind of = runs->all[i].figure.kind;
        if (of == kind || (figure_facts[of].is_validation && figure_facts[of].on_test == kind)) return true;
    }
    return false;
}

// Figures of single classes are in every record, and shown where runs are about them. Hides columns that say nothing:
// without a simulated world simulated seconds equal rounds, most runs have one node, and in most runs no trainer is
// restarted.
static bool is_shown(const PastRuns *runs, const Columns *columns, int figure) {
    const bool simulated = is_figure(figure, "simulated_seconds"), nodes = is_figure(figure, "nodes"),
               restarts = is_figure(figure, "trainer_restarts");
    if (figure < FIGURES && figures[figure].about) return is_about(runs, figures[figure].about);
    if (!simulated && !nodes && !restarts) return true;
    for (size_t i = 0; i < runs->count; i++) {
        const double value = figure_of(&runs->all[i], columns, figure);
        const double usual = nodes ? 1 : restarts ? 0 : runs->all[i].rounds;
        if (!isnan(value) && value != usual) return true;
    }
    return false;
}

// Keys are those of a round's line, since a metric may have the name of another column or of an option.
static void add_metrics(Table *table, Columns *columns) {
    for (int m = 0; m < columns->count; m++) {
        char title[COLUMN_NAME_BYTES], key[COLUMN_NAME_BYTES];
        const char *name = columns->metrics[m], *group = figure_facts[FIGURE_METRIC].key;
        size_t *of = &columns->of[FIGURES + m * EACH];
        snprintf(key, sizeof key, "%s.%s", group, name);
        of[0] = table_add_column(table, name, key, 4);
        snprintf(title, sizeof title, "best %s", name);
        snprintf(key, sizeof key, "best_%s.%s", group, name);
        of[1] = table_add_column(table, title, key, 4);
    }
}

static void add_figures(Table *table, Columns *columns, const PastRuns *runs) {
    find_metrics(columns, runs);
    for (int f = 0; f < FIGURES; f++) {
        if (f == FIRST_RESULT) add_metrics(table, columns);
        columns->of[f] = SIZE_MAX;
        if (!is_shown(runs, columns, f)) continue;
        columns->of[f] = table_add_column(table, figures[f].title, figures[f].key, figures[f].decimals);
        if (!table->no_memory)
            table->columns[columns->of[f]].steady =
                is_figure(f, "rounds") || is_figure(f, "nodes") || is_figure(f, "megabytes_sent");
    }
}

static int figure_count(const Columns *columns) {
    return FIGURES + columns->count * EACH;
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

void runs_table_list(Table *table, const PastRuns *runs) {
    Shown shown = {.count = 0};
    Columns columns;
    for (int i = 0; i < option_count; i++)
        if (!option_table[i].unsaved && past_runs_differ(runs->all, runs->count, &option_table[i]))
            show_option(&shown, &option_table[i]);
    const size_t path = table_add_column(table, "run", "run", -1),
                 state = table_add_column(table, "state", "state", -1);
    add_options(table, &shown);
    add_figures(table, &columns, runs);
    for (size_t i = 0; i < runs->count; i++) {
        const PastRun *run = &runs->all[i];
        table_add_row(table);
        table_put_text(table, path, run->path);
        table_put_text(table, state, run_state_names[run->state]);
        put_options(table, &shown, run);
        for (int f = 0; f < figure_count(&columns); f++)
            if (columns.of[f] != SIZE_MAX) table_put_number(table, columns.of[f], figure_of(run, &columns, f));
    }
    table_drop_empty(table);
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
static int spread_of(double *mean, double *deviation, const PastRun *runs, size_t count, const Columns *columns,
                     int figure) {
    double sum = 0, squares = 0, least = INFINITY, most = -INFINITY;
    int known = 0;
    for (size_t i = 0; i < count; i++) {
        const double value = figure_of(&runs[i], columns, figure);
        if (isnan(value)) continue;
        sum += value;
        known++;
        least = fmin(least, value);
        most = fmax(most, value);
    }
    *mean = known > 0 ? least < most ? sum / known : least : NAN;
    for (size_t i = 0; i < count; i++) {
        const double value = figure_of(&runs[i], columns, figure);
        if (!isnan(value)) squares += (value - *mean) * (value - *mean);
    }
    *deviation = known > 1 ? sqrt(squares / (known - 1)) : NAN;
    return known;
}

static void put_group(Table *table, const Columns *columns, size_t reached, const PastRun *runs, size_t count) {
    for (int f = 0; f < figure_count(columns); f++) {
        double mean, deviation;
        if (columns->of[f] == SIZE_MAX) continue;
        const int known = spread_of(&mean, &deviation, runs, count, columns, f);
        table_put_spread(table, columns->of[f], mean, deviation);
        const bool had_target = runs[0].options.target[0] != '\0';
        if (is_figure(f, "rounds_to_target") && had_target) table_put_number(table, reached, known);
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

Status runs_print_means(PastRuns *runs, const char *names, TableFormat format, Error *err) {
    Table table = {0};
    Shown by;
    Columns columns;
    size_t finished = 0;
    TRY(read_by(&by, names, err));
    qsort(runs->all, runs->count, sizeof *runs->all, unfinished_last);
    while (finished < runs->count && runs->all[finished].state == RUN_FINISHED)
        finished++;
    if (finished == 0)
        return fail(err, STATUS_NOINPUT, "none of the %zu runs is finished; sounder runs without --by lists them",
                    runs->count);
    qsort_r(runs->all, finished, sizeof *runs->all, compare_runs, &by);
    add_options(&table, &by);
    const size_t number = table_add_column(&table, "n", "runs", 0);
    add_figures(&table, &columns, runs);
    const size_t reached = table_add_column(&table, "reached it", "reached_target", 0);
    for (size_t first = 0, next; first < finished; first = next) {
        for (next = first + 1; next < finished && compare_groups(&runs->all[first], &runs->all[next], &by) == 0;)
            next++;
        table_add_row(&table);
        put_options(&table, &by, &runs->all[first]);
        table_put_number(&table, number, (double)(next - first));
        put_group(&table, &columns, reached, &runs->all[first], next - first);
    }
    table_drop_empty(&table);
    Status status = table_print(stdout, &table, format, err);
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
        status = runs_print_means(&runs, options.by, (TableFormat)options.format, err);
    } else {
        runs_table_list(&table, &runs);
        status = table_print(stdout, &table, (TableFormat)options.format, err);
    }
    table_free(&table);
    past_runs_free(&runs);
    return status;
}
