#include "run_columns.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/look/figure_columns.h"
#include "base/suggest.h"

// Returns the value at a path ("test_metrics.recall", "test_accuracy_by_class.3") in a line; NULL: there is none. The
// name of a metric may have points, too.
static const json_t *value_at(const json_t *line, const char *path) {
    const json_t *value = json_object_get(line, path);
    if (value) return value;
    char part[COLUMN_NAME_BYTES];
    const size_t length = strcspn(path, ".");
    if (!path[length]) {
        const bool is_index = *path && strspn(path, "0123456789") == length;
        return is_index ? json_array_get(line, (size_t)strtoul(path, NULL, 10)) : NULL;
    }
    snprintf(part, sizeof part, "%.*s", (int)length, path);
    return value_at(json_object_get(line, part), path + length + 1);
}

// The value of "f1:died": of the list test_f1_by_class the number of the class with this name, or this number. Accuracy
// is of a class's own samples, its recall.
static const json_t *class_value(const PastRun *run, const char *path) {
    const char *colon = strchr(path, ':');
    char name[COLUMN_NAME_BYTES], key[FIGURE_KEY_BYTES + 16];
    const json_t *names = json_object_get(run->summary, "class_names");
    if (!colon) return NULL;
    snprintf(name, sizeof name, "%.*s", (int)(colon - path), path);
    const Figure *figure = figure_by_name(strcmp(name, "recall") == 0 ? "accuracy" : name);
    if (!figure) return NULL;
    snprintf(key, sizeof key, "test_%s_by_class", figure->key);
    const json_t *list = json_object_get(run->summary, key);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *class = json_string_value(json_array_get(names, i));
        snprintf(name, sizeof name, "%zu", i);
        if (strcmp(class ? class : name, colon + 1) == 0) return json_array_get(list, i);
    }
    return NULL;
}

static const json_t *found_in(const PastRun *run, const char *path) {
    const json_t *value = value_at(run->values, path);
    if (!json_is_number(value)) value = value_at(run->clients, path);
    if (!json_is_number(value)) value = class_value(run, path);
    return json_is_number(value) ? value : NULL;
}

static double number_in(const PastRun *run, const char *path) {
    const json_t *value = found_in(run, path);
    return value ? json_number_value(value) : (double)NAN;
}

// Facts ---------------------------------------------------------------------------------------------------------------

// A value that says nothing: without a simulated world simulated seconds equal rounds, most runs have one node, and in
// most runs no trainer is restarted.
typedef enum Usual { USUALLY_NOTHING, USUALLY_0, USUALLY_1, USUALLY_ROUNDS, USUALLY_ROUNDS_TO_TARGET } Usual;

typedef struct Fact {
    const char *title, *key;
    int decimals;
    double scale;
    double (*of)(const PastRun *run);
    const char *from, *plus; // without `of`: key of the record's last lines; of a second number, which is added
    Usual usual;             // hidden if all runs have this value
    bool steady;
    bool is_spare; // a narrow terminal leaves it out first
} Fact;

// With a validation set the test set is used at the end alone. A final model that is the best one is not tested twice.
static double best_tested(const PastRun *run, const char *key, const char *key_of_final) {
    const bool is_final = json_object_get(run->summary, "best_model_test_loss") == NULL;
    if (!json_object_get(run->summary, "validation_loss")) return NAN;
    return past_run_number(run->summary, is_final ? key_of_final : key);
}

static double best_test_accuracy(const PastRun *run) {
    return best_tested(run, "best_model_test_accuracy", "test_accuracy");
}

static double best_test_loss(const PastRun *run) {
    return best_tested(run, "best_model_test_loss", "test_loss");
}

static double rounds_of(const PastRun *run) {
    return run->rounds;
}

static double nodes_of(const PastRun *run) {
    return past_run_number(run->start, "nodes");
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

static double token_speed_of(const PastRun *run) {
    return run->seconds > 0 ? number_in(run, "tokens_total") / run->seconds : NAN;
}

static double goodput_of(const PastRun *run) {
    return number_in(run, "useful_seconds_total") / number_in(run, "replica_seconds_total");
}

// The columns beside options and figures (figure_columns.h). A fact that no run has gets no column.
static const Fact facts[] = {
    {"rounds", "rounds", 0, 1, .of = rounds_of, .steady = true},
    {"nodes", "nodes", 0, 1, .of = nodes_of, .steady = true, .usual = USUALLY_1, .is_spare = true},
    {"test % of best", "best_model_test_percent", 2, 100, .of = best_test_accuracy},
    {"test loss of best", "best_model_test_loss", 4, 1, .of = best_test_loss},
    {"worst tenth %", "worst_tenth_percent", 2, 100, .from = "accuracy_worst_tenth"},
    {"worst tenth's loss", "worst_tenth_loss", 4, 1, .from = "loss_worst_tenth"},
    {"epsilon", "epsilon", 3, 1, .from = "epsilon"},
    {"local epsilon", "local_epsilon", 3, 1, .from = "local_epsilon"},
    {"sample epsilon", "sample_epsilon", 3, 1, .from = "sample_epsilon"},
    {"rounds to target", "rounds_to_target", 0, 1, .from = "rounds_to_target"},
    {"simulated s to target", "simulated_seconds_to_target", 0, 1, .from = "simulated_seconds_to_target",
     .usual = USUALLY_ROUNDS_TO_TARGET},
    {"MB to target", "megabytes_to_target", 1, 1e-6, .from = "down_bytes_to_target", .plus = "up_bytes_to_target"},
    {"tokens to target", "tokens_to_target", 0, 1, .from = "tokens_to_target"},
    {"J to target", "joules_to_target", 1, 1, .from = "joules_to_target"},
    {"simulated s", "simulated_seconds", 0, 1, .from = "simulated_seconds_total", .usual = USUALLY_ROUNDS},
    {"goodput %", "goodput_percent", 1, 100, .of = goodput_of},
    {"MB sent", "megabytes_sent", 1, 1e-6, .from = "down_bytes_total", .plus = "up_bytes_total", .steady = true,
     .is_spare = true},
    {"tokens", "tokens", 0, 1, .from = "tokens_total", .steady = true, .is_spare = true},
    {"simulated J", "joules", 1, 1, .from = "training_joules_total", .plus = "link_joules_total"},
    {"measured J", "measured_joules", 1, 1, .from = "measured_joules"},
    {"restarts", "trainer_restarts", 0, 1, .of = restarts_of, .usual = USUALLY_0},
    {"seconds", "seconds", 2, 1, .of = seconds_of, .is_spare = true},
    {"samples/s", "samples_per_second", 0, 1, .of = speed_of, .is_spare = true},
    {"tokens/s", "tokens_per_second", 0, 1, .of = token_speed_of, .is_spare = true},
};
enum { FACTS = sizeof facts / sizeof *facts, FIRST_RESULT = 2 };

static int fact_named(const char *key) {
    for (int f = 0; f < FACTS; f++)
        if (strcmp(facts[f].key, key) == 0) return f;
    return -1;
}

static double fact_of(const PastRun *run, int fact) {
    const Fact *of = &facts[fact];
    if (of->of) return of->scale * of->of(run);
    return of->scale * (number_in(run, of->from) + (of->plus ? number_in(run, of->plus) : 0));
}

static void suggest_keys(Suggestion *suggestion, const FigureColumns *list, const PastRuns *runs) {
    for (size_t i = 0; i < runs->count; i++) {
        json_t *value;
        const char *key;
        json_object_foreach(runs->all[i].values, key, value) suggestion_consider(suggestion, key);
        json_object_foreach(runs->all[i].clients, key, value) suggestion_consider(suggestion, key);
    }
    for (int f = 0; f < FACTS; f++)
        suggestion_consider(suggestion, facts[f].key);
    for (size_t i = 0; i < list->count; i++)
        suggestion_consider(suggestion, list->all[i].key);
}

// Columns -------------------------------------------------------------------------------------------------------------

static RunColumn *add(RunColumns *columns, Table *table, const char *title, const char *key, int decimals) {
    RunColumn *column = &columns->all[columns->count < RUN_COLUMNS_MOST ? columns->count++ : 0];
    *column = (RunColumn){.fact = -1, .at = table_add_column(table, title, key, decimals)};
    return column;
}

// Keys are unique: with --by rounds, the rounds are there.
static void add_fact(RunColumns *columns, Table *table, int fact) {
    const Fact *of = &facts[fact];
    for (size_t i = 0; i < table->column_count; i++)
        if (strcmp(table->columns[i].key, of->key) == 0) return;
    RunColumn *column = add(columns, table, of->title, of->key, of->decimals);
    column->fact = fact;
    if (!table->no_memory) table->columns[column->at].steady = of->steady;
    if (of->is_spare) table_set_room(table, column->at, ROOM_SPARE);
}

static void add_figure(RunColumns *columns, Table *table, const FigureColumn *of) {
    const int decimals = run_figure_has(&of->figure, FIGURE_IS_SHARE) ? 2 : 4;
    RunColumn *column = add(columns, table, of->title, of->key, decimals);
    column->figure = of->figure;
    column->is_best = of->is_best;
}

static const char best_metric[] = "best_test_metrics.";

static bool is_about_metric(const PastRun *run, const char *name) {
    return run_figure_is_metric(&run->figure) && strcmp(run->figure.metric, name) == 0;
}

// Keys are those of a round's line, since a metric may have the name of another column or of an option.
static void add_metric(RunColumns *columns, Table *table, const char *name, bool best) {
    char title[COLUMN_NAME_BYTES], key[COLUMN_NAME_BYTES];
    snprintf(title, sizeof title, "%s%s", best ? "best " : "", name);
    snprintf(key, sizeof key, "%s%s", best ? best_metric : best_metric + sizeof "best_" - 1, name);
    RunColumn *column = add(columns, table, title, key, 4);
    column->is_best = best;
    snprintf(column->name, sizeof column->name, "%s", best ? name : key);
}

// Adds the last value and the best one, unless they are there. *left: how many metrics have a place.
static void add_both(RunColumns *columns, Table *table, const char *name, int *left) {
    for (int i = 0; i < columns->count; i++)
        if (columns->all[i].is_best && strcmp(columns->all[i].name, name) == 0) return;
    if (*left == 0) return;
    (*left)--;
    add_metric(columns, table, name, false);
    add_metric(columns, table, name, true);
}

// The metrics of trainers: those that runs are about, and the first of the others by name.
static void add_metrics(RunColumns *columns, Table *table, const PastRuns *runs) {
    const char *name;
    json_t *value;
    int left = METRICS_MOST;
    for (size_t i = 0; i < runs->count; i++)
        if (run_figure_is_metric(&runs->all[i].figure)) add_both(columns, table, runs->all[i].figure.metric, &left);
    for (size_t i = 0; i < runs->count; i++)
        json_object_foreach(json_object_get(runs->all[i].values, "test_metrics"), name, value)
            add_both(columns, table, name, &left);
}

static bool is_shown(const PastRuns *runs, int fact) {
    if (facts[fact].usual == USUALLY_NOTHING) return true;
    for (size_t i = 0; i < runs->count; i++) {
        const PastRun *run = &runs->all[i];
        const double usual[] = {[USUALLY_0] = 0,
                                [USUALLY_1] = 1,
                                [USUALLY_ROUNDS] = run->rounds,
                                [USUALLY_ROUNDS_TO_TARGET] = past_run_number(run->values, "rounds_to_target")};
        const double value = fact_of(run, fact);
        if (!isnan(value) && value != usual[facts[fact].usual]) return true;
    }
    return false;
}

// A key of the record is shown as it is: whole numbers without decimals, others with four.
static Status add_key(RunColumns *columns, Table *table, const FigureColumns *list, const PastRuns *runs,
                      const char *key, Error *err) {
    bool is_there = false, is_whole = true;
    for (size_t i = 0; i < runs->count; i++) {
        const json_t *value = found_in(&runs->all[i], key);
        is_there |= value != NULL;
        if (value) is_whole &= json_is_integer(value);
    }
    Suggestion suggestion = {.typed = key};
    if (!is_there) suggest_keys(&suggestion, list, runs);
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

static bool is_best_metric(const PastRuns *runs, const char *key) {
    const size_t prefix = sizeof best_metric - 1;
    for (size_t i = 0; i < runs->count && strncmp(key, best_metric, prefix) == 0; i++)
        if (is_about_metric(&runs->all[i], key + prefix)) return true;
    return false;
}

// The column with this key, or the last value of the figure of this name, unless the record has a key of that name.
static const FigureColumn *find_figure(const FigureColumns *list, const PastRuns *runs, const char *name) {
    const FigureColumn *column = figure_columns_find(list, name);
    const Figure *figure = column ? NULL : figure_by_name(name);
    for (size_t i = 0; i < runs->count && figure; i++)
        if (found_in(&runs->all[i], name)) return NULL;
    for (size_t i = 0; i < list->count && figure; i++)
        if (list->all[i].figure.row == figure && !list->all[i].is_best && !list->all[i].figure.validates)
            return &list->all[i];
    return column;
}

static Status add_named(RunColumns *columns, Table *table, const FigureColumns *list, const PastRuns *runs,
                        const char *show, Error *err) {
    char names[OPTION_TEXT_BYTES], *rest;
    bool is_named = false;
    snprintf(names, sizeof names, "%s", show);
    for (char *name = strtok_r(names, ", ", &rest); name; name = strtok_r(NULL, ", ", &rest), is_named = true) {
        const int fact = fact_named(name);
        const FigureColumn *figure = find_figure(list, runs, name);
        if (columns->count == RUN_COLUMNS_MOST || strlen(name) >= COLUMN_NAME_BYTES)
            return fail(err, STATUS_USAGE, "--show: at most %d names of up to %d letters", RUN_COLUMNS_MOST,
                        COLUMN_NAME_BYTES - 1);
        for (int i = 0; i < columns->count; i++)
            if (run_column_is(table, &columns->all[i], name))
                return fail(err, STATUS_USAGE, "--show %.64s: named twice", name);
        if (fact >= 0)
            add_fact(columns, table, fact);
        else if (figure)
            add_figure(columns, table, figure);
        else if (is_best_metric(runs, name))
            add_metric(columns, table, name + sizeof best_metric - 1, true);
        else
            TRY(add_key(columns, table, list, runs, name, err));
    }
    return is_named ? STATUS_OK : fail(err, STATUS_USAGE, "--show: needs a name, such as test_macro_f1");
}

Status run_columns_add(RunColumns *columns, Table *table, const PastRuns *runs, const char *show, Error *err) {
    FigureColumns list;
    figure_columns_list(&list);
    columns->count = 0;
    if (*show) return add_named(columns, table, &list, runs, show, err);
    for (int f = 0; f < FACTS; f++) {
        if (f == FIRST_RESULT) add_metrics(columns, table, runs);
        for (size_t i = 0; i < list.count && f == FIRST_RESULT; i++)
            if (figure_column_is_shown(&list.all[i], runs)) add_figure(columns, table, &list.all[i]);
        if (is_shown(runs, f)) add_fact(columns, table, f);
    }
    static_assert(FACTS + 2 * METRICS_MOST + FIGURE_COLUMNS_MOST <= RUN_COLUMNS_MOST, "all columns have a place");
    return STATUS_OK;
}

bool run_column_is(const Table *table, const RunColumn *column, const char *key) {
    return !table->no_memory && strcmp(table->columns[column->at].key, key) == 0;
}

double run_column_value(const RunColumn *column, const PastRun *run) {
    if (column->fact >= 0) return fact_of(run, column->fact);
    if (column->figure.row) return figure_column_value(&column->figure, column->is_best, run);
    if (column->is_best) return is_about_metric(run, column->name) ? run->best : (double)NAN;
    return number_in(run, column->name);
}
