#include "run_details.h"

#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "io/metrics.h"

enum { MOST_ROUNDS = 500, MOST_CLIENTS = 2000 };

// Keys of a round's line that the page draws.
static const char *const round_keys[] = {
    "round",         "train_loss",         "test_loss",    "test_accuracy",           "seconds",
    "eval_seconds",  "samples_per_second", "workers_lost", "simulated_seconds_total", "down_bytes_total",
    "up_bytes_total", "epsilon"};
enum { ROUND_KEYS = sizeof round_keys / sizeof *round_keys };

typedef struct ClientFacts {
    double samples, loss;
    uint32_t times; // trained; 0: never
} ClientFacts;

// One model's test on the clients' own samples, the last there was.
typedef struct Evaluation {
    char model[32];
    json_int_t round;
    json_t *accuracies; // owned
    json_t *line;       // owned; of all clients
} Evaluation;
enum { MOST_EVALUATIONS = 4 };

typedef struct Reading {
    json_t *rounds[ROUND_KEYS], *low, *high, *waits; // owned: arrays, an entry a round
    json_t *staleness;                               // owned; NULL: none
    double *losses;                                  // owned: of the round's clients
    size_t loss_count, loss_capacity;
    ClientFacts *clients; // owned, by number
    size_t client_count;
    Evaluation evaluations[MOST_EVALUATIONS];
    int evaluation_count;
    bool any_spread;
} Reading;

static double number_of(const json_t *line, const char *key) {
    const json_t *value = json_object_get(line, key);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

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
    of->samples = number_of(line, "samples");
    of->loss = number_of(line, "loss");
    of->times++;
    return note_loss(reading, of->loss);
}

static int compare_reals(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

// Linear between the two values around it. values: (count), ascending, at least one.
static double quantile(const double *values, size_t count, double share) {
    const double at = share * (double)(count - 1);
    const size_t below = (size_t)at, above = below + 1 < count ? below + 1 : below;
    return values[below] + (values[above] - values[below]) * (at - (double)below);
}

static bool note_round(Reading *reading, const json_t *line) {
    const size_t count = reading->loss_count;
    bool noted = true;
    for (int k = 0; k < ROUND_KEYS; k++) {
        json_t *value = json_object_get(line, round_keys[k]);
        noted &=
            json_array_append_new(reading->rounds[k], json_is_number(value) ? json_incref(value) : json_null()) == 0;
    }
    if (count > 1) qsort(reading->losses, count, sizeof *reading->losses, compare_reals);
    reading->any_spread |= count > 1;
    noted &= json_array_append_new(reading->low, real(count > 1 ? quantile(reading->losses, count, 0.1) : NAN)) == 0;
    noted &= json_array_append_new(reading->high, real(count > 1 ? quantile(reading->losses, count, 0.9) : NAN)) == 0;
    reading->loss_count = 0;
    json_t *waits = json_object_get(line, "barrier_wait_seconds"), *staleness = json_object_get(line, "staleness");
    noted &= json_array_append_new(reading->waits, json_is_array(waits) ? json_incref(waits) : json_array()) == 0;
    if (!json_is_array(staleness)) return noted;
    json_decref(reading->staleness);
    reading->staleness = json_incref(staleness);
    return noted;
}

// Of a model; a test in a later round begins it anew. NULL: there are too many models, or no memory.
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
    if (of[i].round != round) {
        json_decref(of[i].accuracies);
        of[i].accuracies = json_array();
        of[i].round = round;
    }
    return &of[i];
}

static Status note_line(void *context, json_t *line, Error *err) {
    Reading *reading = context;
    const char *type = json_string_value(json_object_get(line, "type"));
    bool noted = true;
    if (strcmp(type, "client") == 0) noted = note_client(reading, line);
    if (strcmp(type, "round") == 0) noted = note_round(reading, line);
    if (strcmp(type, "client_evaluation") == 0) {
        Evaluation *of = evaluation_of(reading, line);
        if (of) noted = json_array_append_new(of->accuracies, real(number_of(line, "accuracy"))) == 0;
    }
    if (strcmp(type, "clients_evaluation") == 0) {
        Evaluation *of = evaluation_of(reading, line);
        if (of) json_decref(of->line);
        if (of) of->line = json_incref(line);
    }
    return noted ? STATUS_OK : fail(err, STATUS_OS, "no memory for the report");
}

static bool reading_begin(Reading *reading) {
    bool made = true;
    *reading = (Reading){.low = json_array(), .high = json_array(), .waits = json_array()};
    for (int k = 0; k < ROUND_KEYS; k++)
        made &= (reading->rounds[k] = json_array()) != NULL;
    return made && reading->low && reading->high && reading->waits;
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
    json_decref(reading->staleness);
    free(reading->losses);
    free(reading->clients);
}

// As JSON -------------------------------------------------------------------------------------------------------------

// Every so many-th entry, and the last, so that no more are left than `most`. Takes over the array.
static json_t *thinned(json_t *array, size_t most) {
    const size_t count = json_array_size(array), every = (count + most - 1) / (most ? most : 1);
    if (count <= most) return array;
    json_t *left = json_array();
    for (size_t i = 0; i < count; i++)
        if (i % every == every - 1 || i + 1 == count) json_array_append(left, json_array_get(array, i));
    json_decref(array);
    return left;
}

static void put_rounds(json_t *details, Reading *reading) {
    json_t *rounds = json_object();
    for (int k = 0; k < ROUND_KEYS; k++) {
        bool any = k == 0;
        for (size_t i = 0; i < json_array_size(reading->rounds[k]); i++)
            any |= json_is_number(json_array_get(reading->rounds[k], i));
        any |= strcmp(round_keys[k], "seconds") == 0 || strcmp(round_keys[k], "eval_seconds") == 0;
        if (any) json_object_set_new(rounds, round_keys[k], thinned(json_incref(reading->rounds[k]), MOST_ROUNDS));
    }
    json_object_set_new(details, "rounds", rounds);
    json_object_set_new(details, "waits", thinned(json_incref(reading->waits), MOST_ROUNDS));
    if (reading->staleness) json_object_set(details, "staleness", reading->staleness);
    if (reading->any_spread)
        json_object_set_new(details, "loss_spread",
                            json_pack("{s:o, s:o}", "low", thinned(json_incref(reading->low), MOST_ROUNDS), "high",
                                      thinned(json_incref(reading->high), MOST_ROUNDS)));
}

static void put_clients(json_t *details, const Reading *reading) {
    json_t *client = json_array(), *samples = json_array(), *loss = json_array(), *times = json_array();
    for (size_t i = 0; i < reading->client_count; i++) {
        const ClientFacts *of = &reading->clients[i];
        if (of->times == 0 || isnan(of->loss)) continue;
        json_array_append_new(client, json_integer((json_int_t)i));
        json_array_append_new(samples, real(of->samples));
        json_array_append_new(loss, real(of->loss));
        json_array_append_new(times, json_integer(of->times));
    }
    json_object_set_new(details, "clients",
                        json_pack("{s:o, s:o, s:o, s:o}", "client", thinned(client, MOST_CLIENTS), "samples",
                                  thinned(samples, MOST_CLIENTS), "loss", thinned(loss, MOST_CLIENTS), "times",
                                  thinned(times, MOST_CLIENTS)));
}

static void put_fairness(json_t *details, const Reading *reading) {
    json_t *all = json_array();
    for (int i = 0; i < reading->evaluation_count; i++) {
        const Evaluation *of = &reading->evaluations[i];
        if (!of->line) continue;
        json_array_append_new(all, json_pack("{s:s, s:I, s:o, s:o, s:o, s:o, s:o}", "model", of->model, "round",
                                             of->round, "mean", real(number_of(of->line, "accuracy_mean")), "worst",
                                             real(number_of(of->line, "accuracy_worst_tenth")), "best",
                                             real(number_of(of->line, "accuracy_best_tenth")), "jain",
                                             real(number_of(of->line, "accuracy_jain")), "accuracies",
                                             thinned(json_incref(of->accuracies), MOST_CLIENTS)));
    }
    json_object_set_new(details, "fairness", all);
}

// What `sounder eval RUN --confusion --json > RUN/eval.json` has left: a row for each class, by its number.
static void put_confusion(json_t *details, const PastRun *run) {
    char path[4096 + 16], name[24];
    snprintf(path, sizeof path, "%s/eval.json", run->path);
    json_t *told = json_load_file(path, 0, NULL), *by_class = json_object_get(told, "confusion"),
           *matrix = json_array();
    const size_t rows = json_object_size(by_class);
    bool square = rows > 0 && rows <= MOST_CLASSES;
    for (size_t i = 0; i < rows && square; i++) {
        snprintf(name, sizeof name, "%zu", i);
        json_t *row = json_object_get(by_class, name);
        square = json_array_size(row) == rows && json_array_append(matrix, row) == 0;
    }
    if (square) json_object_set(details, "confusion", matrix);
    json_decref(matrix);
    json_decref(told);
}

// All of it -----------------------------------------------------------------------------------------------------------

// A detail that finds no memory is not there, which shows here.
static bool is_whole(const json_t *details) {
    static const char *const keys[] = {"path",     "group",   "state",  "rounds", "waits", "clients",
                                       "fairness", "classes", "repeat", "facts",  "config"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (!json_object_get(details, keys[i])) return false;
    return true;
}

static json_t *make_details(Reading *reading, const PastRun *run, const char *group) {
    json_t *details =
        json_pack("{s:s, s:s, s:s}", "path", run->path, "group", group, "state", run_state_names[run->state]);
    if (run->options.target_accuracy > 0)
        json_object_set_new(details, "target", json_real(run->options.target_accuracy));
    put_rounds(details, reading);
    put_clients(details, reading);
    put_fairness(details, reading);
    put_confusion(details, run);
    run_details_put_origin(details, run);
    return details;
}

Status run_details_read(json_t **details, const PastRun *run, const char *group, Error *err) {
    static const char *const types[] = {"client", "round", "client_evaluation", "clients_evaluation", NULL};
    Reading reading;
    const bool begun = reading_begin(&reading);
    *details = NULL;
    int fd = open(run->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const Folder folder = {.fd = fd, .path = run->path};
    Status status = begun ? STATUS_OK : fail(err, STATUS_OS, "no memory for the report");
    if (status == STATUS_OK && fd < 0) status = fail_errno(err, STATUS_NOINPUT, "%.200s cannot be opened", run->path);
    if (status == STATUS_OK) status = metrics_visit(&folder, types, note_line, &reading, err);
    if (fd >= 0) close(fd);
    if (status == STATUS_OK) {
        *details = make_details(&reading, run, group);
        if (!is_whole(*details)) status = fail(err, STATUS_OS, "no memory for the report");
    }
    if (status != STATUS_OK) json_decref(*details), *details = NULL;
    reading_free(&reading);
    return status;
}
