// dataset_find: from the value of --data to a DatasetSource.
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/suggest.h"
#include "datasets/dataset.h"
#include "datasets/dataset_block.h"
#include "datasets/federation.h"
#include "datasets/format.h"
#include "datasets/synthetic.h"
#include "datasets/unpacked_cache.h"

enum { MAX_PLACES = 3 };

// The folders in which a name is looked for, best first.
typedef struct Places {
    int count;
    char folder[MAX_PLACES][DATASET_PATH_BYTES];
} Places;

static void add_place(Places *places, const char *parent, const char *name) {
    int length = snprintf(places->folder[places->count], DATASET_PATH_BYTES, "%s/%s", parent, name);
    if (length < DATASET_PATH_BYTES) places->count++;
}

static void list_places(Places *places, const char *name) {
    const char *own = getenv("SOUNDER_DATA");
    char cache[DATASET_PATH_BYTES];
    places->count = 0;
    if (own && own[0]) add_place(places, own, name);
    if (user_cache_folder(cache, sizeof cache)) add_place(places, cache, name);
    add_place(places, "/usr/share/datasets", name);
}

_Static_assert(sizeof(DatasetOrigin) == 32, "an origin is compared as bytes");

// What a place would hold by the names in it, for who sees none of them.
static Status no_format(const char *place, Error *err) {
    char looked_for[ERROR_MESSAGE_BYTES] = "";
    struct stat about;
    if (stat(place, &about) == 0 && !S_ISDIR(about.st_mode))
        return fail(err, STATUS_NOINPUT, "%s: no file of a form that is known; `sounder help data` lists them", place);
    for (uint32_t i = 0; i < dataset_format_count; i++) {
        size_t used = strlen(looked_for);
        snprintf(looked_for + used, sizeof looked_for - used, "%s%s (%s)", i ? ", " : "", dataset_formats[i].files,
                 dataset_formats[i].name);
    }
    return fail(err, STATUS_NOINPUT, "%s: no file %s in this folder; `sounder help data` says what belongs there",
                place, looked_for);
}

static Status folder_source(DatasetSource *source, const char *folder, Error *err) {
    DatasetLayout layout;
    char resolved[PATH_MAX];
    if (!realpath(folder, resolved)) return fail_errno(err, STATUS_NOINPUT, "%s", folder);
    const DatasetFormat *format = dataset_format_of(resolved);
    if (!format) return no_format(resolved, err);
    *source = (DatasetSource){.items = DATASET_IMAGES, .format = (uint32_t)(format - dataset_formats)};
    TRY(format->find(source, resolved, err));
    TRY(dataset_layout(&layout, source->shape, source->train_count, source->test_count, &source->items, err));
    source->block_bytes = layout.block_bytes;
    snprintf(source->folder, sizeof source->folder, "%s", resolved);
    snprintf(source->name, sizeof source->name, "%s", strrchr(resolved, '/') + 1);
    disarm_text(source->name);
    return STATUS_OK;
}

static Status not_found(const Places *places, const char *name, Error *err) {
    char looked_in[ERROR_MESSAGE_BYTES] = "";
    for (int i = 0; i < places->count; i++) {
        size_t used = strlen(looked_in);
        snprintf(looked_in + used, sizeof looked_in - used, "%s%s", i ? ", " : "", places->folder[i]);
    }
    if (strcmp(name, "fashion-mnist") == 0)
        return fail(
            err, STATUS_NOINPUT,
            "no data set %s; get it with `apt-get install dataset-fashion-mnist` or `tools/get-data %s` (looked "
            "in %s)",
            name, name, looked_in);
    if (strcmp(name, "mnist") == 0)
        return fail(err, STATUS_NOINPUT, "no data set %s; get it with `tools/get-data %s` (looked in %s)", name, name,
                    looked_in);
    Suggestion suggestion = {.typed = name};
    static const char *const known[] = {"mnist", "fashion-mnist", "synthetic"};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        suggestion_consider(&suggestion, known[i]);
    for (uint32_t i = 0; i < federation_table.count; i++)
        suggestion_consider(&suggestion, federation_table.rows[i].name);
    suggestion_consider_as(&suggestion, "fmnist", "fashion-mnist");
    const char *best = suggestion.best;
    return fail(
        err, STATUS_NOINPUT,
        "no data set %s%s%s%s; give mnist, fashion-mnist, synthetic, or a folder or file of your own (looked in %s)",
        name, best ? " (did you mean " : "", best ? best : "", best ? "?)" : "", looked_in);
}

// The first place that has the files; an incomplete or absent folder is passed over.
static Status named_source(DatasetSource *source, const char *name, Error *err) {
    Places places;
    list_places(&places, name);
    for (int i = 0; i < places.count; i++) {
        Status status = folder_source(source, places.folder[i], err);
        source->named = true;
        if (status != STATUS_NOINPUT) return status;
    }
    return not_found(&places, name, err);
}

static Status synthetic_source(DatasetSource *source, const char *data, uint64_t seed, Error *err) {
    DatasetLayout layout;
    TRY(synthetic_parse(&source->shape, &source->train_count, &source->test_count, data, err));
    source->items = DATASET_IMAGES;
    TRY(dataset_layout(&layout, source->shape, source->train_count, source->test_count, &source->items, err));
    source->block_bytes = layout.block_bytes;
    source->classes = SYNTHETIC_CLASSES;
    source->seed = seed;
    snprintf(source->name, sizeof source->name, "synthetic");
    return STATUS_OK;
}

static Status federation_source(DatasetSource *source, const char *data, uint64_t seed, Error *err) {
    DatasetLayout layout;
    TRY(federation_describe(source, data, seed, err));
    TRY(dataset_layout(&layout, source->shape, source->train_count, source->test_count, &source->items, err));
    source->block_bytes = layout.block_bytes;
    return STATUS_OK;
}

// A folder, or a file of a form that is known by its name; other files are no data sets.
static bool is_place(const char *data) {
    struct stat about;
    if (strchr(data, '/')) return true;
    return stat(data, &about) == 0 && (S_ISDIR(about.st_mode) || dataset_format_of(data));
}

Status dataset_find(DatasetSource *source, const char *data, uint64_t seed, Error *err) {
    *source = (DatasetSource){0};
    TRY(unpacked_cache_check(err));
    if (federation_is_named(data)) return federation_source(source, data, seed, err);
    if (synthetic_is_named(data)) return synthetic_source(source, data, seed, err);
    if (is_place(data)) return folder_source(source, data, err);
    return named_source(source, data, err);
}
