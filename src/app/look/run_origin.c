// What a run was made from: who has which samples, and how to repeat it.
#include "run_details.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "app/run/run_set_up.h"
#include "datasets/partition_stats.h"

enum { MOST_ROWS = 120 };

static json_t *real_or_null(double value) {
    return isfinite(value) ? json_real(value) : json_null();
}

// The data ------------------------------------------------------------------------------------------------------------

// Sizes over all clients; distance: half the sum of the differences of a client's shares to those of all.
static void put_distribution(json_t *classes, const uint32_t *counts, uint32_t clients, uint32_t count) {
    double all[MOST_CLASSES] = {0}, samples = 0, distinct = 0, distance = 0, smallest = INFINITY, largest = 0, had = 0;
    for (size_t i = 0; i < (size_t)clients * count; i++) {
        all[i % count] += counts[i];
        samples += counts[i];
    }
    for (uint32_t client = 0; client < clients; client++) {
        const uint32_t *row = counts + (size_t)client * count;
        double size = 0, apart = 0;
        for (uint32_t c = 0; c < count; c++)
            size += row[c];
        smallest = fmin(smallest, size);
        largest = fmax(largest, size);
        if (size == 0) continue;
        had++;
        for (uint32_t c = 0; c < count; c++) {
            distinct += row[c] > 0;
            apart += fabs(row[c] / size - all[c] / samples) / 2;
        }
        distance += apart;
    }
    json_object_set_new(classes, "smallest", real_or_null(smallest));
    json_object_set_new(classes, "largest", real_or_null(largest));
    json_object_set_new(classes, "distinct", real_or_null(distinct / had));
    json_object_set_new(classes, "distance", real_or_null(distance / had));
}

static json_t *count_classes(const RunMemory *memory) {
    const uint32_t clients = memory->partition.clients, count = (uint32_t)memory->data.classes;
    uint32_t *counts = malloc((size_t)clients * count * sizeof *counts);
    json_t *classes = json_object(), *rows = json_array(), *names = json_array();
    if (counts) partition_count(counts, &memory->partition, memory->data.train.labels, count);
    const uint32_t every = (clients + MOST_ROWS - 1) / MOST_ROWS;
    for (uint32_t client = 0; client < clients && counts; client += every) {
        json_t *row = json_array();
        for (uint32_t c = 0; c < count; c++)
            json_array_append_new(row, json_integer(counts[(size_t)client * count + c]));
        json_array_append_new(rows, row);
        json_array_append_new(names, json_integer(client));
    }
    json_object_set_new(classes, "of", json_integer(clients));
    if (counts) put_distribution(classes, counts, clients, count);
    json_object_set_new(classes, "counts", rows);
    json_object_set_new(classes, "clients", names);
    free(counts);
    return classes;
}

static json_t *reason(const char *why) {
    return json_pack("{s:s}", "why", why);
}

// The samples are dealt again as the run has dealt them, if its data is on this machine.
static json_t *find_classes(const PastRun *run) {
    Options options = run->options;
    DatasetSource source;
    RunMemory memory;
    Error err;
    char hash[HASH_TEXT_BYTES], why[ERROR_MESSAGE_BYTES + 64];
    Status status = options_resolve(&options, &err);
    if (status == STATUS_OK) status = run_load_data(&memory, &source, NULL, &options, &err);
    if (status != STATUS_OK) {
        snprintf(why, sizeof why, "the run's data is not at hand (%s)", err.message);
        return reason(why);
    }
    json_t *classes;
    const char *told = json_string_value(json_object_get(run->start, "partition_xxh3"));
    write_hash(hash, run_hash_partition(&memory));
    if (told && strcmp(told, hash) != 0)
        classes = reason("data or split are not those of the run any more");
    else if (memory.data.classes < 2 || memory.data.classes > MOST_CLASSES || dataset_has_targets(&memory.data.items))
        classes = reason("the data has no classes");
    else
        classes = count_classes(&memory);
    run_memory_free(&memory);
    return classes;
}

// How to repeat it ----------------------------------------------------------------------------------------------------

static void print_quoted(FILE *file, const char *text) {
    if (*text && !text[strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._:/=,+-")]) {
        fputs(text, file);
        return;
    }
    fputc('\'', file);
    for (; *text; text++)
        fputs(*text == '\'' ? "'\\''" : (char[]){*text, '\0'}, file);
    fputc('\'', file);
}

// The options that are not what they are without being given.
static void print_command(FILE *file, const PastRun *run) {
    Options usual;
    options_defaults(&usual);
    fputs("sounder train", file);
    for (int i = 0; i < option_count; i++) {
        const Option *option = &option_table[i];
        char value[OPTION_VALUE_BYTES];
        if (option->unsaved || option_equal(&run->options, &usual, option)) continue;
        past_run_option(value, run, option);
        if (!*value || (!option->preset && !run->options.given[i])) continue;
        fprintf(file, " --%s%c", option->name, option->type == OPTION_FLAG ? '=' : ' ');
        print_quoted(file, value);
    }
    fputs("\n\n# or, from this run's folder:\nsounder train ", file);
    print_quoted(file, run->path);
    fputs("/config.yaml --out runs/again\n", file);
}

static void print_facts(FILE *file, const PastRun *run) {
    static const struct {
        const char *key, *what;
    } facts[] = {{"sounder", "sounder"},
                 {"time", "begun"},
                 {"host", "host"},
                 {"device", "computed with"},
                 {"blas", "multiplied through"},
                 {"data_xxh3", "data XXH3"},
                 {"partition_xxh3", "split XXH3"}};
    const char *separator = "";
    for (size_t i = 0; i < sizeof facts / sizeof *facts; i++) {
        const char *value = json_string_value(json_object_get(run->start, facts[i].key));
        if (!value || !*value) continue;
        fprintf(file, "%s%s %s", separator, facts[i].what, value);
        separator = " · ";
    }
    const char *sha256 = json_string_value(json_object_get(run->summary, "model_sha256"));
    if (sha256) fprintf(file, "%smodel SHA-256 %s", separator, sha256);
    fprintf(file, "%sworkers lost %g", separator, run->workers_lost);
}

static void put_text_of(json_t *details, const char *key, void (*print)(FILE *file, const PastRun *run),
                        const PastRun *run) {
    char *text = NULL;
    size_t bytes = 0;
    FILE *file = open_memstream(&text, &bytes);
    if (file) print(file, run);
    if (file && fclose(file) == 0 && text) json_object_set_new(details, key, json_string(text));
    free(text);
}

static void print_config(FILE *file, const PastRun *run) {
    char path[4096 + 16], bytes[4096];
    snprintf(path, sizeof path, "%s/config.yaml", run->path);
    FILE *config = fopen(path, "re");
    for (size_t count; config && (count = fread(bytes, 1, sizeof bytes, config)) > 0;)
        fwrite(bytes, 1, count, file);
    if (config) fclose(config);
}

void run_details_put_origin(json_t *details, const PastRun *run) {
    json_object_set_new(details, "classes", find_classes(run));
    put_text_of(details, "repeat", print_command, run);
    put_text_of(details, "facts", print_facts, run);
    put_text_of(details, "config", print_config, run);
}
