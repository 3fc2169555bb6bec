// dataset_find: from the value of --data to a DatasetSource.
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <xxhash.h>

#include "base/suggest.h"
#include "datasets/dataset.h"
#include "datasets/dataset_block.h"
#include "datasets/federation.h"
#include "datasets/idx.h"
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

_Static_assert(sizeof(DatasetOrigin) == 16 + DATASET_FILES * 48, "an origin is compared as bytes");

// Notes what the files are like. They are read later: if one changes meanwhile, what was read goes under an origin that
// no longer fits it.
static Status note_origin(DatasetSource *source, const IdxFolder *files, Error *err) {
    char paths[IDX_ROLES * DATASET_PATH_BYTES] = "";
    size_t length = 0;
    for (IdxRole role = 0; role < IDX_ROLES; role++) {
        const char *path = files->path[role], *ending = strrchr(path, '.');
        struct stat about;
        if (stat(path, &about) != 0) return fail_errno(err, STATUS_NOINPUT, "%s", path);
        source->origin.file[role].bytes = about.st_size;
        source->origin.file[role].changed_seconds = about.st_mtim.tv_sec;
        source->origin.file[role].changed_nanoseconds = about.st_mtim.tv_nsec;
        source->origin.file[role].inode = (int64_t)about.st_ino;
        source->origin.file[role].touched_seconds = about.st_ctim.tv_sec;
        source->origin.file[role].touched_nanoseconds = about.st_ctim.tv_nsec;
        if (ending && strcmp(ending, ".gz") == 0) source->packed = true;
        length += strlen(strcpy(paths + length, path)) + 1;
    }
    XXH128_hash_t hash = XXH3_128bits(paths, length);
    source->origin.paths[0] = hash.low64;
    source->origin.paths[1] = hash.high64;
    return STATUS_OK;
}

static Status folder_source(DatasetSource *source, const char *folder, Error *err) {
    IdxFolder files;
    DatasetLayout layout;
    char resolved[PATH_MAX];
    if (!realpath(folder, resolved)) return fail_errno(err, STATUS_NOINPUT, "%s", folder);
    TRY(idx_folder_open(&files, resolved, err));
    source->shape = files.shape;
    source->items = DATASET_IMAGES;
    source->train_count = files.header[IDX_TRAIN_LABELS].extent[0];
    source->test_count = files.header[IDX_TEST_LABELS].extent[0];
    TRY(dataset_layout(&layout, source->shape, source->train_count, source->test_count, &source->items, err));
    source->block_bytes = layout.block_bytes;
    TRY(note_origin(source, &files, err));
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
    return fail(err, STATUS_NOINPUT,
                "no data set %s%s%s%s; give mnist, fashion-mnist, synthetic or a folder with IDX files (looked in %s)",
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

Status dataset_find(DatasetSource *source, const char *data, uint64_t seed, Error *err) {
    struct stat about;
    *source = (DatasetSource){0};
    TRY(unpacked_cache_check(err));
    if (federation_is_named(data)) return federation_source(source, data, seed, err);
    if (synthetic_is_named(data)) return synthetic_source(source, data, seed, err);
    if (strchr(data, '/') || (stat(data, &about) == 0 && S_ISDIR(about.st_mode)))
        return folder_source(source, data, err);
    return named_source(source, data, err);
}
