// Part of command.h: `sounder partition` divides the samples as a run would, and shows each client's share.
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/command.h"
#include "app/options/option_table.h"
#include "app/train/client_names.h"
#include "app/train/predictions.h"
#include "app/train/run_set_up.h"
#include "base/log.h"
#include "base/text.h"
#include "datasets/partition.h"
#include "datasets/partition/partition_stats.h"
#include "io/json.h"

// Options of this command, beside those of a run.
typedef struct Wishes {
    bool json;
    char save[OPTION_TEXT_BYTES]; // "": saves nothing
} Wishes;

// clang-format off
static const Option own_rows[] = {
    {.name = "json", .type = OPTION_FLAG, .offset = offsetof(Wishes, json), .help = "the same as one JSON object, with all counts"},
    {.name = "save", .type = OPTION_TEXT, .offset = offsetof(Wishes, save), .placeholder = "FILE",
     .help = "write the partition to a new file, for --partition file:FILE"},
};
// clang-format on
enum { OWN_ROWS = sizeof own_rows / sizeof *own_rows };
const OptionTable partition_options = {.rows = own_rows, .count = OWN_ROWS, .command = "partition"};

static bool is_own(const char *word) {
    const size_t length = strcspn(word, "=");
    for (int i = 0; i < OWN_ROWS && strncmp(word, "--", 2) == 0; i++)
        if (strlen(own_rows[i].name) + 2 == length && strncmp(word + 2, own_rows[i].name, length - 2) == 0) return true;
    return false;
}

// Removes the command's own options from argv; *argc and argv keep the options of a run.
static Status take_wishes(Wishes *wishes, int *argc, char **argv, Error *err) {
    const char *seen[OWN_ROWS] = {NULL};
    int left = 0;
    *wishes = (Wishes){0};
    for (int next = 0; next < *argc;) {
        if (is_own(argv[next]))
            TRY(option_read_next(wishes, seen, &next, *argc, argv, &partition_options, err));
        else
            argv[left++] = argv[next++];
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

enum { MOST_ROWS = 40, MOST_COLUMNS = 36, NAME_BYTES = 64 };

// Draws a client's share of a class as a shade, from none to all.
static char shade_of(uint32_t count, uint32_t size) {
    static const char shades[] = ".:-=+*#%@";
    const double share = size > 0 ? (double)count / size : 0;
    const int level = (int)(share * (sizeof shades - 2) + 0.999);
    return count == 0 ? ' ' : shades[level < (int)sizeof shades - 1 ? level : (int)sizeof shades - 2];
}

// Names of other users are cut, and their control characters replaced.
static const char *name_of(char name[NAME_BYTES], const ClientNames *names, uint32_t client) {
    char number[CLIENT_NUMBER_BYTES];
    disarm_text(text_cut(name, NAME_BYTES, client_name(number, names, client)));
    return name;
}

// Width of the column of names, in characters.
static int names_width(const ClientNames *names, uint32_t clients, uint32_t every) {
    char name[NAME_BYTES];
    size_t width = sizeof "client" - 1;
    for (uint32_t client = 0; client < clients; client += every) {
        const size_t own = text_width(name_of(name, names, client));
        if (own > width) width = own;
    }
    return (int)width;
}

// Numbers are on the right, names on the left.
static void print_name(const ClientNames *names, uint32_t client, int width) {
    char name[NAME_BYTES];
    const int pad = width - (int)text_width(name_of(name, names, client));
    if (names->count > 0)
        printf("%s%*s", name, pad, "");
    else
        printf("%*s%s", pad, "", name);
}

// The samples of each client, and of each class. Two letters per class, or one if the terminal is narrow: a broken line
// would be unreadable. Samples of one class, or with targets, have no picture.
static void print_clients(const uint32_t *counts, const ClientNames *names, uint32_t clients, uint32_t classes) {
    enum { BESIDE = sizeof "  samples  ||" - 1 };
    const uint32_t every = (clients + MOST_ROWS - 1) / MOST_ROWS;
    const int least = 8, wide = names_width(names, clients, every), space = columns_of(stdout) - BESIDE - wide;
    const uint32_t room = (uint32_t)(space > least ? space : least),
                   most = classes < MOST_COLUMNS ? classes : MOST_COLUMNS, letters = 2 * most <= room ? 2 : 1,
                   columns = most * letters <= room ? most : room;
    printf("%-*s  samples", wide, "client");
    if (classes > 1) printf("  classes 0 to %u", columns - 1);
    putchar('\n');
    for (uint32_t client = 0; client < clients; client += every) {
        const uint32_t *row = counts + (size_t)client * classes;
        uint32_t size = 0;
        for (uint32_t c = 0; c < classes; c++)
            size += row[c];
        print_name(names, client, wide);
        printf(" %8u", size);
        if (classes > 1) fputs("  |", stdout);
        for (uint32_t i = 0; i < letters * columns && classes > 1; i++)
            putchar(shade_of(row[i / letters], size));
        fputs(classes > 1 ? "|\n" : "\n", stdout);
    }
    if (classes > 1)
        print_paragraph(stdout, 0, "shades: the share of the client's samples, from none (blank) to all: .:-=+*#%@");
    if (every > 1) printf("(one client in %u, of %u)\n", every, clients);
    if (columns < classes) printf("(the first %u of %u classes)\n", columns, classes);
}

static void print_statistics(const PartitionStats *stats, uint32_t samples, uint32_t clients, uint32_t classes) {
    char text[256];
    snprintf(
        text, sizeof text,
        "samples: %u of %u for %u clients; smallest %u, median %g, largest %u, coefficient of variation %.3f, Gini "
        "%.3f",
        stats->samples, samples, clients, stats->smallest, stats->median, stats->largest, stats->variation,
        stats->gini);
    print_paragraph(stdout, 0, text);
    if (classes < 2) return;
    printf("%-16s %8s %8s %8s\n", "", "mean", "weighted", "worst");
    for (int kind = 0; kind < PARTITION_MEASURES; kind++) {
        const ClientMean *of = &stats->measures[kind];
        printf("%-16s %8.3f %8.3f %8.3f\n", partition_measures[kind], of->mean, of->weighted, of->worst);
    }
}

// JSON ---------------------------------------------------------------------------------------------------------------

static Status print_json(const PartitionStats *stats, const uint32_t *counts, uint32_t classes,
                         const ClientNames *names, const Options *options, const RunMemory *memory, Error *err) {
    const uint32_t clients = memory->partition.clients;
    char form[OPTION_TEXT_BYTES];
    JsonObject all;
    json_begin(&all);
    put_readable(&all, "data", options->data);
    put_readable(&all, "partition", options_partition(form, options));
    put_whole(&all, "seed", (int64_t)options->seed);
    put_whole(&all, "samples", memory->data.train.count);
    put_whole(&all, "dealt", stats->samples);
    put_whole(&all, "clients", clients);
    put_whole(&all, "smallest", stats->smallest);
    put_whole(&all, "largest", stats->largest);
    put_real(&all, "median", stats->median);
    put_real(&all, "variation", stats->variation);
    put_real(&all, "gini", stats->gini);
    for (int kind = 0; kind < PARTITION_MEASURES && classes > 1; kind++) {
        const ClientMean *of = &stats->measures[kind];
        JsonObject measure;
        json_begin(&measure);
        put_real(&measure, "mean", of->mean);
        put_real(&measure, "weighted", of->weighted);
        put_real(&measure, "worst", of->worst);
        put_object(&all, partition_measures[kind], &measure);
    }
    put_class_counts(&all, counts, clients, classes, 1);
    put_class_names(&all, &memory->data);
    put_client_names(&all, names, 1);
    return json_print(stdout, &all, JSON_COMPACT, "the partition", err);
}

static Status show(const RunMemory *memory, const Options *options, const Wishes *wishes, Error *err) {
    const bool has_classes = !dataset_has_targets(&memory->data.items);
    const uint32_t clients = memory->partition.clients, classes = has_classes ? (uint32_t)memory->data.classes : 1;
    const uint16_t *labels = has_classes ? memory->data.train.labels : NULL;
    uint32_t *counts = malloc((size_t)clients * classes * sizeof *counts);
    if (!counts) return fail(err, STATUS_OS, "no memory for the classes of %u clients", clients);
    partition_count(counts, &memory->partition, labels, classes);
    PartitionStats stats;
    ClientNames names = {0};
    Status status = partition_statistics(&stats, counts, clients, classes, err);
    if (status == STATUS_OK) status = client_names_find(&names, memory, options, err);
    if (status == STATUS_OK && wishes->json)
        status = print_json(&stats, counts, classes, &names, options, memory, err);
    else if (status == STATUS_OK) {
        print_clients(counts, &names, clients, classes);
        print_statistics(&stats, memory->data.train.count, clients, classes);
        const Partition *partition = &memory->partition;
        if (partition_tests_on(partition) == TESTS_ON_OWN)
            printf("test samples: %u of %u for %u clients; %u clients have none\n",
                   partition->own_offsets[partition->clients], memory->data.test.count, partition->clients,
                   partition_untested(partition));
    }
    client_names_free(&names);
    free(counts);
    return status;
}

Status command_partition(int argc, char **argv, int *exit_code, Error *err) {
    (void)exit_code;
    Wishes wishes;
    Options options;
    DatasetSource source;
    RunMemory memory;
    TRY(take_wishes(&wishes, &argc, argv, err));
    TRY(read_options(&options, argc, argv, err));
    TRY(run_load_data(&memory, &source, NULL, &options, err));
    Status status = STATUS_OK; // save first: if that fails, nothing is printed
    if (wishes.save[0]) status = partition_file_write(wishes.save, &memory.partition, memory.data.train.count, err);
    if (status == STATUS_OK) status = show(&memory, &options, &wishes, err);
    run_memory_free(&memory);
    return status;
}
