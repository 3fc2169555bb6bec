// Part of format.h: LEAF's data sets (leaf.cmu.edu): folders train/ and test/ of JSON files with users, each with its
// own samples:
//   {"users": ["u1", ...], "num_samples": [...], "user_data": {"u1": {"x": [[numbers] ...], "y": [...]}, ...}}
// x are vectors of numbers of one length, y classes (whole numbers from 0) or targets (numbers with a point). Users are
// clients, in the order of the training files' names and of "users" within a file.
#include <dirent.h>
#include <jansson.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/file.h"
#include "datasets/formats/format.h"
#include "datasets/settings.h"
#include "datasets/unpacked_cache.h"

// State while the files of both folders are read one after another.
typedef struct Leaf {
    DatasetBlock *block; // NULL: the samples are only counted and checked
    json_t *users;       // name -> number; owned
    size_t features;     // of a sample; 0: not known yet
    bool is_known;       // it is known whether y are classes or targets
    bool has_targets;
    int split;          // of the files that are being read: 0: train, 1: test
    uint32_t counts[2]; // samples of train, test
} Leaf;

static int is_json(const struct dirent *entry) {
    const char *ending = strrchr(entry->d_name, '.');
    return ending && strcasecmp(ending, ".json") == 0;
}

static int by_name(const struct dirent **a, const struct dirent **b) {
    return strcmp((*a)->d_name, (*b)->d_name);
}

// Calls visit (may be NULL) with the path of each JSON file in place/part, in the order of their names. Fails with
// NOINPUT if there is none.
static Status each_file(const char *place, const char *part,
                        Status (*visit)(void *context, const char *path, Error *err), void *context, Error *err) {
    char path[DATASET_PATH_BYTES + NAME_MAX];
    struct dirent **files;
    const int used = snprintf(path, sizeof path, "%s/%s", place, part), count = scandir(path, &files, is_json, by_name);
    if (count < 0) return fail_errno(err, STATUS_NOINPUT, "%s", path);
    Status status = count > 0 ? STATUS_OK : fail(err, STATUS_NOINPUT, "%s: no file .json in this folder", path);
    for (int i = 0; i < count; i++) {
        snprintf(path + used, sizeof path - (size_t)used, "/%s", files[i]->d_name);
        if (status == STATUS_OK && visit) status = visit(context, path, err);
        free(files[i]);
    }
    free(files);
    return status;
}

// Samples -------------------------------------------------------------------------------------------------------------

// The sample that is being read, for sentences.
typedef struct At {
    const char *path, *user;
    uint32_t owner;
    size_t sample;
} At;

static Status bad_sample(const At *at, const char *what, const char *needs, Error *err) {
    return fail(err, STATUS_DATA, "%s: user %.60s: %s of sample %zu is %s", at->path, at->user, what, at->sample,
                needs);
}

static Status take_x(Leaf *leaf, const json_t *x, const At *at, Error *err) {
    const size_t features = json_is_array(x) ? json_array_size(x) : 1;
    if (leaf->features == 0) leaf->features = features;
    if (json_is_string(x)) return bad_sample(at, "x", "text; only vectors of numbers are read", err);
    if (features != leaf->features || features == 0)
        return bad_sample(at, "x", "of another length than those before; give all the same", err);
    float *to = NULL;
    if (leaf->block) {
        const DatasetLayout *layout = &leaf->block->layout;
        to = (float *)dataset_at(leaf->block, leaf->split == 0 ? layout->train_pixels : layout->test_pixels) +
             leaf->counts[leaf->split] * features;
    }
    for (size_t i = 0; i < features; i++) {
        const json_t *number = json_is_array(x) ? json_array_get(x, i) : x;
        const float value = (float)json_number_value(number);
        if (!json_is_number(number) || !isfinite(value)) return bad_sample(at, "x", "no vector of finite numbers", err);
        if (to) to[i] = value;
    }
    return STATUS_OK;
}

static Status take_y(Leaf *leaf, const json_t *y, const At *at, Error *err) {
    const bool is_target = json_is_real(y);
    if (!json_is_number(y)) return bad_sample(at, "y", "no number; classes are whole numbers from 0", err);
    if (!leaf->is_known) leaf->has_targets = is_target, leaf->is_known = true;
    if (leaf->has_targets != is_target)
        return bad_sample(at, "y", "of another kind than those before; give only classes or only targets", err);
    const json_int_t label = json_integer_value(y);
    const float target = (float)json_real_value(y);
    if (is_target ? !isfinite(target) : label < 0 || label >= DATASET_MAX_CLASSES)
        return bad_sample(at, "y", "out of range", err);
    if (!leaf->block) return STATUS_OK;
    const DatasetLayout *layout = &leaf->block->layout;
    void *labels = dataset_at(leaf->block, leaf->split == 0 ? layout->train_labels : layout->test_labels);
    uint32_t *owners = dataset_at(leaf->block, leaf->split == 0 ? layout->train_owners : layout->test_owners);
    const uint32_t place = leaf->counts[leaf->split];
    if (is_target)
        ((float *)labels)[place] = target;
    else
        ((uint16_t *)labels)[place] = (uint16_t)label;
    owners[place] = at->owner;
    return STATUS_OK;
}

static Status read_user(Leaf *leaf, const json_t *data, At *at, Error *err) {
    const json_t *x = json_object_get(data, "x"), *y = json_object_get(data, "y");
    if (!json_is_array(x) || !json_is_array(y) || json_array_size(x) != json_array_size(y))
        return fail(err, STATUS_DATA, "%s: user %.60s: no x and y of the same length in \"user_data\"", at->path,
                    at->user);
    const uint32_t room = !leaf->block       ? INT32_MAX
                          : leaf->split == 0 ? leaf->block->train_count
                                             : leaf->block->test_count;
    for (at->sample = 0; at->sample < json_array_size(x); at->sample++) {
        if (leaf->counts[leaf->split] >= room)
            return fail(err, STATUS_DATA, "%s: more samples than before: it changed while it was being read", at->path);
        TRY(take_x(leaf, json_array_get(x, at->sample), at, err));
        TRY(take_y(leaf, json_array_get(y, at->sample), at, err));
        leaf->counts[leaf->split]++;
    }
    return STATUS_OK;
}

// Users with training samples get numbers; other users may have test samples.
static Status number_user(Leaf *leaf, At *at, bool has_samples, Error *err) {
    const json_t *known = json_object_get(leaf->users, at->user);
    if (leaf->split == 0 && known)
        return fail(err, STATUS_DATA, "%s: user %.60s stands in the training files twice", at->path, at->user);
    at->owner = known ? (uint32_t)json_integer_value(known) : UINT32_MAX;
    if (leaf->split != 0 || !has_samples) return STATUS_OK;
    at->owner = (uint32_t)json_object_size(leaf->users);
    if (json_object_set_new(leaf->users, at->user, json_integer(at->owner)) == 0) return STATUS_OK;
    return fail(err, STATUS_OS, "no memory for the users of %s", at->path);
}

static Status read_json(Leaf *leaf, const json_t *all, const char *path, Error *err) {
    const json_t *users = json_object_get(all, "users"), *data = json_object_get(all, "user_data"), *user;
    size_t i;
    if (!json_is_array(users) || !json_is_object(data))
        return fail(err, STATUS_DATA, "%s: no \"users\" and \"user_data\", as LEAF's files have", path);
    json_array_foreach(users, i, user) {
        At at = {.path = path, .user = json_string_value(user)};
        if (!at.user) return fail(err, STATUS_DATA, "%s: entry %zu of \"users\" is no text", path, i);
        const json_t *own = json_object_get(data, at.user);
        TRY(number_user(leaf, &at, json_array_size(json_object_get(own, "y")) > 0, err));
        TRY(read_user(leaf, own, &at, err));
    }
    return STATUS_OK;
}

static Status read_file(void *leaf, const char *path, Error *err) {
    json_error_t problem;
    FILE *file;
    TRY(regular_file_open(&file, path, err));
    json_t *all = json_loadf(file, JSON_REJECT_DUPLICATES, &problem);
    fclose(file);
    if (!all && json_error_code(&problem) == json_error_out_of_memory)
        return fail(err, STATUS_OS, "no memory for what is in %s", path);
    if (!all)
        return fail(err, STATUS_DATA, "%s:%d: column %d: not JSON: %s", path, problem.line, problem.column,
                    problem.text);
    Status status = read_json(leaf, all, path, err);
    json_decref(all);
    return status;
}

static const char *const parts[] = {"train", "test"};

static Status read_both(Leaf *leaf, const char *place, Error *err) {
    leaf->users = json_object();
    if (!leaf->users) return fail(err, STATUS_OS, "no memory for the users of %s", place);
    for (leaf->split = 0; leaf->split < 2; leaf->split++) {
        TRY(each_file(place, parts[leaf->split], read_file, leaf, err));
        if (leaf->counts[leaf->split] == 0)
            return fail(err, STATUS_DATA, "%s/%s: no samples in this folder", place, parts[leaf->split]);
    }
    return STATUS_OK;
}

// The form ------------------------------------------------------------------------------------------------------------

static DatasetPresence leaf_is_here(const char *place) {
    if (each_file(place, parts[0], NULL, NULL, NULL) != STATUS_OK) return DATASET_ABSENT;
    return each_file(place, parts[1], NULL, NULL, NULL) == STATUS_OK ? DATASET_WHOLE : DATASET_IN_PART;
}

static Status note_file(void *source, const char *path, Error *err) {
    return dataset_note_file(source, path, err);
}

static Status leaf_find(DatasetSource *source, const char *place, Error *err) {
    Leaf leaf = {0};
    source->packed = true; // numbers as text: parsed only once
    TRY(each_file(place, parts[0], note_file, source, err));
    TRY(each_file(place, parts[1], note_file, source, err));
    if (unpacked_cache_describe(source)) return STATUS_OK;
    Status status = read_both(&leaf, place, err);
    source->train_count = leaf.counts[0];
    source->test_count = leaf.counts[1];
    source->users = (uint32_t)json_object_size(leaf.users);
    source->items = (DatasetItems){.pixel_bytes = sizeof(float),
                                   .label_bytes = leaf.has_targets ? sizeof(float) : sizeof(uint16_t),
                                   .owner_bytes = sizeof(uint32_t)};
    json_decref(leaf.users);
    if (status != STATUS_OK) return status;
    return dataset_take_shape(source, 1, 1, leaf.features, place, err);
}

static Status leaf_read(DatasetBlock *block, const DatasetSource *source, Error *err) {
    const bool has_targets = dataset_has_targets(&block->items);
    char test[DATASET_PATH_BYTES + 8];
    Leaf leaf = {.block = block, .features = shape_size(block->shape), .is_known = true, .has_targets = has_targets};
    Status status = read_both(&leaf, source->folder, err);
    const bool is_whole = leaf.counts[0] == block->train_count && leaf.counts[1] == block->test_count &&
                          json_object_size(leaf.users) == block->users;
    json_decref(leaf.users);
    if (status != STATUS_OK) return status;
    if (!is_whole)
        return fail(err, STATUS_DATA, "%s: its files changed while the data set was being read", source->folder);
    snprintf(test, sizeof test, "%s/test", source->folder);
    return dataset_count_classes(block, test, err);
}

// The row is easier to read on few lines.
// clang-format off
const DatasetFormat leaf_format = {
    .name = "LEAF", .files = "train/*.json", .settings = SETTINGS_OF_SAMPLES, .is_here = leaf_is_here, .find = leaf_find, .read = leaf_read,
    .help = "a folder with folders train and test of JSON files with \"users\" and \"user_data\", x vectors of numbers; users are "
            "clients, for --partition natural-id",
    .classes = "write y without a point", .targets = "write y with a point", .pixels = "say normalize=yes in --data"};
// clang-format on
