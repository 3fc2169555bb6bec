#include "app/inspect/run_clients.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "io/metrics.h"

enum { MOST_MODELS = 4, MODEL_BYTES = 32, MOST_CLIENTS = 1 << 24 };

// One client; what is not known is 0, of a test -1.
typedef struct ClientRow {
    double trained, samples, tested; // rounds; samples it has, and is tested on
    double accuracy[MOST_MODELS], loss[MOST_MODELS];
    json_int_t round[MOST_MODELS]; // of the test
} ClientRow;

typedef struct Clients {
    ClientRow *rows; // (count) by client; owned
    size_t count;
    char models[MOST_MODELS][MODEL_BYTES];
    json_int_t last[MOST_MODELS]; // round of the last test of each model
    int model_count;
    bool have_accuracy;
} Clients;

static Status row_of(ClientRow **row, Clients *clients, const json_t *line, Error *err) {
    const json_int_t client = json_integer_value(json_object_get(line, "client"));
    *row = NULL;
    if (client < 0 || client >= MOST_CLIENTS) return STATUS_OK; // an edited line
    if ((size_t)client >= clients->count) {
        const size_t count = 2 * ((size_t)client + 1);
        ClientRow *rows = realloc(clients->rows, count * sizeof *rows);
        if (!rows) return fail(err, STATUS_OS, "no memory for a table of %zu clients", count);
        memset(rows + clients->count, 0, (count - clients->count) * sizeof *rows);
        clients->rows = rows;
        clients->count = count;
    }
    *row = &clients->rows[client];
    return STATUS_OK;
}

// Returns MOST_MODELS if there are too many.
static int model_of(Clients *clients, const json_t *line) {
    const char *name = json_string_value(json_object_get(line, "model"));
    int model = 0;
    while (model < clients->model_count && strncmp(clients->models[model], name ? name : "", MODEL_BYTES - 1) != 0)
        model++;
    if (model < clients->model_count || model == MOST_MODELS) return model;
    snprintf(clients->models[model], MODEL_BYTES, "%s", name ? name : "");
    return clients->model_count++;
}

static Status note_line(void *context, json_t *line, Error *err) {
    Clients *clients = context;
    ClientRow *row;
    TRY(row_of(&row, clients, line, err));
    if (!row) return STATUS_OK;
    if (metrics_is(line, "client")) {
        row->trained++;
        row->samples = past_run_number(line, "samples");
        return STATUS_OK;
    }
    const int model = model_of(clients, line);
    if (model == MOST_MODELS) return STATUS_OK;
    row->tested = past_run_number(line, "samples");
    row->accuracy[model] = past_run_number(line, "accuracy");
    row->loss[model] = past_run_number(line, "loss");
    row->round[model] = clients->last[model] = json_integer_value(json_object_get(line, "round"));
    clients->have_accuracy |= !isnan(row->accuracy[model]);
    return STATUS_OK;
}

static void fill(Table *table, const Clients *clients) {
    size_t accuracy[MOST_MODELS], loss[MOST_MODELS];
    const size_t client = table_add_column(table, "client", "client", 0),
                 trained = table_add_column(table, "rounds", "rounds_trained", 0),
                 samples = table_add_column(table, "samples", "training_samples", 0),
                 tested = table_add_column(table, "tests", "test_samples", 0);
    for (int m = 0; m < clients->model_count; m++) {
        char title[COLUMN_NAME_BYTES], key[COLUMN_NAME_BYTES];
        snprintf(title, sizeof title, "%s %%", clients->models[m]);
        snprintf(key, sizeof key, "%s_accuracy_percent", clients->models[m]);
        accuracy[m] = table_add_column(table, title, key, 2);
        snprintf(title, sizeof title, "%s loss", clients->models[m]);
        snprintf(key, sizeof key, "%s_loss", clients->models[m]);
        loss[m] = table_add_column(table, title, key, 4);
    }
    for (size_t i = 0; i < clients->count; i++) {
        const ClientRow *row = &clients->rows[i];
        if (row->trained == 0 && row->tested == 0) continue;
        table_add_row(table);
        table_put_number(table, client, (double)i);
        table_put_number(table, trained, row->trained);
        if (row->trained > 0) table_put_number(table, samples, row->samples);
        if (row->tested > 0) table_put_number(table, tested, row->tested);
        for (int m = 0; m < clients->model_count; m++) {
            if (row->round[m] == 0 || row->round[m] != clients->last[m]) continue;
            table_put_number(table, accuracy[m], 100 * row->accuracy[m]);
            table_put_number(table, loss[m], row->loss[m]);
        }
    }
    table_drop_empty(table);
}

Status run_clients_table(Table *table, const PastRun *run, Error *err) {
    static const char *const types[] = {"client", "client_evaluation", NULL};
    Clients clients = {.count = 0};
    const int fd = open(run->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const Folder folder = {.fd = fd, .path = run->path};
    if (fd < 0) return fail_errno(err, STATUS_NOINPUT, "%.200s cannot be opened", run->path);
    Status status = metrics_visit(&folder, types, note_line, &clients, err);
    close(fd);
    if (status == STATUS_OK && clients.model_count == 0)
        status =
            fail(err, STATUS_USAGE,
                 "--clients: no client of %.200s was tested; train with --eval-clients-every 10, or so", run->path);
    if (status == STATUS_OK) fill(table, &clients);
    free(clients.rows);
    return status;
}
