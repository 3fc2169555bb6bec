#include "app/look/run_clients.h"

#include <stdio.h>
#include <stdlib.h>

#include "app/look/client_records.h"
#include "io/metrics.h"

ClientColumn client_column_add(Table *table, const PastRun *run) {
    const bool has_names = past_run_names_clients(run);
    ClientColumn column = {.has_names = has_names};
    column.name = table_add_column(table, "client", "client", has_names ? -1 : 0);
    if (has_names) column.number = table_add_column(table, "number", "client_number", 0);
    return column;
}

void client_column_put(Table *table, const ClientColumn *column, const PastRun *run, size_t client) {
    char number[PAST_CLIENT_BYTES];
    if (column->has_names) table_put_text(table, column->name, past_run_client(number, run, client));
    table_put_number(table, column->has_names ? column->number : column->name, (double)client);
}

static Status note_line(void *context, json_t *line, Error *err) {
    return client_records_note(context, line) ? STATUS_OK : fail(err, STATUS_OS, "no memory for a table of clients");
}

static void fill(Table *table, const ClientRecords *clients, const PastRun *run) {
    size_t accuracy[CLIENT_MODELS], loss[CLIENT_MODELS];
    const ClientColumn client = client_column_add(table, run);
    const size_t trained = table_add_column(table, "rounds", "rounds_trained", 0),
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
        const ClientRecord *of = &clients->all[i];
        if (of->trained == 0 && of->tested == 0) continue;
        table_add_row(table);
        client_column_put(table, &client, run, i);
        table_put_number(table, trained, of->trained);
        if (of->trained > 0) table_put_number(table, samples, of->samples);
        if (of->tested > 0) table_put_number(table, tested, of->tested);
        for (int m = 0; m < clients->model_count; m++) {
            if (!client_records_tested(clients, i, m)) continue;
            table_put_number(table, accuracy[m], 100 * of->tests[m].accuracy);
            table_put_number(table, loss[m], of->tests[m].loss);
        }
    }
    table_drop_empty(table);
}

Status run_clients_table(Table *table, const PastRun *run, Error *err) {
    static const char *const types[] = {"client", "client_evaluation", NULL};
    ClientRecords clients = {.count = 0};
    Status status = metrics_visit_run(run->path, types, note_line, &clients, err);
    if (status == STATUS_OK && clients.model_count == 0)
        status =
            fail(err, STATUS_USAGE,
                 "--clients: no client of %.200s was tested; train with --eval-clients-every 10, or so", run->path);
    if (status == STATUS_OK) fill(table, &clients, run);
    free(clients.all);
    return status;
}
