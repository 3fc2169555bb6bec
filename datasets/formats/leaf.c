// Part of format.h: LEAF's data sets (leaf.cmu.edu): folders train/ and test/ of JSON files with users, each with its
// own samples:
//   {"users": ["u1", ...], "num_samples": [...], "user_data": {"u1": {"x": [[numbers] ...], "y": [...]}, ...}}
// x are vectors of numbers of one length, y classes (whole numbers from 0) or targets (numbers with a point); or x are
// texts, or lists of texts of which the last counts, and y as above or the next character (formats/leaf_text.h). Users
// are clients, in the order of the training files' names and of "users" within a file.
#include <dirent.h>
#include <jansson.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "base/text.h"
#include "datasets/formats/format.h"
#include "datasets/formats/leaf_text.h"
#include "datasets/settings.h"
#include "datasets/unpacked_cache.h"

// State while the files of both folders are read one after another.
typedef struct Leaf {
    DatasetBlock *block;              // NULL: the samples are only counted and checked
    DatasetArrays to[DATASET_SPLITS]; // if there is a block
    json_t *users;                    // name -> number; owned
    size_t features;                  // of a sample; 0: not known yet
    bool is_known;                    // it is known whether y are classes or targets
    bool has_targets;
    bool are_classes;       // by classes=N in --data: numbers with a point, too
    bool is_text;           // x are texts
    LeafTexts texts;        // owned
    DatasetSplitKind split; // of the files that are being read
    uint32_t counts[DATASET_SPLITS];
} Leaf;

static void free_leaf(Leaf *leaf) {
    json_decref(leaf->users);
    leaf_texts_free(&leaf->texts);
}

static int is_json(const struct dirent *entry) {
    return dataset_has_ending(entry->d_name, ".json");
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

// The text of a sample: itself, or the last of several, as LEAF's tweets are: number, date, query, user, text.
static const char *text_of(const json_t *x) {
    return json_string_value(json_is_array(x) ? json_array_get(x, json_array_size(x) - 1) : x);
}

// Where the sample that is being read belongs in the block.
static void *sample_at(const Leaf *leaf) {
    return (uint8_t *)leaf->to[leaf->split].samples +
           (size_t)leaf->counts[leaf->split] * leaf->features * leaf->block->items.pixel_bytes;
}

// CelebA's samples are names of files.
static bool is_image_name(const char *text) {
    return (dataset_has_ending(text, ".jpg") || dataset_has_ending(text, ".jpeg") ||
            dataset_has_ending(text, ".png")) &&
           !strpbrk(text, " \n");
}

static Status take_text(Leaf *leaf, const char *text, const At *at, Error *err) {
    if (!text) return bad_sample(at, "x", "no text, as those before are", err);
    if (!leaf->block && is_image_name(text))
        return bad_sample(at, "x", "the name of an image; images are read from arrays (.npz)", err);
    if (!leaf->block) return leaf_texts_learn(&leaf->texts, text, err);
    leaf_texts_write(&leaf->texts, sample_at(leaf), text);
    return STATUS_OK;
}

// The character that follows a text.
static Status take_next(Leaf *leaf, uint16_t *class, const char *next, const At *at, Error *err) {
    const size_t letter = text_letter(next);
    if (letter == 0 || next[letter]) return bad_sample(at, "y", "not one character, the one that follows x", err);
    if (!leaf->block) return leaf_texts_learn_next(&leaf->texts, next, err);
    const uint32_t number = leaf_texts_class(&leaf->texts, next);
    *class = (uint16_t)number;
    return number == VOCABULARY_UNKNOWN ? dataset_changed(at->path, err) : STATUS_OK;
}

static Status take_x(Leaf *leaf, const json_t *x, const At *at, Error *err) {
    const size_t features = json_is_array(x) ? json_array_size(x) : 1;
    if (leaf->features == 0) leaf->is_text = text_of(x) != NULL;
    if (leaf->features == 0) leaf->features = features;
    if (leaf->is_text) return take_text(leaf, text_of(x), at, err);
    if (features != leaf->features || features == 0)
        return bad_sample(at, "x", "of another length than those before; give all the same", err);
    const size_t first = leaf->counts[leaf->split] * features;
    for (size_t i = 0; i < features; i++) {
        const json_t *number = json_is_array(x) ? json_array_get(x, i) : x;
        const double value = json_number_value(number);
        if (!json_is_number(number) || !isfinite((float)value))
            return bad_sample(at, "x", "no vector of finite numbers", err);
        if (leaf->block) dataset_put(&leaf->to[leaf->split], first + i, value);
    }
    return STATUS_OK;
}

static Status take_y(Leaf *leaf, const json_t *y, const At *at, Error *err) {
    const bool is_target = json_is_real(y) && !leaf->are_classes, follows = leaf->is_text && json_is_string(y);
    uint16_t next = 0;
    if (leaf->is_known && leaf->texts.follows != follows)
        return bad_sample(at, "y", "of another kind than those before", err);
    if (follows) TRY(take_next(leaf, &next, json_string_value(y), at, err));
    if (!follows && !json_is_number(y)) return bad_sample(at, "y", "no number; classes are whole numbers from 0", err);
    if (!leaf->is_known) leaf->has_targets = is_target, leaf->is_known = true;
    if (leaf->has_targets != is_target)
        return bad_sample(at, "y", "of another kind than those before; give only classes or only targets", err);
    if (json_is_real(y) && !is_target && json_real_value(y) != floor(json_real_value(y)))
        return bad_sample(at, "y", "no whole number, though --data says classes=N", err);
    const json_int_t label = follows ? next : (json_int_t)fmin(fmax(json_number_value(y), -1), DATASET_MAX_CLASSES);
    const float target = (float)json_real_value(y);
    if (is_target ? !isfinite(target) : label < 0 || label >= DATASET_MAX_CLASSES)
        return bad_sample(at, "y", "out of range", err);
    if (!leaf->block) return STATUS_OK;
    const uint32_t place = leaf->counts[leaf->split];
    const DatasetArrays *to = &leaf->to[leaf->split];
    if (is_target)
        ((float *)(void *)to->labels)[place] = target;
    else
        to->labels[place] = (uint16_t)label;
    to->owners[place] = at->owner;
    return STATUS_OK;
}

static Status read_user(Leaf *leaf, const json_t *data, At *at, Error *err) {
    const json_t *x = json_object_get(data, "x"), *y = json_object_get(data, "y");
    if (!json_is_array(x) || !json_is_array(y) || json_array_size(x) != json_array_size(y))
        return fail(err, STATUS_DATA, "%s: user %.60s: no x and y of the same length in \"user_data\"", at->path,
                    at->user);
    const uint32_t room = leaf->block ? leaf->to[leaf->split].count : INT32_MAX;
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
    for (leaf->split = 0; leaf->split < DATASET_SPLITS; leaf->split++) {
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

// Texts are numbers of a vocabulary, which have no scale and no shape.
static Status take_texts(DatasetSource *source, Leaf *leaf, const char *place, Error *err) {
    const Form *settings = &source->settings;
    if (settings_say(settings, SETTING_NORMALIZE, "yes") || settings->given[SETTING_SHAPE])
        return fail(err, STATUS_USAGE, "%s: its samples are texts; leave out shape and normalize", place);
    if (leaf->texts.follows && settings->given[SETTING_CLASSES])
        return fail(err, STATUS_USAGE, "%s: its classes are the characters that follow; leave out classes", place);
    if (leaf->texts.follows && settings->given[SETTING_VOCABULARY])
        return fail(err, STATUS_USAGE, "%s: its vocabulary is all characters; leave out vocabulary", place);
    TRY(leaf_texts_settle(&leaf->texts, source->model, place, err));
    leaf_texts_items(&source->items, &leaf->texts);
    leaf->features = leaf->texts.length;
    return STATUS_OK;
}

// Writes the names of the users in the order of their numbers, and returns their size. to: NULL for the size alone.
static uint64_t write_users(char *to, const Leaf *leaf) {
    uint64_t bytes = 0;
    const char *name;
    json_t *number;
    json_object_foreach(leaf->users, name, number) {
        if (to) memcpy(to + bytes, name, strlen(name) + 1);
        bytes += strlen(name) + 1;
    }
    return bytes;
}

// Reads all samples without a block, to learn how many there are, and the vocabulary of texts.
static Status learn(Leaf *leaf, DatasetSource *source, const char *place, Error *err) {
    const Form *settings = &source->settings;
    leaf_texts_begin(&leaf->texts, settings);
    leaf->are_classes = settings_classes(settings) > 0;
    TRY(read_both(leaf, place, err));
    memcpy(source->counts, leaf->counts, sizeof source->counts);
    source->users = (uint32_t)json_object_size(leaf->users);
    source->items = (DatasetItems){.pixel_bytes = sizeof(float),
                                   .label_bytes = leaf->has_targets ? sizeof(float) : sizeof(uint16_t),
                                   .owner_bytes = sizeof(uint32_t),
                                   .user_bytes = write_users(NULL, leaf)};
    if (leaf->is_text) TRY(take_texts(source, leaf, place, err));
    for (DatasetSetting setting = SETTING_TOKENS; setting <= SETTING_VOCABULARY && !leaf->is_text; setting++)
        if (settings->given[setting])
            return fail(err, STATUS_USAGE, "%s: its samples are numbers, no texts; leave out %s", place,
                        settings_table.rows->keys[setting].name);
    return dataset_take_shape(source, 1, 1, leaf->features, place, err);
}

static Status leaf_find(DatasetSource *source, const char *place, Error *err) {
    Leaf leaf = {0};
    source->packed = true; // numbers as text: parsed only once
    TRY(each_file(place, parts[0], note_file, source, err));
    TRY(each_file(place, parts[1], note_file, source, err));
    if (unpacked_cache_describe(source)) return STATUS_OK;
    Status status = learn(&leaf, source, place, err);
    if (status == STATUS_OK && leaf.texts.unknown > 0)
        log_warning("%s: %llu of its words or characters are not in the model's vocabulary; they enter as 0", place,
                    (unsigned long long)leaf.texts.unknown);
    free_leaf(&leaf);
    return status;
}

// The vocabulary, which only all texts tell.
static Status learn_texts(LeafTexts *texts, const DatasetSource *source, Error *err) {
    DatasetSource again = *source;
    Leaf leaf = {0};
    Status status = learn(&leaf, &again, source->folder, err);
    if (status == STATUS_OK && !dataset_is_as_found(&again, source)) status = dataset_changed(source->folder, err);
    *texts = leaf.texts;
    leaf.texts = (LeafTexts){0};
    free_leaf(&leaf);
    return status;
}

static Status leaf_read(DatasetBlock *block, const DatasetSource *source, Error *err) {
    char test[DATASET_PATH_BYTES + 8];
    Leaf leaf = {.block = block,
                 .features = shape_size(block->shape),
                 .is_text = block->items.vocabulary > 0,
                 .is_known = true,
                 .has_targets = dataset_has_targets(&block->items),
                 .are_classes = settings_classes(&source->settings) > 0,
                 .to = {dataset_arrays(block, DATASET_TRAIN), dataset_arrays(block, DATASET_TEST)}};
    Status status = leaf.is_text              ? learn_texts(&leaf.texts, source, err)
                    : block->items.scales > 0 ? dataset_exact_begin(leaf.to, leaf.features, err)
                                              : STATUS_OK;
    if (status == STATUS_OK) status = read_both(&leaf, source->folder, err);
    if (status == STATUS_OK) status = dataset_scale_numbers(block, leaf.to, source, err);
    dataset_exact_free(leaf.to);
    const bool is_whole = memcmp(leaf.counts, block->counts, sizeof leaf.counts) == 0 &&
                          json_object_size(leaf.users) == block->users &&
                          write_users(NULL, &leaf) == block->items.user_bytes;
    if (status == STATUS_OK && !is_whole) status = dataset_changed(source->folder, err);
    if (status == STATUS_OK) write_users(dataset_at(block, block->layout.users), &leaf);
    if (status == STATUS_OK && leaf.is_text) {
        vocabulary_write(block, leaf.texts.vocabulary.list);
        block->scale[0] = 1; // numbers of tokens enter a net unchanged
    }
    if (leaf.texts.follows) block->classes = (int)block->items.vocabulary;
    const bool is_counted = !leaf.texts.follows;
    free_leaf(&leaf);
    TRY(status);
    snprintf(test, sizeof test, "%s/test", source->folder);
    return is_counted ? dataset_count_classes(block, source, test, err) : STATUS_OK;
}

// The row is easier to read on few lines.
// clang-format off
const DatasetFormat leaf_format = {
    .name = "LEAF", .files = "train/*.json", .settings = SETTINGS_OF_SAMPLES | SETTINGS_OF_TEXTS | 1 << SETTING_CLASSES,
    .is_here = leaf_is_here, .find = leaf_find, .read = leaf_read,
    .help = "a folder with folders train and test of JSON files with \"users\" and \"user_data\", x vectors of numbers, or texts; "
            "users are clients, for --partition natural-id. The label of a text is a class, or the character that follows (Shakespeare); of a "
            "list of texts (Sent140) the last is read, with --data \"PLACE tokens=words\" by words",
    .classes = "write y without a point", .targets = "write y with a point", .pixels = "say normalize=yes in --data"};
// clang-format on
