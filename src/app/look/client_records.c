#include "client_records.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/look/past_run.h"
#include "io/metrics.h"

enum { MOST_CLIENTS = 1000000 }; // of --clients

// *record: NULL for an edited line, of a client that no run can have.
static bool find_record(ClientRecord **record, ClientRecords *records, const json_t *line) {
    const json_int_t client = json_integer_value(json_object_get(line, "client"));
    *record = NULL;
    if (client < 0 || client >= MOST_CLIENTS) return true;
    if ((size_t)client >= records->count) {
        const size_t count = (size_t)client + 1 + records->count / 2;
        ClientRecord *all = realloc(records->all, count * sizeof *all);
        if (!all) return false;
        memset(all + records->count, 0, (count - records->count) * sizeof *all);
        records->all = all;
        records->count = count;
    }
    *record = &records->all[client];
    return true;
}

int client_records_model(const ClientRecords *records, const json_t *line) {
    const char *name = json_string_value(json_object_get(line, "model"));
    for (int model = 0; model < records->model_count; model++)
        if (strncmp(records->models[model], name ? name : "", CLIENT_MODEL_BYTES - 1) == 0) return model;
    return CLIENT_MODELS;
}

static int find_model(ClientRecords *records, const json_t *line) {
    const int known = client_records_model(records, line);
    if (known < CLIENT_MODELS || records->model_count == CLIENT_MODELS) return known;
    const char *name = json_string_value(json_object_get(line, "model"));
    snprintf(records->models[records->model_count], CLIENT_MODEL_BYTES, "%s", name ? name : "");
    return records->model_count++;
}

bool client_records_note(ClientRecords *records, json_t *line) {
    ClientRecord *record;
    const bool trains = metrics_is(line, "client");
    if (!trains && !metrics_is(line, "client_evaluation")) return true;
    if (!find_record(&record, records, line)) return false;
    const double samples = past_run_number(line, "samples"), loss = past_run_number(line, "loss");
    const int model = trains || !record ? CLIENT_MODELS : find_model(records, line);
    if (record && trains) {
        record->trained++;
        const double own = past_run_number(line, "own_samples");
        record->samples = isnan(own) ? samples : own;
        record->loss = loss;
    }
    if (model == CLIENT_MODELS) return true;
    record->tested = samples;
    records->last[model] = json_integer_value(json_object_get(line, "round"));
    record->tests[model].round = records->last[model];
    record->tests[model].accuracy = past_run_number(line, "accuracy");
    record->tests[model].loss = loss;
    json_decref(record->tests[model].line);
    record->tests[model].line = json_incref(line);
    return true;
}

void client_records_free(ClientRecords *records) {
    for (size_t i = 0; i < records->count; i++)
        for (int model = 0; model < CLIENT_MODELS; model++)
            json_decref(records->all[i].tests[model].line);
    free(records->all);
    *records = (ClientRecords){0};
}

bool client_records_tested(const ClientRecords *records, size_t client, int model) {
    const json_int_t round = records->all[client].tests[model].round;
    return round > 0 && round == records->last[model];
}
