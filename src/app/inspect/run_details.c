#include "run_details.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "app/inspect/run_programs.h"
#include "app/options/run_target.h"
#include "base/sorting.h"
#include "io/metrics.h"

enum { MOST_ROUNDS = 500, MOST_CLIENTS = 2000 };

// Keys of a round's line that the page draws.
static const char *const round_keys[] = {"round",
                                         "train_loss",
                                         "test_loss",
                                         "test_accuracy",
                                         "personal_accuracy",
                                         "personal_loss",
                                         "client_accuracy",
                                         "client_loss",
                                         "validation_accuracy",
                                         "validation_loss",
                                         "test_balanced_accuracy",
                                         "test_macro_f1",
                                         "test_auc",
                                         "validation_balanced_accuracy",
                                         "validation_macro_f1",
                                         "validation_auc",
                                         "seconds",
                                         "eval_seconds",
                                         "samples_per_second",
                                         "workers_lost",
                                         "simulated_seconds_total",
                                         "down_bytes_total",
                                         "up_bytes_total",
                                         "training_joules_total",
                                         "link_joules_total",
                                         "epsilon",
                                         "sample_epsilon"};
enum { ROUND_KEYS = sizeof round_keys / sizeof *round_keys };

typedef struct ClientFacts {
    double samples, loss;
    uint32_t times; // rounds in which it trained; 0: none
} ClientFacts;

// The last test of one model on the clients' own samples.
typedef struct Evaluation {
    char model[32];
    json_int_t round;
    json_t *accuracies; // owned
    json_t *line;       // owned; the line about all clients
} Evaluation;
enum { MOST_EVALUATIONS = 4 };

typedef struct Reading {
    json_t *rounds[ROUND_KEYS], *low, *high, *waits; // owned: arrays, one entry per round
    json_t *metrics;                                 // owned, per round: {name: value} or null
    json_t *staleness;                               // owned; NULL: none
    double *losses;                                  // owned: losses of the round's clients
    size_t loss_count, loss_capacity;
    ClientFacts *clients; // owned, by number
    size_t client_count;
    Evaluation evaluations[MOST_EVALUATIONS];
    int evaluation_count;
    bool any_spread;
    const PastRun *run; // borrowed
    RunPrograms programs;
} Reading;

static json_t *real(double value) {
    return isfinite(value) ? json_real(value) : json_null();
}

// Lines ---------------------------------------------------------------------------------------------------------------

static bool note_loss(Reading *reading, double loss) {
    if (isnan(loss)) return true;
    if (reading->loss_count == reading->loss_capacity) {
        const size_t capacity = 2 * reading->loss_capacity + 64;
        double *losses = realloc(reading->losses, capacity * sizeof *losses);
        if (!losses) return false;
        reading->losses = losses;
        reading->loss_capacity = capacity;
    }
    reading->losses[reading->loss_count++] = loss;
    return true;
}

static bool note_client(Reading *reading, const json_t *line) {
    const json_int_t client = json_integer_value(json_object_get(line, "client"));
    if (client < 0 || client >= 1000000) return true;
    if ((size_t)client >= reading->client_count) {
        const size_t count = (size_t)client + 1 + reading->client_count / 2;
        ClientFacts *clients = realloc(reading->clients, count * sizeof *clients);
        if (!clients) return false;
        memset(clients + reading->client_count, 0, (count - reading->client_count) * sizeof *clients);
        reading->clients = clients;
        reading->client_count = count;
    }
    ClientFacts *of = &reading->clients[client];
    of->samples = past_run_number(line, "samples");
    of->loss = past_run_number(line, "loss");
    of->times++;
    return note_loss(reading, of->loss);
}

// Appends null in the place of what is no number.
static bool append_number(json_t *array, json_t *value) {
    return json_array_append_new(array, json_is_number(value) ? json_incref(value) : json_null()) == 0;
}

static bool note_round(Reading *reading, const json_t *line) {
    const size_t count = reading->loss_count;
    bool noted = true;
    for (int k = 0; k < ROUND_KEYS; k++) {
        noted &= append_number(reading->rounds[k], json_object_get(line, round_keys[k]));
    }
    json_t *metrics = json_object_get(line, figure_facts[FIGURE_METRIC].key);
    noted &= json_array_append_new(reading->metrics, metrics ? json_incref(metrics) : json_null()) == 0;
    if (count > 1) qsort(reading->losses, count, sizeof *reading->losses, ascending_reals);
    reading->any_spread |= count > 1;
    noted &=
        json_array_append_new(reading->low, real(count > 1 ? sorted_quantile(reading->losses, count, 0.1) : NAN)) == 0;
    noted &=
        json_array_append_new(reading->high, real(count > 1 ? sorted_quantile(reading->losses, count, 0.9) : NAN)) == 0;
    reading->loss_count = 0;
    json_t *waits = json_object_get(line, "barrier_wait_seconds"), *staleness = json_object_get(line, "staleness");
    noted &= json_array_append_new(reading->waits, json_is_array(waits) ? json_incref(waits) : json_array()) == 0;
    if (!json_is_array(staleness)) return noted;
    json_decref(reading->staleness);
    reading->staleness = json_incref(staleness);
    return noted;
}

// Returns the evaluation of a line's model, emptied if the line's round is later. NULL: too many models, or no memory.
static Evaluation *evaluation_of(Reading *reading, const json_t *line) {
    const char *model = json_string_value(json_object_get(line, "model"));
    const json_int_t round = json_integer_value(json_object_get(line, "round"));
    Evaluation *of = reading->evaluations;
    int i = 0;
    while (i < reading->evaluation_count && strcmp(of[i].model, model ? model : "") != 0)
        i++;
    if (i == MOST_EVALUATIONS) return NULL;
    if (i == reading->evaluation_count) {
        snprintf(of[i].model, sizeof of[i].model, "%s", model ? model : "");
        reading->evaluation_count++;
    }
    if (!of[i].accuracies || of[i].round != round) {
        json_decref(of[i].accuracies);
        of[i].accuracies = json_array();
        of[i].round = round;
    }
    return &of[i];
}

// If targets are numbers, clients have no accuracy.
static bool note_client_test(Reading *reading, const json_t *line) {
    const double accuracy = past_run_number(line, "accuracy");
    Evaluation *of = isnan(accuracy) ? NULL : evaluation_of(reading, line);
    return !of || json_array_append_new(of->accuracies, real(accuracy)) == 0;
}

// The line about all clients follows the lines of the clients. Tests of personal models in every round have no such
// line.
static void note_client_tests(Reading *reading, json_t *line) {
    const char *model = json_string_value(json_object_get(line, "model"));
    for (int i = 0; i < reading->evaluation_count; i++) {
        Evaluation *of = &reading->evaluations[i];
        if (strcmp(of->model, model ? model : "") != 0 ||
            of->round != json_integer_value(json_object_get(line, "round")))
            continue;
        json_decref(of->line);
        of->line = json_incref(line);
    }
}

static Status note_line(void *context, json_t *line, Error *err) {
    Reading *reading = context;
    bool noted = programs_note(&reading->programs, reading->run, line);
    if (metrics_is(line, "client")) noted &= note_client(reading, line);
    if (metrics_is(line, "round")) noted &= note_round(reading, line);
    if (metrics_is(line, "client_evaluation")) noted &= note_client_test(reading, line);
    if (metrics_is(line, "clients_evaluation")) note_client_tests(reading, line);
    return noted ? STATUS_OK : fail(err, STATUS_OS, "no memory for the report");
}

static bool reading_begin(Reading *reading, const PastRun *run) {
    bool made = true;
    *reading = (Reading){
        .run = run, .low = json_array(), .high = json_array(), .waits = json_array(), .metrics = json_array()};
    for (int k = 0; k < ROUND_KEYS; k++)
        made &= (reading->rounds[k] = json_array()) != NULL;
    return made && reading->low && reading->high && reading->waits && reading->metrics;
}

static void reading_free(Reading *reading) {
    for (int k = 0; k < ROUND_KEYS; k++)
        json_decref(reading->rounds[k]);
    for (int i = 0; i < reading->evaluation_count; i++) {
        json_decref(reading->evaluations[i].accuracies);
        json_decref(reading->evaluations[i].line);
    }
    json_decref(reading->low);
    json_decref(reading->high);
    json_decref(reading->waits);
    json_decref(reading->metrics);
    json_decref(reading->staleness);
    programs_free(&reading->programs);
    free(reading->losses);
    free(reading->clients);
}

// As JSON -------------------------------------------------------------------------------------------------------------

// Returns every N-th entry and the last one, at most `most` of them. NULL: no memory.
static json_t *thinned(json_t *array, size_t most) {
    const size_t count = json_array_size(array), every = (count + most - 1) / (most ? most : 1);
    if (count <= most) return json_incref(array);
    json_t *left = json_array();
    for (size_t i = 0; i < count && left; i++) {
        if (i % every != every - 1 && i + 1 < count) continue;
        if (json_array_append(left, json_array_get(array, i)) == 0) continue;
        json_decref(left);
        left = NULL;
    }
    return left;
}

static bool has_number(const json_t *array) {
    for (size_t i = 0; i < json_array_size(array); i++)
        if (json_is_number(json_array_get(array, i))) return true;
    return false;
}

// One array per metric that the last test has, under the key that a figure has: "test_metrics.recall".
static void put_round_metrics(JsonObject *rounds, json_t *metrics) {
    const char *name;
    json_t *ignored, *last = NULL;
    for (size_t i = 0; i < json_array_size(metrics); i++)
        if (json_is_object(json_array_get(metrics, i))) last = json_array_get(metrics, i);
    json_object_foreach(last, name, ignored) {
        json_t *values = json_array(), *few;
        for (size_t i = 0; i < json_array_size(metrics) && values; i++)
            append_number(values, json_object_get(json_array_get(metrics, i), name));
        char key[METRIC_NAME_BYTES + 16];
        RunFigure figure = {.kind = FIGURE_METRIC};
        snprintf(figure.metric, sizeof figure.metric, "%s", name);
        run_figure_key(key, &figure);
        few = values ? thinned(values, MOST_ROUNDS) : NULL;
        json_decref(values);
        put_value(rounds, key, few);
    }
}

static void put_rounds(JsonObject *details, const Reading *reading) {
    JsonObject rounds, spread;
    json_begin(&rounds);
    for (int k = 0; k < ROUND_KEYS; k++) {
        const bool always =
            k == 0 || strcmp(round_keys[k], "seconds") == 0 || strcmp(round_keys[k], "eval_seconds") == 0;
        if (always || has_number(reading->rounds[k]))
            put_value(&rounds, round_keys[k], thinned(reading->rounds[k], MOST_ROUNDS));
    }
    put_round_metrics(&rounds, reading->metrics);
    put_object(details, "rounds", &rounds);
    put_value(details, "waits", thinned(reading->waits, MOST_ROUNDS));
    if (reading->staleness) put_value(details, "staleness", json_incref(reading->staleness));
    if (!reading->any_spread) return;
    json_begin(&spread);
    put_value(&spread, "low", thinned(reading->low, MOST_ROUNDS));
    put_value(&spread, "high", thinned(reading->high, MOST_ROUNDS));
    put_object(details, "loss_spread", &spread);
}

static void put_clients(JsonObject *details, const Reading *reading) {
    JsonObject clients, columns[4];
    static const char *const keys[] = {"client", "samples", "loss", "times"};
    for (int c = 0; c < 4; c++)
        json_begin_array(&columns[c]);
    for (size_t i = 0; i < reading->client_count; i++) {
        const ClientFacts *of = &reading->clients[i];
        if (of->times == 0 || isnan(of->loss)) continue;
        put_whole(&columns[0], NULL, (int64_t)i);
        put_real(&columns[1], NULL, of->samples);
        put_real(&columns[2], NULL, of->loss);
        put_whole(&columns[3], NULL, of->times);
    }
    json_begin(&clients);
    for (int c = 0; c < 4; c++) {
        put_value(&clients, keys[c], columns[c].status == STATUS_OK ? thinned(columns[c].root, MOST_CLIENTS) : NULL);
        json_drop(&columns[c]);
    }
    put_object(details, "clients", &clients);
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
    for (int i = 0; i < reading->evaluation_count; i++) {
        const Evaluation *of = &reading->evaluations[i];
        JsonObject told;
        if (!of->line) continue;
        json_begin(&told);
        put_readable(&told, "model", of->model);
        put_whole(&told, "round", of->round);
        for (size_t f = 0; f < sizeof figures / sizeof *figures; f++)
            put_real(&told, figures[f].key, past_run_number(of->line, figures[f].from));
        put_value(&told, "accuracies", thinned(of->accuracies, MOST_CLIENTS));
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

static void make_details(JsonObject *details, const Reading *reading, const PastRun *run, const char *group) {
    char figure[METRIC_NAME_BYTES + 16];
    json_begin(details);
    put_readable(details, "path", run->path);
    put_readable(details, "group", group);
    put_text(details, "state", run_state_names[run->state]);
    run_figure_key(figure, &run->figure);
    put_text(details, "figure", figure);
    put_flag(details, "lower_is_better", run->figure.falls);
    if (run->options.target[0]) put_real(details, "target", target_value(run->options.target));
    put_rounds(details, reading);
    put_clients(details, reading);
    put_fairness(details, reading);
    put_confusion(details, run);
    programs_put(details, &reading->programs, run);
    run_details_put_origin(details, run);
}

Status run_details_read(JsonObject *details, const PastRun *run, const char *group, Error *err) {
    static const char *const types[] = {"client",        "round", "client_evaluation", "clients_evaluation",
                                        "trainer_fault", NULL};
    Reading reading;
    const bool begun = reading_begin(&reading, run);
    *details = (JsonObject){0};
    int fd = open(run->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const Folder folder = {.fd = fd, .path = run->path};
    Status status = begun ? STATUS_OK : fail(err, STATUS_OS, "no memory for the report");
    if (status == STATUS_OK && fd < 0) status = fail_errno(err, STATUS_NOINPUT, "%.200s cannot be opened", run->path);
    if (status == STATUS_OK) status = metrics_visit(&folder, types, note_line, &reading, err);
    if (fd >= 0) close(fd);
    if (status == STATUS_OK) {
        make_details(details, &reading, run, group);
        status = json_check(details, "the report", err);
    }
    if (status != STATUS_OK) json_drop(details);
    reading_free(&reading);
    return status;
}
