#include "run_details.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "app/look/client_records.h"
#include "app/look/dots.h"
#include "app/look/run_programs.h"
#include "app/options/run_target.h"
#include "io/metrics.h"

enum { MOST_CLIENTS = 2000 };

typedef struct Reading {
    RunRounds rounds;
    ClientRecords clients;
    json_t *tests[CLIENT_MODELS]; // owned: the line about all clients after the last lines of clients about a model
    RunPrograms programs;
    const PastRun *run;        // borrowed
    const RoundChoice *choice; // borrowed
} Reading;

// The test of a round that is about personal models may have this line alone, without lines of the clients.
static void note_client_tests(Reading *reading, json_t *line) {
    const int model = client_records_model(&reading->clients, line);
    if (model == CLIENT_MODELS || reading->clients.last[model] != json_integer_value(json_object_get(line, "round")))
        return;
    json_decref(reading->tests[model]);
    reading->tests[model] = json_incref(line);
}

static Status note_line(void *context, json_t *line, Error *err) {
    Reading *reading = context;
    if (metrics_is(line, "clients_evaluation")) note_client_tests(reading, line);
    const bool noted = programs_note(&reading->programs, reading->run, line) &&
                       run_rounds_note(&reading->rounds, line) && client_records_note(&reading->clients, line);
    return noted ? STATUS_OK : fail(err, STATUS_OS, "no memory for the report");
}

static void reading_free(Reading *reading) {
    for (int model = 0; model < CLIENT_MODELS; model++)
        json_decref(reading->tests[model]);
    run_rounds_free(&reading->rounds);
    programs_free(&reading->programs);
    client_records_free(&reading->clients);
}

// As JSON -------------------------------------------------------------------------------------------------------------

static bool has_trained(const ClientRecord *of) {
    return of->trained > 0 && !isnan(of->loss);
}

// If there are many clients, every N-th is written.
static void put_clients(JsonObject *details, const ClientRecords *records) {
    static const char *const keys[] = {"client", "samples", "loss", "times"};
    JsonObject clients, columns[4];
    size_t count = 0, at = 0;
    for (size_t i = 0; i < records->count; i++)
        count += has_trained(&records->all[i]);
    for (int c = 0; c < 4; c++)
        json_begin_array(&columns[c]);
    for (size_t i = 0; i < records->count; i++) {
        const ClientRecord *of = &records->all[i];
        if (!has_trained(of) || at++ % (count / (MOST_CLIENTS + 1) + 1) != 0) continue;
        put_whole(&columns[0], NULL, (int64_t)i);
        put_real(&columns[1], NULL, of->samples);
        put_real(&columns[2], NULL, of->loss);
        put_whole(&columns[3], NULL, of->trained);
    }
    json_begin(&clients);
    for (int c = 0; c < 4; c++)
        put_object(&clients, keys[c], &columns[c]);
    put_object(details, "clients", &clients);
}

// If targets are numbers, clients have no accuracy.
static bool has_accuracy(const ClientRecords *records, size_t client, int model) {
    return client_records_tested(records, client, model) && !isnan(records->all[client].tests[model].accuracy);
}

static void put_accuracies(JsonObject *model_of, const ClientRecords *records, int model) {
    JsonObject accuracies;
    size_t count = 0, at = 0;
    for (size_t i = 0; i < records->count; i++)
        count += has_accuracy(records, i, model);
    json_begin_array(&accuracies);
    for (size_t i = 0; i < records->count; i++)
        if (has_accuracy(records, i, model) && at++ % (count / (MOST_CLIENTS + 1) + 1) == 0)
            put_real(&accuracies, NULL, records->all[i].tests[model].accuracy);
    put_object(model_of, "accuracies", &accuracies);
}

// For the picture of clients, which has room for a few: the accuracy of each client's last test, of its own model if it
// has one. null: it was not tested.
static void put_client_accuracy(JsonObject *details, const ClientRecords *records) {
    JsonObject list;
    if (records->model_count == 0 || records->count > DOTS_MOST_ROWS) return;
    json_begin_array(&list);
    for (size_t i = 0; i < records->count; i++) {
        double accuracy = NAN;
        for (int m = 0; m < records->model_count; m++)
            if (has_accuracy(records, i, m) && (isnan(accuracy) || strcmp(records->models[m], "personal") == 0))
                accuracy = records->all[i].tests[m].accuracy;
        put_real(&list, NULL, accuracy);
    }
    put_object(details, "client_accuracy", &list);
}

static void put_fairness(JsonObject *details, const Reading *reading) {
    static const struct {
        const char *key, *from;
    } figures[] = {{"mean", "accuracy_mean"},
                   {"worst", "accuracy_worst_tenth"},
                   {"best", "accuracy_best_tenth"},
                   {"jain", "accuracy_jain"}};
    JsonObject all;
    json_begin_array(&all);
    for (int model = 0; model < reading->clients.model_count; model++) {
        const json_t *line = reading->tests[model];
        JsonObject told;
        if (!json_object_get(line, "accuracy_mean")) continue;
        json_begin(&told);
        put_readable(&told, "model", reading->clients.models[model]);
        put_whole(&told, "round", reading->clients.last[model]);
        for (size_t f = 0; f < sizeof figures / sizeof *figures; f++)
            put_real(&told, figures[f].key, past_run_number(line, figures[f].from));
        put_accuracies(&told, &reading->clients, model);
        put_object(&all, NULL, &told);
    }
    put_object(details, "fairness", &all);
}

// Reads the file that `sounder eval RUN --confusion --json > RUN/eval.json` wrote. NULL: there is none, or it holds
// something else; or, with *no_memory set, memory ran out.
static json_t *read_evaluation(bool *no_memory, const PastRun *run) {
    char path[4096 + 16], *text = NULL;
    size_t capacity = 0;
    json_t *told = NULL;
    snprintf(path, sizeof path, "%s/eval.json", run->path);
    errno = 0;
    FILE *file = fopen(path, "re");
    const ssize_t bytes = file ? getdelim(&text, &capacity, '\0', file) : 0;
    *no_memory = errno == ENOMEM;
    if (bytes > 0) *no_memory = json_read_object(&told, text, (size_t)bytes, path, 0, NULL) == STATUS_OS;
    if (file) fclose(file);
    free(text);
    return told;
}

// One row per class, in order.
static void put_confusion(JsonObject *details, const PastRun *run) {
    char name[24];
    bool no_memory;
    JsonObject matrix;
    json_t *told = read_evaluation(&no_memory, run), *by_class = json_object_get(told, "confusion");
    if (no_memory) put_value(details, "confusion", NULL);
    const size_t rows = json_object_size(by_class);
    bool square = rows > 0 && rows <= MOST_CLASSES;
    json_begin_array(&matrix);
    for (size_t i = 0; i < rows && square; i++) {
        snprintf(name, sizeof name, "%zu", i);
        json_t *row = json_object_get(by_class, name);
        square = json_array_size(row) == rows;
        if (square) put_value(&matrix, NULL, json_incref(row));
    }
    if (square) put_object(details, "confusion", &matrix);
    json_drop(&matrix);
    json_decref(told);
}

// All of it -----------------------------------------------------------------------------------------------------------

static void make_details(JsonObject *details, const Reading *reading, const char *group) {
    const PastRun *run = reading->run;
    char figure[FIGURE_KEY_BYTES];
    json_begin(details);
    put_readable(details, "path", run->path);
    put_readable(details, "group", group);
    put_text(details, "state", run_state_names[run->state]);
    run_figure_key(figure, &run->figure);
    put_text(details, "figure", figure);
    put_flag(details, "lower_is_better", run->figure.falls);
    if (run->options.target[0]) put_real(details, "target", target_value(run->options.target));
    run_rounds_put(details, &reading->rounds, reading->choice);
    put_clients(details, &reading->clients);
    if (past_run_names_clients(run))
        put_value(details, "client_names", json_deep_copy(json_object_get(run->last, "client_names")));
    put_client_accuracy(details, &reading->clients);
    put_fairness(details, reading);
    put_confusion(details, run);
    programs_put(details, &reading->programs, run);
    run_details_put_origin(details, run);
}

Status run_details_read(JsonObject *details, const PastRun *run, const char *group, const RoundChoice *choice,
                        Error *err) {
    static const char *const types[] = {"client",        "round", "client_evaluation", "clients_evaluation",
                                        "trainer_fault", NULL};
    Reading reading = {.run = run, .choice = choice};
    *details = (JsonObject){0};
    Status status = run_rounds_begin(&reading.rounds) ? metrics_visit_run(run->path, types, note_line, &reading, err)
                                                      : fail(err, STATUS_OS, "no memory for the report");
    if (status == STATUS_OK) {
        make_details(details, &reading, group);
        status = json_check(details, "the report", err);
    }
    if (status != STATUS_OK) json_drop(details);
    reading_free(&reading);
    return status;
}
