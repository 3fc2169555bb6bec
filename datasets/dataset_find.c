// Part of dataset.h: finds the DatasetSource that a value of --data names.
#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/suggest.h"
#include "base/text.h"
#include "datasets/dataset.h"
#include "datasets/dataset_block.h"
#include "datasets/formats/csv_files.h"
#include "datasets/formats/format.h"
#include "datasets/settings.h"
#include "datasets/synthetic.h"
#include "datasets/synthetic/federation.h"
#include "datasets/unpacked_cache.h"

static void add_place(DatasetPlaces *places, const char *folder) {
    int length = snprintf(places->folder[places->count], DATASET_PATH_BYTES, "%s", folder);
    if (length < DATASET_PATH_BYTES) places->count++;
}

void dataset_places(DatasetPlaces *places) {
    const char *own = getenv("SOUNDER_DATA");
    char cache[DATASET_PATH_BYTES];
    places->count = 0;
    if (own && own[0]) add_place(places, own);
    if (user_cache_folder(cache, sizeof cache)) add_place(places, cache);
    add_place(places, "/usr/share/datasets");
}

_Static_assert(sizeof(DatasetOrigin) == 32, "an origin is compared as bytes");

// Finds the only file in the folder that is a data set by itself, such as an archive of arrays. Returns false if there
// is none or more than one.
static bool lone_set_in(char path[DATASET_PATH_BYTES], const char *folder) {
    DIR *listing = opendir(folder);
    int found = 0;
    for (const struct dirent *entry; listing && (entry = readdir(listing));) {
        char file[DATASET_PATH_BYTES];
        const int length = snprintf(file, sizeof file, "%s/%s", folder, entry->d_name);
        struct stat about;
        if (length >= DATASET_PATH_BYTES || stat(file, &about) != 0 || !S_ISREG(about.st_mode)) continue;
        if (!dataset_format_of(file)) continue;
        memcpy(path, file, sizeof file);
        found++;
    }
    if (listing) closedir(listing);
    return found == 1;
}

bool dataset_other_table(char name[DATASET_PATH_BYTES], const char *place) {
    bool found = false;
    DIR *listing = opendir(place);
    for (const struct dirent *entry; listing && (entry = readdir(listing)) && !found;) {
        found = dataset_has_ending(entry->d_name, ".csv") && strcmp(entry->d_name, "train.csv") != 0 &&
                strcmp(entry->d_name, "test.csv") != 0;
        if (found) text_cut(name, DATASET_PATH_BYTES, entry->d_name);
    }
    if (listing) closedir(listing);
    return found;
}

// The sentence depends on the likely mistake: a table under another name, a file of an unknown form, or the folder of a
// file that is a data set by itself.
Status dataset_unknown(const char *place, Error *err) {
    static const char *const texts[] = {".data", ".txt", ".dat", ".test", ".tab"};
    char looked_for[ERROR_MESSAGE_BYTES] = "", table[DATASET_PATH_BYTES];
    struct stat about;
    const uint32_t tables = csv_files_of_clients(place);
    if (tables > 1)
        return fail(err, STATUS_NOINPUT,
                    "%s: %u tables in it or in its folders; if each file or folder has the samples of one client, say "
                    "client=file in --data, with the column to be learned: --data \"%s client=file label=COLUMN\"; one "
                    "table alone is named itself",
                    place, tables, place);
    if (dataset_other_table(table, place))
        return fail(err, STATUS_NOINPUT,
                    "%s: no data set here; the table %s in it is one by itself: name it in --data, with its column of "
                    "classes: label=COLUMN",
                    place, table);
    const bool is_file = stat(place, &about) == 0 && !S_ISDIR(about.st_mode);
    if (is_file && dataset_has_ending(place, ".npy"))
        return fail(
            err, STATUS_NOINPUT,
            "%s: one array; a data set has x_train, y_train, x_test and y_test in a .npz or a folder, and y_train "
            "and y_test alone for a --trainer that has loaded the samples itself",
            place);
    for (size_t i = 0; i < sizeof texts / sizeof *texts && is_file; i++)
        if (dataset_has_ending(place, texts[i]))
            return fail(
                err, STATUS_NOINPUT,
                "%s: if it is a table whose columns are separated by , ; | or tabs, name the column to be learned: "
                "--data \"FILE label=COLUMN\", with header=no where the first line has values (then label=1 is the "
                "first column)",
                place);
    if (is_file)
        return fail(err, STATUS_NOINPUT,
                    "%s: no file of a form that is known; `sounder help data` lists them; python3 -m sounder.write "
                    "FILE OUT.npz reads others, "
                    "such as Parquet, HDF5, MATLAB's and pickles of arrays",
                    place);
    char lone[DATASET_PATH_BYTES];
    if (lone_set_in(lone, place))
        return fail(err, STATUS_NOINPUT, "%s: the data set is a file in this folder; give %s", place, lone);
    for (uint32_t i = 0; i < dataset_format_count; i++)
        text_add(looked_for, sizeof looked_for, "%s%s (%s)", i ? ", " : "", dataset_formats[i]->files,
                 dataset_formats[i]->name);
    return fail(
        err, STATUS_NOINPUT,
        "%s: no file %s in this folder; `sounder help data` says what belongs there; python3 -m sounder.write "
        "FOLDER OUT.npz makes a data set of a folder of images by class, of a .npz for each client, of Parquet, "
        "HDF5 and others",
        place, looked_for);
}

// Shape and scales by the settings, or by the model that is to see the samples.
static Status take_settings(DatasetSource *source, const char *place, Error *err) {
    const bool is_asked = settings_say(&source->settings, SETTING_NORMALIZE, "yes");
    source->read_shape = source->shape;
    TRY(settings_reshape(&source->shape, &source->settings, err));
    if (source->items.pixel_bytes == 1 && source->shape.channels > DATASET_MAX_CHANNELS)
        return fail(err, STATUS_USAGE, "--data: shape=%.40s: %d channels; at most %d are read",
                    form_text(&source->settings, SETTING_SHAPE), source->shape.channels, DATASET_MAX_CHANNELS);
    if (!dataset_has_samples(&source->items) && (is_asked || *form_text(&source->settings, SETTING_SHAPE)))
        return fail(err, STATUS_USAGE, "%s: labels alone have no samples; leave out shape and normalize", place);
    if (source->settings.given[SETTING_CLASSES] && dataset_has_targets(&source->items))
        return fail(err, STATUS_USAGE, "%s: its samples have %s, no classes; leave out classes", place,
                    dataset_has_rows(&source->items) ? "several labels each" : "targets");
    const bool is_image = source->shape.channels > 1 || source->shape.rows > 1;
    if (source->items.pixel_bytes == sizeof(float) && (is_asked || (source->model && source->model->scales > 0)))
        source->items.scales = (uint32_t)(is_image ? source->shape.channels : source->shape.columns);
    return STATUS_OK;
}

// Tables of clients, and tables whose names have other endings, are read as the settings say that they are tables.
// Returns NULL if the settings say nothing.
static const DatasetFormat *format_asked_for(const Form *settings, const char *place) {
    struct stat about;
    bool is_asked = csv_files_by_client(place, settings);
    if (is_asked || dataset_format_of(place) || stat(place, &about) != 0 || !S_ISREG(about.st_mode))
        return is_asked ? &csv_format : NULL;
    for (int setting = 0; setting < DATASET_SETTINGS; setting++)
        is_asked = is_asked || (settings->given[setting] && SETTINGS_OF_TABLES & 1 << setting);
    return is_asked ? &csv_format : NULL;
}

// settings: in the text of --data, after the folder.
static Status folder_source(DatasetSource *source, const char *folder, const char *settings, Error *err) {
    const DatasetModel *model = source->model;
    char resolved[PATH_MAX];
    if (!realpath(folder, resolved)) return fail_errno(err, STATUS_NOINPUT, "%s", folder);
    Form asked;
    TRY(settings_parse(&asked, settings, err));
    const DatasetFormat *said = format_asked_for(&asked, resolved), *format = said ? said : dataset_format_of(resolved);
    if (!format) return dataset_unknown(resolved, err);
    const DatasetFormat *rival = said ? NULL : dataset_rival_of(format, resolved);
    if (rival)
        return fail(err, STATUS_DATA, "%s: two data sets, by %s (%s) and by %s (%s); give each a folder of its own",
                    resolved, format->files, format->name, rival->files, rival->name);
    *source = (DatasetSource){.items = DATASET_IMAGES, .format = format, .model = model};
    source->settings = asked;
    TRY(settings_check(&source->settings, format->settings, format->name, err));
    dataset_note_text(source, settings);
    TRY(format->find(source, resolved, err));
    if (model && model->features && source->items.features && model->features != source->items.features)
        return fail(
            err, STATUS_DATA,
            "%s: its features are not those of the table that the model was trained on; give it the same columns "
            "in the same order, with the same values of texts (`sounder data` lists them)",
            resolved);
    TRY(take_settings(source, resolved, err));
    snprintf(source->folder, sizeof source->folder, "%s", resolved);
    text_cut(source->name, sizeof source->name, strrchr(resolved, '/') + 1);
    disarm_text(source->name);
    return STATUS_OK;
}

const char *const dataset_names[] = {"fashion-mnist", "mnist", "cifar10", "cifar100", "synthetic"};
const size_t dataset_name_count = sizeof dataset_names / sizeof *dataset_names;

// A name of dataset_names is known but not installed; any other name is mistyped, or a folder that is missing.
static Status not_found(const DatasetPlaces *places, const char *name, Error *err) {
    char looked_in[ERROR_MESSAGE_BYTES] = "this folder";
    for (int i = 0; i < places->count; i++)
        text_add(looked_in, sizeof looked_in, ", %s/%.200s", places->folder[i], name);
    if (synthetic_is_named(name))
        return fail(err, STATUS_USAGE, "--data: %s: has no settings, which are for files of your own; leave them out",
                    name);
    for (size_t i = 0; i < dataset_name_count; i++)
        if (strcmp(name, dataset_names[i]) == 0)
            return fail(err, STATUS_NOINPUT, "no data set %s; get it with %s`sounder data get %s` (looked in %s)", name,
                        strcmp(name, "fashion-mnist") == 0 ? "`apt-get install dataset-fashion-mnist` or " : "", name,
                        looked_in);
    Suggestion suggestion = {.typed = name};
    for (size_t i = 0; i < dataset_name_count; i++)
        suggestion_consider(&suggestion, dataset_names[i]);
    for (uint32_t i = 0; i < federation_table.count; i++)
        suggestion_consider(&suggestion, form_row(&federation_table, i)->name);
    suggestion_consider_as(&suggestion, "fmnist", "fashion-mnist");
    const char *best = suggestion.best;
    return fail(err, STATUS_NOINPUT,
                "no data set %s%s%s%s; give mnist, fashion-mnist, cifar10, cifar100, synthetic, or a folder or file of "
                "your own (looked in %s)",
                name, best ? " (did you mean " : "", best ? best : "", best ? "?)" : "", looked_in);
}

// Uses the first place that has all files; an incomplete or missing folder is skipped.
static Status named_source(DatasetSource *source, const char *name, const char *settings, Error *err) {
    DatasetPlaces places;
    char folder[2 * DATASET_PATH_BYTES];
    dataset_places(&places);
    for (int i = 0; i < places.count; i++) {
        snprintf(folder, sizeof folder, "%s/%s", places.folder[i], name);
        Status status = folder_source(source, folder, settings, err);
        source->named = true;
        if (status != STATUS_NOINPUT) return status;
    }
    return not_found(&places, name, err);
}

static Status synthetic_source(DatasetSource *source, const char *data, uint64_t seed, Error *err) {
    TRY(synthetic_parse(&source->shape, source->counts, data, err));
    source->items = DATASET_IMAGES;
    source->classes = SYNTHETIC_CLASSES;
    source->seed = seed;
    snprintf(source->name, sizeof source->name, "synthetic");
    return STATUS_OK;
}

// True for a folder, and for a file whose name has an ending (no name of a data set has one).
static bool is_place(const char *data) {
    struct stat about;
    if (strchr(data, '/')) return true;
    return stat(data, &about) == 0 && (S_ISDIR(about.st_mode) || strchr(data, '.'));
}

Status dataset_find(DatasetSource *source, const char *data, uint64_t seed, Error *err) {
    return dataset_find_for(source, data, seed, NULL, err);
}

Status dataset_find_for(DatasetSource *source, const char *data, uint64_t seed, const DatasetModel *model, Error *err) {
    DatasetLayout layout;
    char place[DATASET_PATH_BYTES];
    const size_t place_bytes = settings_place_bytes(data);
    *source = (DatasetSource){.model = model};
    TRY(unpacked_cache_check(err));
    if (place_bytes >= sizeof place) return fail(err, STATUS_USAGE, "--data %.60s...: a path that is too long", data);
    snprintf(place, sizeof place, "%.*s", (int)place_bytes, data);
    TRY(federation_is_named(data)  ? federation_describe(source, data, seed, err)
        : synthetic_is_named(data) ? synthetic_source(source, data, seed, err)
        : is_place(place)          ? folder_source(source, place, data + place_bytes, err)
                                   : named_source(source, place, data + place_bytes, err));
    TRY(dataset_layout(&layout, source->shape, source->counts, &source->items, err));
    source->block_bytes = layout.block_bytes;
    return STATUS_OK;
}
