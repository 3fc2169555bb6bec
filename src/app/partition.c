// `sounder partition`: deals the samples as a run would, and shows who gets what.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "app/commands.h"
#include "app/options/option_table.h"
#include "app/run/run_set_up.h"
#include "base/log.h"
#include "datasets/partition.h"
#include "datasets/partition_stats.h"

// What the command knows besides the options of a run.
typedef struct Wishes {
    bool json;
    const char *save; // borrowed from argv; NULL: nothing is saved
} Wishes;

// Takes --json and --save out of argv; *argc and argv are what is left, for a run's options.
static Status take_wishes(Wishes *wishes, int *argc, char **argv, Error *err) {
    static const Option save = {.name = "save"};
    int left = 0;
    *wishes = (Wishes){0};
    for (int i = 0; i < *argc; i++) {
        if (strcmp(argv[i], "--json") == 0) {
            wishes->json = true;
        } else if (strncmp(argv[i], "--save=", 7) == 0) {
            TRY(option_once(&wishes->save, &save, argv[i] + 7, err));
        } else if (strcmp(argv[i], "--save") == 0) {
            if (++i == *argc) return fail(err, STATUS_USAGE, "--save: needs a value; write --save FILE");
            TRY(option_once(&wishes->save, &save, argv[i], err));
        } else {
            argv[left++] = argv[i];
        }
    }
    *argc = left;
    return STATUS_OK;
}

static Status read_options(Options *options, int argc, char **argv, Error *err) {
    options_defaults(options);
    TRY(options_parse(options, argc, argv, err));
    log_init((LogLevel)options->log_level, LOG_RANK_PARENT);
    if (options->resume[0])
        return fail(err, STATUS_USAGE,
                    "--resume: sounder partition shows what a new run would do; give it that run's "
                    "config.yaml instead");
    return options_resolve(options, err);
}

// Shades --------------------------------------------------------------------------------------------------------------

enum { MOST_ROWS = 40, MOST_COLUMNS = 36 };

// A client's share of a class, from none to all.
static char shade_of(uint32_t count, uint32_t size) {
    static const char shades[] = ".:-=+*#%@";
    const double share = size > 0 ? (double)count / size : 0;
    const int level = (int)(share * (sizeof shades - 2) + 0.999);
    return count == 0 ? ' ' : shades[level < (int)sizeof shades - 1 ? level : (int)sizeof shades - 2];
}

static uint32_t size_of(const uint32_t *counts, uint32_t classes) {
    uint32_t size = 0;
    for (uint32_t c = 0; c < classes; c++)
        size += counts[c];
    return size;
}

static void print_picture(const uint32_t *counts, uint32_t clients, uint32_t classes) {
    const uint32_t every = (clients + MOST_ROWS - 1) / MOST_ROWS,
                   columns = classes < MOST_COLUMNS ? classes : MOST_COLUMNS;
    printf("client  samples  classes 0 to %u (share of the client's samples, from none to all: \" .:-=+*#%%@\")\n",
           columns - 1);
    for (uint32_t client = 0; client < clients; client += every) {
        const uint32_t *row = counts + (size_t)client * classes, size = size_of(row, classes);
        printf("%6u %8u  |", client, size);
        for (uint32_t c = 0; c < columns; c++)
            printf("%c%c", shade_of(row[c], size), shade_of(row[c], size));
        fputs("|\n", stdout);
    }
    if (every > 1) printf("(one client in %u, of %u)\n", every, clients);
    if (columns < classes) printf("(the first %u of %u classes)\n", columns, classes);
}

static void print_tests(const Partition *partition, const Dataset *data) {
    if (partition_tests_on(partition) != TESTS_ON_OWN) return;
    printf("test samples: %u of %u for %u clients; %u clients have none\n", partition->own_offsets[partition->clients],
           data->test.count, partition->clients, partition_untested(partition));
}

static void print_statistics(const PartitionStats *stats, uint32_t samples, uint32_t clients, uint32_t classes) {
    printf("samples: %u of %u for %u clients; smallest %u, median %g, largest %u, coefficient of variation %.3f, Gini "
           "%.3f\n",
           stats->samples, samples, clients, stats->smallest, stats->median, stats->largest, stats->variation,
           stats->gini);
    if (classes < 2) return;
    printf("%-16s %8s %8s %8s\n", "", "mean", "weighted", "worst");
    for (int kind = 0; kind < PARTITION_MEASURES; kind++) {
        const ClientMean *of = &stats->measures[kind];
        printf("%-16s %8.3f %8.3f %8.3f\n", partition_measures[kind], of->mean, of->weighted, of->worst);
    }
}

// JSON ---------------------------------------------------------------------------------------------------------------

static json_t *json_counts(const uint32_t *counts, uint32_t clients, uint32_t classes) {
    json_t *rows = json_array();
    for (uint32_t client = 0; client < clients; client++) {
        json_t *row = json_array();
        for (uint32_t c = 0; c < classes; c++)
            json_array_append_new(row, json_integer(counts[(size_t)client * classes + c]));
        json_array_append_new(rows, row);
    }
    return rows;
}

static Status print_json(const PartitionStats *stats, const uint32_t *counts, const Options *options,
                         const RunMemory *memory, Error *err) {
    const uint32_t clients = memory->partition.clients, classes = (uint32_t)memory->data.classes;
    char form[OPTION_TEXT_BYTES];
    json_t *all = json_pack("{s:s, s:s, s:I, s:i, s:i, s:i, s:i, s:i, s:i, s:f, s:f, s:f}", "data", options->data,
                            "partition", options_partition(form, options), "seed", (json_int_t)options->seed, "samples",
                            (int)memory->data.train.count, "dealt", (int)stats->samples, "clients", (int)clients,
                            "classes", (int)classes, "smallest", (int)stats->smallest, "largest", (int)stats->largest,
                            "median", stats->median, "variation", stats->variation, "gini", stats->gini);
    for (int kind = 0; kind < PARTITION_MEASURES && all && classes > 1; kind++) {
        const ClientMean *of = &stats->measures[kind];
        json_object_set_new(
            all, partition_measures[kind],
            json_pack("{s:f, s:f, s:f}", "mean", of->mean, "weighted", of->weighted, "worst", of->worst));
    }
    json_object_set_new(all, "counts", json_counts(counts, clients, classes));
    char *text = all ? json_dumps(all, JSON_COMPACT) : NULL;
    json_decref(all);
    if (!text) return fail(err, STATUS_OS, "no memory for the partition of %u clients as JSON", clients);
    puts(text);
    free(text);
    return STATUS_OK;
}

static Status show(const RunMemory *memory, const Options *options, const Wishes *wishes, Error *err) {
    const uint32_t clients = memory->partition.clients, classes = (uint32_t)memory->data.classes;
    const uint16_t *labels = !dataset_has_targets(&memory->data.items) ? memory->data.train.labels : NULL;
    uint32_t *counts = malloc((size_t)clients * classes * sizeof *counts);
    if (!counts) return fail(err, STATUS_OS, "no memory for the classes of %u clients", clients);
    partition_count(counts, &memory->partition, labels, classes);
    PartitionStats stats;
    Status status = partition_statistics(&stats, counts, clients, classes, err);
    if (status == STATUS_OK && wishes->json)
        status = print_json(&stats, counts, options, memory, err);
    else if (status == STATUS_OK) {
        print_picture(counts, clients, classes);
        print_statistics(&stats, memory->data.train.count, clients, classes);
        print_tests(&memory->partition, &memory->data);
    }
    free(counts);
    return status;
}

Status command_partition(int argc, char **argv, Error *err) {
    Wishes wishes;
    Options options;
    DatasetSource source;
    RunMemory memory;
    TRY(take_wishes(&wishes, &argc, argv, err));
    TRY(read_options(&options, argc, argv, err));
    TRY(run_load_data(&memory, &source, NULL, &options, err));
    Status status = STATUS_OK; // a file that cannot be made comes before what is printed
    if (wishes.save) status = partition_file_write(wishes.save, &memory.partition, memory.data.train.count, err);
    if (status == STATUS_OK) status = show(&memory, &options, &wishes, err);
    run_memory_free(&memory);
    return status;
}
