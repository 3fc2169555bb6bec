// Part of run_details.h: adds the origin of a run: the samples of each client, and how to repeat the run.
#include "run_details.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "app/train/predictions.h"
#include "app/train/run_set_up.h"
#include "base/text.h"
#include "base/text_stream.h"
#include "datasets/partition/partition_stats.h"

enum { MOST_ROWS = 120 };

// The data ------------------------------------------------------------------------------------------------------------

// Sizes over all clients. distance: half the sum of the absolute differences between a client's class shares and those
// of all clients.
static void put_distribution(JsonObject *classes, const uint32_t *counts, uint32_t clients, uint32_t count) {
    PartitionStats stats;
    Error ignored;
    if (partition_statistics(&stats, counts, clients, count, &ignored) != STATUS_OK) {
        put_value(classes, "smallest", NULL);
        return;
    }
    put_whole(classes, "smallest", stats.smallest);
    put_whole(classes, "largest", stats.largest);
    put_real(classes, "distinct", stats.measures[MEASURE_CLASSES].mean);
    put_real(classes, "distance", stats.measures[MEASURE_EMD].mean / 2);
}

static void put_classes(JsonObject *of, const RunMemory *memory) {
    const uint32_t clients = memory->partition.clients, count = (uint32_t)memory->data.classes;
    const uint32_t every = (clients + MOST_ROWS - 1) / MOST_ROWS;
    uint32_t *counts = malloc((size_t)clients * count * sizeof *counts);
    JsonObject names;
    if (!counts) {
        put_value(of, "counts", NULL);
        return;
    }
    partition_count(counts, &memory->partition, memory->data.train.labels, count);
    put_whole(of, "of", clients);
    put_distribution(of, counts, clients, count);
    put_class_counts(of, counts, clients, count, every);
    json_begin_array(&names);
    for (uint32_t client = 0; client < clients; client += every)
        put_whole(&names, NULL, client);
    put_object(of, "clients", &names);
    put_class_names(of, &memory->data);
    free(counts);
}

// Partitions the data again as the run did, if the data is on this machine; otherwise writes "why" it cannot.
static void find_classes(JsonObject *of, const PastRun *run) {
    Options options = run->options;
    DatasetSource source;
    RunMemory memory;
    Error err;
    char hash[HASH_TEXT_BYTES], why[ERROR_MESSAGE_BYTES + 64];
    Status status = options_resolve(&options, &err);
    if (status == STATUS_OK) status = run_load_data(&memory, &source, NULL, &options, &err);
    if (status != STATUS_OK) {
        snprintf(why, sizeof why, "the run's data is not at hand (%s)", err.message);
        // running out of memory fails the report; it is no property of the data
        put_readable(of, "why", status == STATUS_OS ? NULL : why);
        return;
    }
    const char *told = json_string_value(json_object_get(run->start, "partition_xxh3"));
    write_hash(hash, run_hash_partition(&memory));
    if (told && strcmp(told, hash) != 0)
        put_text(of, "why", "data or split are not those of the run any more");
    else if (memory.data.classes < 2 || dataset_has_targets(&memory.data.items))
        put_text(of, "why", "the data has no classes");
    else if (memory.data.classes > MOST_CLASSES)
        put_text(of, "why", "the data has more than 256 classes");
    else
        put_classes(of, &memory);
    run_memory_free(&memory);
}

// How to repeat it ----------------------------------------------------------------------------------------------------

// Writes the options whose values differ from their defaults.
static void print_command(FILE *file, const PastRun *run) {
    Options usual;
    options_defaults(&usual);
    fputs("sounder train", file);
    for (int i = 0; i < option_count; i++) {
        const Option *option = &option_table[i];
        char value[OPTION_VALUE_BYTES], word[SHELL_WORD_BYTES];
        if (option->unsaved || option_equal(&run->options, &usual, option)) continue;
        past_run_option(value, run, option);
        if (!*value || (!option->preset && !run->options.given[i])) continue;
        fprintf(file, " --%s%c%s", option->name, option->type == OPTION_FLAG || *value == '-' ? '=' : ' ',
                shell_word(word, value));
    }
    char path[SHELL_WORD_BYTES];
    fprintf(file, "\n\n# or, from this run's folder:\nsounder train %s/config.yaml --out runs/again\n",
            shell_path(path, run->path));
    if (strcmp(run->options.noise_key, "system") == 0)
        fputs("# with --noise-key system each run draws other noise\n", file);
}

static void print_evaluation(FILE *file, const PastRun *run) {
    char path[SHELL_WORD_BYTES];
    shell_path(path, run->path);
    fprintf(file, "sounder eval %s --confusion --json > %s/eval.json", path, path);
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
    const json_int_t nodes = json_integer_value(json_object_get(run->start, "nodes"));
    if (nodes > 1) fprintf(file, "%son %d machines", separator, (int)nodes);
    fprintf(file, "%sworkers lost %g", separator, run->workers_lost);
}

static void put_text_of(JsonObject *details, const char *key, void (*print)(FILE *file, const PastRun *run),
                        const PastRun *run) {
    TextStream stream;
    FILE *file = text_open(&stream);
    if (file) print(file, run);
    put_readable(details, key, text_close(&stream) ? stream.text : NULL);
    free(stream.text);
}

static void print_config(FILE *file, const PastRun *run) {
    char path[4096 + 16], bytes[4096];
    snprintf(path, sizeof path, "%s/config.yaml", run->path);
    FILE *config = fopen(path, "re");
    for (size_t count; config && (count = fread(bytes, 1, sizeof bytes, config)) > 0;)
        fwrite(bytes, 1, count, file);
    if (config) fclose(config);
}

void run_details_put_origin(JsonObject *details, const PastRun *run) {
    JsonObject classes;
    json_begin(&classes);
    find_classes(&classes, run);
    put_object(details, "classes", &classes);
    put_text_of(details, "evaluate", print_evaluation, run);
    put_text_of(details, "repeat", print_command, run);
    put_text_of(details, "facts", print_facts, run);
    put_text_of(details, "config", print_config, run);
}
