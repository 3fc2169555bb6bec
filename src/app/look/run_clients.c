#include "app/look/run_clients.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/look/client_records.h"
#include "base/spread.h"
#include "base/text.h"
#include "io/metrics.h"

ClientColumn client_column_add(Table *table, const PastRun *run) {
    const bool has_names = past_run_names_clients(run);
    ClientColumn column = {.has_names = has_names};
    column.name = table_add_column(table, "client", "client", has_names ? -1 : 0);
    if (has_names) column.number = table_add_column(table, "number", "client_number", 0);
    if (has_names) table_set_room(table, column.number, ROOM_SPARE);
    return column;
}

void client_column_put(Table *table, const ClientColumn *column, const PastRun *run, size_t client) {
    char number[PAST_CLIENT_BYTES];
    if (column->has_names) table_put_text(table, column->name, past_run_client(number, run, client));
    table_put_number(table, column->has_names ? column->number : column->name, (double)client);
}

// Figures of a client -------------------------------------------------------------------------------------------------

// A number of the lines "client_evaluation": a figure of the net's answers, or a metric of a trainer.
typedef struct ClientFigure {
    char key[COLUMN_NAME_BYTES], title[COLUMN_NAME_BYTES];
    bool is_share, is_metric;
} ClientFigure;

enum { CLIENT_FIGURES = 48 };

typedef struct ClientFigures {
    ClientFigure all[CLIENT_FIGURES];
    size_t count;
} ClientFigures;

static ClientFigure *add_figure(ClientFigures *figures, const char *key, const char *title) {
    if (figures->count == CLIENT_FIGURES || strlen(key) + sizeof "_percent" > COLUMN_NAME_BYTES / 2) return NULL;
    ClientFigure *figure = &figures->all[figures->count++];
    *figure = (ClientFigure){0};
    snprintf(figure->key, sizeof figure->key, "%s", key);
    snprintf(figure->title, sizeof figure->title, "%s", title);
    return figure;
}

static bool has_figure(const ClientFigures *figures, const char *key) {
    for (size_t i = 0; i < figures->count; i++)
        if (strcmp(figures->all[i].key, key) == 0) return true;
    return false;
}

static void add_metrics(ClientFigures *figures, const ClientRecords *clients) {
    const char *name;
    json_t *value;
    for (size_t i = 0; i < clients->count; i++)
        for (int m = 0; m < clients->model_count; m++)
            json_object_foreach(json_object_get(clients->all[i].tests[m].line, "metrics"), name, value) {
                if (has_figure(figures, name) || !json_is_number(value)) continue;
                ClientFigure *figure = add_figure(figures, name, name);
                if (figure) figure->is_metric = true;
            }
}

// Accuracy and loss, the other figures of the table of figures, and the metrics of a trainer.
static void list_figures(ClientFigures *figures, const ClientRecords *clients) {
    *figures = (ClientFigures){.count = 0};
    add_figure(figures, "accuracy", "accuracy")->is_share = true;
    add_figure(figures, "loss", "loss");
    for (size_t i = 0; i < figure_count; i++) {
        const Figure *of = &figure_table[i];
        if (of->of != FIGURE_OF_MODEL || !of->of_answers) continue;
        add_figure(figures, of->key, of->column)->is_share = of->traits & FIGURE_IS_SHARE;
    }
    add_metrics(figures, clients);
}

static double value_of(const json_t *line, const ClientFigure *figure) {
    const json_t *from = figure->is_metric ? json_object_get(line, "metrics") : line;
    return (figure->is_share ? 100 : 1) * past_run_number(from, figure->key);
}

static size_t add_column(Table *table, const ClientFigure *figure, const char *model) {
    char title[2 * COLUMN_NAME_BYTES], key[2 * COLUMN_NAME_BYTES];
    snprintf(title, sizeof title, "%s%s%s%s", model, *model ? " " : "", figure->title, figure->is_share ? " %" : "");
    snprintf(key, sizeof key, "%s%s%s%s", model, *model ? "_" : "", figure->key, figure->is_share ? "_percent" : "");
    return table_add_column(table, title, key, figure->is_share ? 2 : 4);
}

// One run -------------------------------------------------------------------------------------------------------------

static Status note_line(void *context, json_t *line, Error *err) {
    return client_records_note(context, line) ? STATUS_OK : fail(err, STATUS_OS, "no memory for a table of clients");
}

// The caller frees the records, also on failure.
static Status read_clients(ClientRecords *clients, const PastRun *run, Error *err) {
    static const char *const types[] = {"client", "client_evaluation", NULL};
    *clients = (ClientRecords){.count = 0};
    TRY(metrics_visit_run(run->path, types, note_line, clients, err));
    if (clients->model_count > 0) return STATUS_OK;
    return fail(err, STATUS_USAGE,
                "--clients: no client of %.200s was tested; train with --eval-clients-every 10, or so", run->path);
}

static void fill_one(Table *table, const ClientRecords *clients, const PastRun *run) {
    ClientFigures figures;
    size_t columns[CLIENT_MODELS][CLIENT_FIGURES];
    const ClientColumn client = client_column_add(table, run);
    const size_t trained = table_add_column(table, "rounds", "rounds_trained", 0),
                 samples = table_add_column(table, "samples", "training_samples", 0),
                 tested = table_add_column(table, "tests", "test_samples", 0);
    list_figures(&figures, clients);
    for (int m = 0; m < clients->model_count; m++)
        for (size_t f = 0; f < figures.count; f++)
            columns[m][f] = add_column(table, &figures.all[f], clients->models[m]);
    for (size_t i = 0; i < clients->count; i++) {
        const ClientRecord *of = &clients->all[i];
        if (of->trained == 0 && of->tested == 0) continue;
        table_add_row(table);
        client_column_put(table, &client, run, i);
        table_put_number(table, trained, of->trained);
        if (of->trained > 0) table_put_number(table, samples, of->samples);
        if (of->tested > 0) table_put_number(table, tested, of->tested);
        for (int m = 0; m < clients->model_count; m++)
            for (size_t f = 0; f < figures.count && client_records_tested(clients, i, m); f++)
                table_put_number(table, columns[m][f], value_of(of->tests[m].line, &figures.all[f]));
    }
    table_drop_empty(table);
}

Status run_clients_table(Table *table, const PastRun *run, Error *err) {
    ClientRecords clients;
    const Status status = read_clients(&clients, run, err);
    if (status == STATUS_OK) fill_one(table, &clients, run);
    client_records_free(&clients);
    return status;
}

// Several runs --------------------------------------------------------------------------------------------------------

// The line of a client's last test: of its own model, or else of the first one.
static const json_t *line_of(const ClientRecords *clients, size_t client) {
    const json_t *line = NULL;
    for (int m = 0; m < clients->model_count && client < clients->count; m++)
        if (client_records_tested(clients, client, m) && (!line || strcmp(clients->models[m], "personal") == 0))
            line = clients->all[client].tests[m].line;
    return line;
}

// The clients of all runs, which the caller frees with free_all, also on failure.
static Status read_all(ClientRecords **all, const PastRun *runs, size_t count, Error *err) {
    *all = calloc(count, sizeof **all);
    if (!*all) return fail(err, STATUS_OS, "no memory for the clients of %zu runs", count);
    for (size_t i = 0; i < count; i++)
        TRY(read_clients(&(*all)[i], &runs[i], err));
    return STATUS_OK;
}

static void free_all(ClientRecords *all, size_t count) {
    for (size_t i = 0; i < count && all; i++)
        client_records_free(&all[i]);
    free(all);
}

// Keeps the figures that --show names.
static Status choose_figures(ClientFigures *figures, const char *show, Error *err) {
    char names[OPTION_TEXT_BYTES], has[512] = "", *rest;
    ClientFigures chosen = {.count = 0};
    snprintf(names, sizeof names, "%s", show);
    for (size_t i = 0; i < figures->count; i++)
        text_list(has, sizeof has, figures->all[i].key, strlen(figures->all[i].key));
    for (char *name = strtok_r(names, ", ", &rest); name; name = strtok_r(NULL, ", ", &rest)) {
        const Figure *known = figure_by_name(strncmp(name, "test_", 5) == 0 ? name + 5 : name);
        const ClientFigure *found = NULL;
        for (size_t i = 0; i < figures->count; i++)
            if (strcmp(figures->all[i].key, name) == 0 || (known && strcmp(figures->all[i].key, known->key) == 0))
                found = &figures->all[i];
        if (!found)
            return fail(err, STATUS_USAGE, "--show %.64s: no figure of a client's test; with --clients there are %s",
                        name, has);
        if (chosen.count < CLIENT_FIGURES) chosen.all[chosen.count++] = *found;
    }
    if (chosen.count > 0) *figures = chosen;
    return STATUS_OK;
}

// Puts one client of the runs side by side, whose options are equal.
static void put_client(Table *table, const ClientFigures *figures, size_t first, const ClientRecords *all, size_t count,
                       size_t client) {
    for (size_t f = 0; f < figures->count; f++) {
        Spread spread = {0};
        for (size_t i = 0; i < count; i++) {
            const json_t *line = line_of(&all[i], client);
            const double value = line ? value_of(line, &figures->all[f]) : (double)NAN;
            if (!isnan(value)) spread_add(&spread, value);
        }
        if (spread.count > 0) table_put_spread(table, first + f, spread.mean, spread_deviation(&spread));
    }
}

static size_t most_clients(const ClientRecords *all, size_t count) {
    size_t most = 0;
    for (size_t i = 0; i < count; i++)
        if (all[i].count > most) most = all[i].count;
    return most;
}

// The runs are ordered by the options.
static void fill_means(Table *table, const PastRun *runs, const ClientRecords *all, size_t count, ByOptions *by,
                       const ClientFigures *figures) {
    const ClientColumn column = client_column_add(table, runs);
    by_options_add_columns(by, table);
    const size_t number = table_add_column(table, "n", "runs", 0), first_figure = table->column_count;
    for (size_t f = 0; f < figures->count; f++)
        add_column(table, &figures->all[f], "");
    const size_t clients = most_clients(all, count);
    for (size_t client = 0; client < clients; client++)
        for (size_t first = 0, next; first < count; first = next) {
            size_t tested = 0;
            for (next = first; next < count && by_options_compare(&runs[first], &runs[next], by) == 0; next++)
                tested += line_of(&all[next], client) != NULL;
            if (tested == 0) continue;
            table_add_row(table);
            client_column_put(table, &column, &runs[first], client);
            by_options_put(table, by, &runs[first]);
            table_put_number(table, number, (double)tested);
            put_client(table, figures, first_figure, all + first, next - first, client);
        }
    table_drop_empty(table);
}

Status run_clients_means(Table *table, const PastRun *runs, size_t count, ByOptions *by, const char *show, Error *err) {
    ClientRecords *all;
    ClientFigures figures;
    Status status = read_all(&all, runs, count, err);
    if (status == STATUS_OK) {
        list_figures(&figures, &all[0]);
        status = choose_figures(&figures, show, err);
    }
    if (status == STATUS_OK) fill_means(table, runs, all, count, by, &figures);
    free_all(all, count);
    return status;
}
