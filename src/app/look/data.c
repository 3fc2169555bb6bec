// Part of command.h: `sounder data` lists data sets: place, form, size and hashes. `sounder data get NAME` downloads
// one with the script that is installed with the program.
#include <dirent.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "app/command.h"
#include "app/look/look_options.h"
#include "app/look/table.h"
#include "app/options/options.h"
#include "app/train/run_record.h"
#include "base/module.h"
#include "base/text.h"
#include "datasets/doubts.h"
#include "datasets/formats/csv_files.h"
#include "datasets/formats/format.h"
#include "datasets/settings.h"
#include "fedavg/memory/dataset_segment.h"

// Getting -------------------------------------------------------------------------------------------------------------

// Folders of the script from the program's: where it is installed, and in the build folder.
static const char *const script_folders[] = {"/../libexec/sounder", "/../tools"};

// Runs the script, which prints its own messages; its exit status becomes the command's.
static Status get(int argc, char **argv, Error *err) {
    char script[PATH_MAX];
    if (argc < 1)
        return fail(err, STATUS_USAGE, "sounder data get: needs a name; write sounder data get mnist, or get --help");
    char **arguments = calloc((size_t)argc + 2, sizeof *arguments);
    if (!arguments) return fail(err, STATUS_OS, "no memory for %d words", argc);
    memcpy(arguments + 1, argv, (size_t)argc * sizeof *argv);
    for (size_t i = 0; i < sizeof script_folders / sizeof *script_folders; i++) {
        beside_program(script, script_folders[i], "get-data");
        arguments[0] = script;
        execv(script, arguments);
    }
    free(arguments);
    return fail_errno(err, STATUS_UNAVAILABLE,
                      "%s cannot be started; install sounder anew, or put files into a folder yourself", script);
}

// Listing -------------------------------------------------------------------------------------------------------------

// Columns of the table, in their order.
enum {
    NAME,
    FORM,
    TRAIN,
    VALIDATION,
    TEST,
    SHAPE,
    VALUES,
    VOCABULARY,
    CLASSES,
    CLIENTS,
    MEGABYTES,
    HASH,
    WHERE,
    PROBLEM,
    FACTS
};

typedef struct Heading {
    const char *title, *key;
    int decimals;
    ColumnRoom room;
} Heading;

static void add_columns(Table *table, const Heading *headings, size_t count) {
    for (size_t i = 0; i < count; i++) {
        const size_t column = table_add_column(table, headings[i].title, headings[i].key, headings[i].decimals);
        table_set_room(table, column, headings[i].room);
    }
}

static const Heading facts[FACTS] = {
    [NAME] = {"name", "name", -1, ROOM_USUAL},         [FORM] = {"form", "form", -1, ROOM_USUAL},
    [TRAIN] = {"train", "train", 0, ROOM_USUAL},       [VALIDATION] = {"validation", "validation", 0, ROOM_USUAL},
    [TEST] = {"test", "test", 0, ROOM_USUAL},          [SHAPE] = {"shape", "shape", -1, ROOM_USUAL},
    [VALUES] = {"values", "values", -1, ROOM_USUAL},   [VOCABULARY] = {"vocabulary", "vocabulary", 0, ROOM_USUAL},
    [CLASSES] = {"classes", "classes", 0, ROOM_USUAL}, [CLIENTS] = {"clients", "clients", 0, ROOM_USUAL},
    [MEGABYTES] = {"MB", "megabytes", 1, ROOM_SPARE},  [HASH] = {"xxh3", "xxh3", -1, ROOM_SPARE},
    [WHERE] = {"where", "where", -1, ROOM_PATH},       [PROBLEM] = {"problem", "problem", -1, ROOM_USUAL},
};

typedef struct Listing {
    Table table;
    Error problem; // the first problem
    Status status; // the status of that problem
} Listing;

static void put_facts(Listing *listing, const DatasetSource *source, const Dataset *data) {
    char text[64];
    Table *table = &listing->table;
    const bool has_targets = dataset_has_targets(&data->items);
    table_put_number(table, TRAIN, data->train.count - data->validation_count);
    if (data->validation_count > 0) table_put_number(table, VALIDATION, data->validation_count);
    table_put_number(table, TEST, data->test.count);
    snprintf(text, sizeof text, "%dx%dx%d", data->shape.channels, data->shape.rows, data->shape.columns);
    table_put_text(table, SHAPE, text);
    snprintf(text, sizeof text, "%s%s",
             data->items.vocabulary > 0           ? data->items.texts & DATASET_TEXTS_OF_WORDS ? "words" : "characters"
             : !dataset_has_samples(&data->items) ? "labels alone"
             : data->items.pixel_bytes == 1       ? "uint8"
                                                  : "float32",
             dataset_has_rows(&data->items) ? ", rows of labels"
             : has_targets                  ? ", targets"
                                            : "");
    table_put_text(table, VALUES, text);
    if (data->items.vocabulary > 0) table_put_number(table, VOCABULARY, data->items.vocabulary);
    if (!has_targets) table_put_number(table, CLASSES, data->classes);
    if (data->users > 0) table_put_number(table, CLIENTS, data->users);
    const uint64_t bytes =
        source->block_bytes + source->samples[DATASET_TRAIN].bytes + source->samples[DATASET_TEST].bytes;
    table_put_number(table, MEGABYTES, (double)bytes / 1e6);
    snprintf(text, sizeof text, "0x%016" PRIx64, run_hash_data(data));
    table_put_text(table, HASH, text);
}

static Status read_facts(Listing *listing, const char *place, Error *err) {
    DatasetSource source;
    DatasetSegment memory;
    Dataset data;
    TRY(dataset_find(&source, place, 1, err));
    if (source.format) table_put_text(&listing->table, FORM, source.format->name);
    TRY(dataset_segment_load(&memory, &source, err));
    Status status = dataset_segment_view(&data, &memory, err);
    if (status == STATUS_OK) put_facts(listing, &source, &data);
    if (status == STATUS_OK) dataset_warn_of_doubts(&data, &source);
    if (status == STATUS_OK) status = dataset_segment_check(&memory, err);
    if (status == STATUS_OK) dataset_segment_keep(&memory, &source);
    dataset_segment_free(&memory);
    return status;
}

// Lists one data set; if it is broken, its row says why.
static void list_one(Listing *listing, const char *place) {
    Error problem = {.message = ""};
    char name[PATH_MAX];
    snprintf(name, sizeof name, "%.*s", (int)settings_place_bytes(place), place);
    const char *slash = strrchr(name, '/');
    table_add_row(&listing->table);
    table_put_text(&listing->table, NAME, slash && slash[1] ? slash + 1 : name);
    table_put_text(&listing->table, WHERE, place);
    Status status = read_facts(listing, place, &problem);
    if (status == STATUS_OK) return;
    table_put_text(&listing->table, PROBLEM, problem.message);
    if (listing->status != STATUS_OK) return;
    listing->status = status;
    listing->problem = problem;
}

static int is_visible(const struct dirent *entry) {
    return entry->d_name[0] != '.';
}

// Lists a data set, or all data sets in a folder. Returns how many there were.
static int list_place(Listing *listing, const char *place) {
    struct dirent **entries;
    char path[PATH_MAX];
    int count = 0;
    if (dataset_format_of(place)) {
        list_one(listing, place);
        return 1;
    }
    const int found = scandir(place, &entries, is_visible, alphasort);
    for (int i = 0; i < found; i++) {
        if (snprintf(path, sizeof path, "%s/%s", place, entries[i]->d_name) < PATH_MAX && dataset_format_of(path)) {
            list_one(listing, path);
            count++;
        }
        free(entries[i]);
    }
    if (found >= 0) free(entries);
    return count;
}

static Status list_all(Listing *listing, const LookOptions *options, Error *err) {
    DatasetPlaces places;
    dataset_places(&places);
    for (int i = 0; i < places.count && options->folder_count == 0; i++)
        list_place(listing, places.folder[i]);
    for (int i = 0; i < options->folder_count; i++) {
        const char *data = options->folders[i];
        char place[2 * PATH_MAX];
        if (!settings_full(place, sizeof place, data)) return fail_errno(err, STATUS_NOINPUT, "%.200s", data);
        if (data[settings_place_bytes(data)]) {
            list_one(listing, place);
            continue;
        }
        if (list_place(listing, place) > 0) continue;
        struct stat about;
        char table[DATASET_PATH_BYTES];
        if (dataset_other_table(table, place) || csv_files_of_clients(place) > 1 ||
            (stat(place, &about) == 0 && !S_ISDIR(about.st_mode)))
            return dataset_unknown(place, err);
        return fail(err, STATUS_NOINPUT,
                    "%s: no data set here or in the folders in it; `sounder help data` says what one looks like; "
                    "python3 -m sounder.write FOLDER OUT.npz makes one of folders of images by class, pickles of "
                    "arrays such as CIFAR's, Parquet and others",
                    options->folders[i]);
    }
    return STATUS_OK;
}

// Columns -------------------------------------------------------------------------------------------------------------

enum { COLUMN_NAME, COLUMN_ROLE, COLUMN_VALUES, COLUMN_TEXTS, COLUMN_GAPS, COLUMN_BECOMES };

static void put_column(void *to, const DatasetColumn *column) {
    enum { LONGEST = 60, ENDING = 4 };
    Table *table = to;
    char name[LONGEST + ENDING];
    text_cut(name, LONGEST, column->name);
    if (strlen(name) < strlen(column->name)) strcat(name, "...");
    table_add_row(table);
    table_put_text(table, COLUMN_NAME, name);
    table_put_text(table, COLUMN_ROLE, column->role);
    table_put_text(table, COLUMN_VALUES, column->values);
    if (column->texts > 0) table_put_number(table, COLUMN_TEXTS, column->texts);
    if (column->gaps > 0) table_put_number(table, COLUMN_GAPS, column->gaps);
    table_put_text(table, COLUMN_BECOMES, column->becomes);
}

// Prints what the columns of one table are taken for, also if it is refused as a data set.
static Status print_columns(const char *data, Error *err) {
    static const Heading titles[] = {{"column", "column", -1, ROOM_USUAL}, {"is", "role", -1, ROOM_USUAL},
                                     {"values", "values", -1, ROOM_USUAL}, {"texts", "texts", 0, ROOM_USUAL},
                                     {"gaps", "gaps", 0, ROOM_USUAL},      {"becomes", "becomes", -1, ROOM_USUAL}};
    char place[PATH_MAX];
    Table table = {0};
    Form settings;
    const size_t place_bytes = settings_place_bytes(data);
    snprintf(place, sizeof place, "%.*s", (int)place_bytes, data);
    const DatasetFormat *format = dataset_format_of(place);
    if (!format || !format->tell) return STATUS_OK;
    TRY(settings_parse(&settings, data + place_bytes, err));
    add_columns(&table, titles, sizeof titles / sizeof *titles);
    Status status = format->tell(put_column, &table, place, &settings, err);
    if (status == STATUS_OK) {
        putchar('\n');
        table_drop_empty(&table);
        status = table_print(stdout, &table, TABLE_TEXT, err);
    }
    table_free(&table);
    return status;
}

Status command_data(int argc, char **argv, int *exit_code, Error *err) {
    (void)exit_code;
    LookOptions options;
    if (argc > 0 && strcmp(argv[0], "get") == 0) return get(argc - 1, argv + 1, err);
    TRY(look_options_parse(&options, command_find("data"), argc, argv, err));
    Listing listing = {.status = STATUS_OK};
    add_columns(&listing.table, facts, FACTS);
    Status status = list_all(&listing, &options, err);
    if (status == STATUS_OK && listing.table.row_count == 0 && options.format == TABLE_TEXT)
        puts("no data sets are here; `sounder data get mnist` fetches one, `sounder help data` says how to bring your "
             "own");
    else if (status == STATUS_OK) {
        table_drop_empty(&listing.table);
        status = table_print(stdout, &listing.table, (TableFormat)options.format, err);
        Error ignored; // the data set's row tells why
        if (options.folder_count == 1 && options.format == TABLE_TEXT && status == STATUS_OK)
            print_columns(options.folders[0], &ignored);
    }
    table_free(&listing.table);
    if (status != STATUS_OK || listing.status == STATUS_OK) return status;
    *err = listing.problem;
    return listing.status;
}
