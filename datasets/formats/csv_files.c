#include "datasets/formats/csv_files.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "datasets/settings.h"

// One table -----------------------------------------------------------------------------------------------------------

// Length of a table's name without its ending; 0: it has none of a table.
static size_t stem_bytes(const char *name) {
    static const char *const endings[] = {".csv", ".csv.gz", ".tsv", ".tsv.gz"};
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++)
        if (dataset_has_ending(name, endings[i])) return strlen(name) - strlen(endings[i]);
    return 0;
}

static bool is_kind(const char *path, mode_t kind) {
    struct stat about;
    return stat(path, &about) == 0 && (about.st_mode & S_IFMT) == kind;
}

static bool is_table(const char *place) {
    return stem_bytes(place) > 0 && is_kind(place, S_IFREG);
}

// A pair --------------------------------------------------------------------------------------------------------------

typedef struct Pair {
    char names[2][DATASET_FILE_NAME_BYTES * 12]; // by CsvPart
} Pair;

// Writes the name of the tests beside a table whose name ends like GunPoint_TRAIN.tsv. Returns false for others.
static bool name_tests(Pair *pair, const char *name) {
    static const char train[] = "train";
    const size_t word = sizeof train - 1, stem = stem_bytes(name);
    if (stem <= word || strncasecmp(name + stem - word, train, word) != 0 || strlen(name) >= sizeof pair->names[0])
        return false;
    const char *old = name + stem - word;
    if (isalnum((unsigned char)old[-1])) return false;
    const char *new = islower((unsigned char)old[0]) ? "test" : islower((unsigned char)old[1]) ? "Test" : "TEST";
    snprintf(pair->names[CSV_TRAIN], sizeof pair->names[CSV_TRAIN], "%s", name);
    snprintf(pair->names[CSV_TEST], sizeof pair->names[CSV_TEST], "%.*s%s%s", (int)(stem - word), name, new,
             name + stem);
    return true;
}

// Finds the only pair of a folder that has other names than train.csv and test.csv.
static bool find_named_pair(Pair *pair, const char *folder) {
    Pair one;
    int found = 0;
    DIR *listing = opendir(folder);
    for (const struct dirent *entry; listing && (entry = readdir(listing));) {
        if (!name_tests(&one, entry->d_name) || !dataset_has_file(folder, one.names[CSV_TEST])) continue;
        *pair = one;
        found++;
    }
    if (listing) closedir(listing);
    return found == 1;
}

// train.csv, or train.csv.gz if the folder has that alone; the other names of a pair only if it has neither part.
static DatasetPresence find_pair(Pair *pair, const char *folder) {
    static const char *const names[][2] = {{"train.csv", "train.csv.gz"}, {"test.csv", "test.csv.gz"}};
    int found = 0;
    for (CsvPart part = 0; part < 2; part++) {
        const bool is_packed = !dataset_has_file(folder, names[part][0]) && dataset_has_file(folder, names[part][1]);
        snprintf(pair->names[part], sizeof pair->names[part], "%s", names[part][is_packed]);
        found += dataset_has_file(folder, pair->names[part]);
    }
    if (found == 0 && find_named_pair(pair, folder)) found = 2;
    return found == 2 ? DATASET_WHOLE : found == 1 ? DATASET_IN_PART : DATASET_ABSENT;
}

DatasetPresence csv_files_presence(const char *place) {
    Pair pair;
    return is_table(place) ? DATASET_WHOLE : find_pair(&pair, place);
}

// Lists ---------------------------------------------------------------------------------------------------------------

// client: (bytes) of its name; NULL: none.
static Status add(CsvFiles *files, const char *folder, const char *name, CsvPart part, const char *client, size_t bytes,
                  Error *err) {
    CsvPlace *all = realloc(files->all, (files->count + 1) * sizeof *all);
    if (!all) return fail(err, STATUS_OS, "no memory for the tables of %s", folder);
    files->all = all;
    CsvPlace *place = &all[files->count++];
    *place = (CsvPlace){.part = part, .client = client ? strndup(client, bytes) : NULL};
    if (asprintf(&place->path, "%s%s%s", folder, *name ? "/" : "", name) < 0) place->path = NULL;
    files->has_tests = files->has_tests || part == CSV_TEST;
    if (place->path && (place->client || !client)) return STATUS_OK;
    return fail(err, STATUS_OS, "no memory for the tables of %s", folder);
}

void csv_files_free(CsvFiles *files) {
    for (uint32_t i = 0; i < files->count; i++) {
        free(files->all[i].path);
        free(files->all[i].client);
    }
    free(files->all);
    *files = (CsvFiles){0};
}

// Names without a leading dot, in the order of the numbers in them.
static int is_shown(const struct dirent *entry) {
    return entry->d_name[0] != '.';
}

// Adds NAME.csv of a folder for client NAME.
static Status add_tables(CsvFiles *files, const char *folder, CsvPart part, Error *err) {
    struct dirent **entries;
    Status status = STATUS_OK;
    const int count = scandir(folder, &entries, is_shown, versionsort);
    if (count < 0) return fail_errno(err, STATUS_NOINPUT, "%s", folder);
    for (int i = 0; i < count; i++) {
        const char *name = entries[i]->d_name;
        char path[DATASET_PATH_BYTES];
        if (status == STATUS_OK && dataset_path(path, folder, name, err) == STATUS_OK && is_table(path))
            status = add(files, folder, name, part, name, stem_bytes(name), err);
        free(entries[i]);
    }
    free(entries);
    return status;
}

// Adds train/NAME.csv or test/NAME.csv, or the pair of a client's folder.
static Status add_folder(CsvFiles *files, const char *path, const char *name, Error *err) {
    Pair pair;
    CsvFiles others = {0};
    if (strcmp(name, "train") == 0) return add_tables(files, path, CSV_TRAIN, err);
    if (strcmp(name, "test") == 0) return add_tables(files, path, CSV_TEST, err);
    if (find_pair(&pair, path) == DATASET_WHOLE) {
        TRY(add(files, path, pair.names[CSV_TRAIN], CSV_TRAIN, name, strlen(name), err));
        return add(files, path, pair.names[CSV_TEST], CSV_TEST, name, strlen(name), err);
    }
    Status status = add_tables(&others, path, CSV_TRAIN, err);
    if (status == STATUS_OK && others.count > 0)
        status = fail(err, STATUS_NOINPUT, "%s: a client's folder has train.csv and test.csv; it has %s", path,
                      others.all[0].path);
    csv_files_free(&others);
    return status;
}

static Status add_clients(CsvFiles *files, const char *place, Error *err) {
    struct dirent **entries;
    TRY(add_tables(files, place, CSV_TRAIN, err));
    Status status = STATUS_OK;
    const int count = scandir(place, &entries, is_shown, versionsort);
    if (count < 0) return fail_errno(err, STATUS_NOINPUT, "%s", place);
    for (int i = 0; i < count; i++) {
        char path[DATASET_PATH_BYTES];
        if (status == STATUS_OK && dataset_path(path, place, entries[i]->d_name, err) == STATUS_OK &&
            is_kind(path, S_IFDIR))
            status = add_folder(files, path, entries[i]->d_name, err);
        free(entries[i]);
    }
    free(entries);
    return status;
}

uint32_t csv_files_of_clients(const char *place) {
    CsvFiles files = {0};
    Error ignored;
    Pair pair;
    if (!is_kind(place, S_IFDIR) || find_pair(&pair, place) != DATASET_ABSENT) return 0;
    const uint32_t count = add_clients(&files, place, &ignored) == STATUS_OK ? files.count : 0;
    csv_files_free(&files);
    return count;
}

bool csv_files_by_client(const char *place, const Form *settings) {
    Pair pair;
    return settings->given[SETTING_CLIENT] && settings_say(settings, SETTING_CLIENT, "file") &&
           is_kind(place, S_IFDIR) && find_pair(&pair, place) == DATASET_ABSENT;
}

// Finding -------------------------------------------------------------------------------------------------------------

// Writes the sentence for a missing table; the folder may have it under a name that other programs use.
static Status missing(const char *place, const char *name, Error *err) {
    char other[DATASET_PATH_BYTES];
    if (dataset_other_table(other, place))
        return fail(
            err, STATUS_NOINPUT,
            "%s: no file %s, where %s is; a table's parts are called train.csv and test.csv, and a table that is "
            "not in parts is named itself in --data",
            place, name, other);
    errno = ENOENT;
    return fail_errno(err, STATUS_NOINPUT, "%s/%s", place, name);
}

// All clients have tests of their own, or each gives a part of its rows.
static Status find_clients(CsvFiles *files, const char *place, Error *err) {
    uint32_t own = 0;
    TRY(add_clients(files, place, err));
    if (files->count == 0)
        return fail(err, STATUS_NOINPUT,
                    "%s: client=file is for a folder with a table for each client: NAME.csv, or NAME/train.csv and "
                    "NAME/test.csv; it has none",
                    place);
    for (uint32_t i = 0; i < files->count; i++) {
        const bool is_in_folder = strrchr(files->all[i].path, '/') != files->all[i].path + strlen(place);
        own += is_in_folder;
        if (own > 0 && own < i + 1)
            return fail(err, STATUS_DATA, "%s and %s: a table for each client, and a folder; give all the same form",
                        files->all[0].path, files->all[i].path);
    }
    return STATUS_OK;
}

Status csv_files_find(CsvFiles *files, const char *place, const Form *settings, Error *err) {
    Pair pair;
    *files = (CsvFiles){0};
    if (csv_files_by_client(place, settings))
        TRY(find_clients(files, place, err));
    else if (!is_kind(place, S_IFDIR))
        TRY(add(files, place, "", CSV_TRAIN, NULL, 0, err));
    else {
        find_pair(&pair, place);
        for (CsvPart part = 0; part < 2; part++) {
            if (!dataset_has_file(place, pair.names[part])) return missing(place, pair.names[part], err);
            TRY(add(files, place, pair.names[part], part, NULL, 0, err));
        }
    }
    if (files->has_tests && settings_split(settings))
        return fail(err, STATUS_USAGE, "%s: has test.csv; leave out %s", place, settings_split(settings));
    return STATUS_OK;
}
