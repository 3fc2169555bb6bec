#include "run_columns.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/suggest.h"

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
    {"new clients %", "new_clients_percent", 2, 100, IN_RUN(new_accuracy)},
    {"new fine-tuned %", "new_clients_finetuned_percent", 2, 100, IN_RUN(new_tuned)},
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
    {"sample epsilon", "sample_epsilon", 3, 1, IN_RUN(sample_epsilon)},
    {"rounds to target", "rounds_to_target", 0, 1, IN_RUN(rounds_to_target)},
    {"simulated s to target", "simulated_seconds_to_target", 0, 1, IN_RUN(seconds_to_target)},
    {"MB to target", "megabytes_to_target", 1, 1e-6, IN_RUN(bytes_to_target)},
    {"J to target", "joules_to_target", 1, 1, IN_RUN(joules_to_target)},
    {"simulated s", "simulated_seconds", 0, 1, IN_RUN(simulated_seconds)},
    {"MB sent", "megabytes_sent", 1, 1e-6, IN_RUN(bytes)},
    {"simulated J", "joules", 1, 1, IN_RUN(joules)},
    {"measured J", "measured_joules", 1, 1, IN_RUN(measured_joules)},
    {"restarts", "trainer_restarts", 0, 1, .of = restarts_of},
    {"seconds", "seconds", 2, 1, .of = seconds_of},
    {"samples/s", "samples_per_second", 0, 1, .of = speed_of},
};
enum { FIGURES = sizeof figures / sizeof *figures, FIRST_RESULT = 2, MOST_METRICS = 6 };

static int figure_named(const char *key) {
    for (int f = 0; f < FIGURES; f++)
        if (strcmp(figures[f].key, key) == 0) return f;
    return -1;
}

static double figure_of(const PastRun *run, int figure) {
    if (figures[figure].of) return figures[figure].of(run);
    double value;
    memcpy(&value, (const uint8_t *)run + figures[figure].at, sizeof value);
    return figures[figure].scale * value;
}

// Keys of the record --------------------------------------------------------------------------------------------------

// The value at a path ("test_metrics.recall", "test_accuracy_by_class.3") in a line; NULL if there is none.
static const json_t *value_at(const json_t *line, const char *path) {
    char part[COLUMN_NAME_BYTES];
    while (line && *path) {
        const int length = (int)strcspn(path, ".");
        snprintf(part, sizeof part, "%.*s", length, path);
        const bool is_index = *part && strspn(part, "0123456789") == strlen(part);
        line = !json_is_array(line) ? json_object_get(line, part)
               : is_index           ? json_array_get(line, (size_t)strtoul(part, NULL, 10))
                                    : NULL;
        path += length + (path[length] == '.');
    }
    return line;
}

// The last lines of a run, in the order in which a key is looked up.
static const json_t *found_in(const PastRun *run, const char *path) {
    const json_t *lines[] = {run->summary, run->round, run->clients};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        const json_t *value = value_at(lines[i], path);
        if (json_is_number(value)) return value;
    }
    return NULL;
}

static void suggest_keys(Suggestion *suggestion, const PastRuns *runs) {
    for (size_t i = 0; i < runs->count; i++) {
        json_t *lines[] = {runs->all[i].summary, runs->all[i].round, runs->all[i].clients}, *value;
        const char *key;
        for (size_t k = 0; k < sizeof lines / sizeof *lines; k++)
            json_object_foreach(lines[k], key, value) suggestion_consider(suggestion, key);
    }
    for (int f = 0; f < FIGURES; f++)
        suggestion_consider(suggestion, figures[f].key);
}

// Columns -------------------------------------------------------------------------------------------------------------

static RunColumn *add(RunColumns *columns, Table *table, const char *title, const char *key, int decimals) {
    RunColumn *column = &columns->all[columns->count < RUN_COLUMNS_MOST ? columns->count++ : 0];
    *column = (RunColumn){.figure = -1, .at = table_add_column(table, title, key, decimals)};
    return column;
}

static void add_figure(RunColumns *columns, Table *table, int figure) {
    const char *key = figures[figure].key;
    RunColumn *column = add(columns, table, figures[figure].title, key, figures[figure].decimals);
    column->figure = figure;
    if (table->no_memory) return;
    table->columns[column->at].steady =
        strcmp(key, "rounds") == 0 || strcmp(key, "nodes") == 0 || strcmp(key, "megabytes_sent") == 0;
}

typedef struct Metrics {
    char names[MOST_METRICS][METRIC_NAME_BYTES];
    int count;
} Metrics;

static void note_metric(Metrics *metrics, const char *name) {
    for (int m = 0; m < metrics->count; m++)
        if (strcmp(metrics->names[m], name) == 0) return;
    if (metrics->count < MOST_METRICS) snprintf(metrics->names[metrics->count++], METRIC_NAME_BYTES, "%s", name);
}

// The metrics of trainers become two columns each, the last value and the best one: those that runs are about, and the
// first of the others by name. Keys are those of a round's line, since a metric may have the name of another column or
// of an option.
static void add_metrics(RunColumns *columns, Table *table, const PastRuns *runs) {
    const char *name, *group = figure_facts[FIGURE_METRIC].key;
    json_t *value;
    Metrics metrics = {.count = 0};
    for (size_t i = 0; i < runs->count; i++)
        if (runs->all[i].figure.kind == FIGURE_METRIC) note_metric(&metrics, runs->all[i].figure.metric);
    for (size_t i = 0; i < runs->count; i++)
        json_object_foreach(runs->all[i].metrics, name, value) note_metric(&metrics, name);
    for (int m = 0; m < 2 * metrics.count; m++) {
        char title[COLUMN_NAME_BYTES], key[COLUMN_NAME_BYTES];
        const bool best = m % 2;
        name = metrics.names[m / 2];
        snprintf(title, sizeof title, "%s%s", best ? "best " : "", name);
        snprintf(key, sizeof key, "%s%s.%s", best ? "best_" : "", group, name);
        RunColumn *column = add(columns, table, title, key, 4);
        column->is_metric = true;
        column->is_best = best;
        snprintf(column->name, sizeof column->name, "%s", name);
    }
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
static bool is_shown(const PastRuns *runs, int figure) {
    const char *key = figures[figure].key;
    const bool to_target = strcmp(key, "simulated_seconds_to_target") == 0,
               simulated = to_target || strcmp(key, "simulated_seconds") == 0, nodes = strcmp(key, "nodes") == 0,
               restarts = strcmp(key, "trainer_restarts") == 0;
    if (figures[figure].about) return is_about(runs, figures[figure].about);
    if (!simulated && !nodes && !restarts) return true;
    for (size_t i = 0; i < runs->count; i++) {
        const double value = figure_of(&runs->all[i], figure);
        const double rounds = to_target ? runs->all[i].rounds_to_target : runs->all[i].rounds;
        const double usual = nodes ? 1 : restarts ? 0 : rounds;
        if (!isnan(value) && value != usual) return true;
    }
    return false;
}

// A key of the record is shown as it is: whole numbers without decimals, others with four.
static Status add_key(RunColumns *columns, Table *table, const PastRuns *runs, const char *key, Error *err) {
    bool is_there = false, is_whole = true;
    for (size_t i = 0; i < runs->count; i++) {
        const json_t *value = found_in(&runs->all[i], key);
        is_there |= value != NULL;
        if (value) is_whole &= json_is_integer(value);
    }
    Suggestion suggestion = {.typed = key};
    if (!is_there) suggest_keys(&suggestion, runs);
    if (!is_there && suggestion.best && strcmp(suggestion.best, key) == 0)
        return fail(
            err, STATUS_USAGE,
            "--show %.64s: is no single number; of a list or a group name one, such as test_accuracy_by_class.3", key);
    if (!is_there)
        return fail(err, STATUS_USAGE, "--show %.64s: the last lines of no run have a number of that name; %s%s%s", key,
                    suggestion.best ? "did you mean " : "`sounder help metrics` lists the names",
                    suggestion.best ? suggestion.best : "", suggestion.best ? "?" : "");
    RunColumn *column = add(columns, table, key, key, is_whole ? 0 : 4);
    snprintf(column->name, sizeof column->name, "%s", key);
    return STATUS_OK;
}

static Status add_named(RunColumns *columns, Table *table, const PastRuns *runs, const char *show, Error *err) {
    char names[OPTION_TEXT_BYTES], *rest;
    snprintf(names, sizeof names, "%s", show);
    for (char *name = strtok_r(names, ", ", &rest); name; name = strtok_r(NULL, ", ", &rest)) {
        const int figure = figure_named(name);
        if (columns->count == RUN_COLUMNS_MOST || strlen(name) >= COLUMN_NAME_BYTES)
            return fail(err, STATUS_USAGE, "--show: at most %d names of up to %d letters", RUN_COLUMNS_MOST,
                        COLUMN_NAME_BYTES - 1);
        for (int i = 0; i < columns->count; i++)
            if (run_column_is(table, &columns->all[i], name))
                return fail(err, STATUS_USAGE, "--show %.64s: named twice", name);
        if (figure >= 0)
            add_figure(columns, table, figure);
        else
            TRY(add_key(columns, table, runs, name, err));
    }
    return columns->count > 0 ? STATUS_OK : fail(err, STATUS_USAGE, "--show: needs a name, such as test_macro_f1");
}

Status run_columns_add(RunColumns *columns, Table *table, const PastRuns *runs, const char *show, Error *err) {
    columns->count = 0;
    if (*show) return add_named(columns, table, runs, show, err);
    for (int f = 0; f < FIGURES; f++) {
        if (f == FIRST_RESULT) add_metrics(columns, table, runs);
        if (is_shown(runs, f)) add_figure(columns, table, f);
    }
    static_assert(FIGURES + 2 * MOST_METRICS <= RUN_COLUMNS_MOST, "all columns have a place");
    return STATUS_OK;
}

bool run_column_is(const Table *table, const RunColumn *column, const char *key) {
    return !table->no_memory && strcmp(table->columns[column->at].key, key) == 0;
}

double run_column_value(const RunColumn *column, const PastRun *run) {
    const bool is_figure = run->figure.kind == FIGURE_METRIC && strcmp(run->figure.metric, column->name) == 0;
    if (column->figure >= 0) return figure_of(run, column->figure);
    if (column->is_metric && column->is_best) return is_figure ? run->best[FIGURE_METRIC] : (double)NAN;
    if (column->is_metric) return past_run_number(run->metrics, column->name);
    const json_t *value = found_in(run, column->name);
    return value ? json_number_value(value) : (double)NAN;
}
