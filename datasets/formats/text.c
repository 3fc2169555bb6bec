// Part of format.h: texts for nets that predict the next character: train.txt and test.txt, and optionally text.json,
// which says how they are cut:
//   {"length": 80, "step": 1, "separator": "\n\n"}
// Characters are bytes; the vocabulary consists of all bytes in either file, numbered from 0 in the order of their
// values, or is that of the model that is to see the samples. A sample is `length` characters, as such numbers (uint8,
// 1 x 1 x length), which enter a net unchanged: scale is 1, shift 0. Its label is the next character, so that the
// classes are the vocabulary; the next sample begins `step` later. With a separator a file is cut into sections, and no
// sample crosses the end of a section: each section of train.txt that has samples is a client, and its test samples are
// the section of test.txt with the same index, if both files have as many sections.
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "datasets/formats/format.h"
#include "datasets/formats/vocabulary.h"
#include "datasets/settings.h"

enum { USUAL_LENGTH = 80, GREATEST_LENGTH = 65535, MOST_SECTIONS = 1 << 24, BYTES = 256, SPELLED_BYTES = 5 };
static const uint16_t UNKNOWN = UINT16_MAX;

// How texts are cut into samples.
typedef struct Cut {
    size_t length, step;
    char separator[256];
    size_t separator_bytes; // 0: the whole file is one section
} Cut;

typedef struct Text {
    char path[DATASET_PATH_BYTES];
    uint8_t *bytes; // owned
    size_t count;
} Text;

typedef struct Texts {
    Cut cut;
    Text of[DATASET_SPLITS];
    uint32_t sections[DATASET_SPLITS], users[DATASET_SPLITS]; // users: sections that have samples
    const char *tokens; // the vocabulary, as Dataset.feature_names, and an empty one at the end: own, or the model's
    char own[BYTES * SPELLED_BYTES + 1];
    uint16_t number[BYTES]; // of each byte, or UNKNOWN
    uint32_t characters;    // size of the vocabulary
} Texts;

// Files ---------------------------------------------------------------------------------------------------------------

static DatasetPresence text_is_here(const char *place) {
    if (!dataset_has_file(place, "train.txt")) return DATASET_ABSENT;
    return dataset_has_file(place, "test.txt") ? DATASET_WHOLE : DATASET_IN_PART;
}

static Status read_whole(Text *text, const char *place, const char *name, Error *err) {
    struct stat about = {.st_size = 0};
    FILE *file;
    TRY(dataset_path(text->path, place, name, err));
    TRY(regular_file_open(&file, text->path, err));
    const bool has_size = fstat(fileno(file), &about) == 0;
    text->count = (size_t)about.st_size;
    text->bytes = malloc(text->count + 1);
    const bool is_whole = has_size && text->bytes && fread(text->bytes, 1, text->count, file) == text->count;
    fclose(file);
    if (!text->bytes) return fail(err, STATUS_OS, "no memory for the %zu bytes of %s", text->count, text->path);
    return is_whole ? STATUS_OK : fail(err, STATUS_DATA, "%s: truncated while it was read", text->path);
}

static Status take_whole(size_t *number, const json_t *value, const char *path, const char *key, Error *err) {
    const json_int_t whole = json_integer_value(value);
    if (!json_is_integer(value) || whole < 1 || whole > GREATEST_LENGTH)
        return fail(err, STATUS_DATA, "%s: %s needs a whole number from 1 to %d", path, key, GREATEST_LENGTH);
    *number = (size_t)whole;
    return STATUS_OK;
}

static Status take_separator(Cut *cut, const json_t *value, const char *path, Error *err) {
    cut->separator_bytes = json_string_length(value);
    if (cut->separator_bytes < 1 || cut->separator_bytes > sizeof cut->separator)
        return fail(err, STATUS_DATA, "%s: separator needs a text of 1 to %zu bytes", path, sizeof cut->separator);
    memcpy(cut->separator, json_string_value(value), cut->separator_bytes);
    return STATUS_OK;
}

static Status take_settings(Cut *cut, json_t *settings, const char *path, Error *err) {
    const char *key;
    json_t *value;
    if (!json_is_object(settings)) return fail(err, STATUS_DATA, "%s: needs an object, {\"length\": 80}", path);
    json_object_foreach(settings, key, value) {
        if (strcmp(key, "length") == 0)
            TRY(take_whole(&cut->length, value, path, key, err));
        else if (strcmp(key, "step") == 0)
            TRY(take_whole(&cut->step, value, path, key, err));
        else if (strcmp(key, "separator") == 0)
            TRY(take_separator(cut, value, path, err));
        else
            return fail(err, STATUS_DATA, "%s: \"%.60s\" is unknown; it may have length, step and separator", path,
                        key);
    }
    return STATUS_OK;
}

static Status read_cut(Cut *cut, const char *place, Error *err) {
    Text text = {.bytes = NULL};
    json_error_t why;
    *cut = (Cut){.length = USUAL_LENGTH, .step = 1};
    if (!dataset_has_file(place, "text.json")) return STATUS_OK;
    Status status = read_whole(&text, place, "text.json", err);
    json_t *settings = NULL;
    if (status == STATUS_OK) {
        settings = json_loadb((const char *)text.bytes, text.count, JSON_REJECT_DUPLICATES, &why);
        status = settings ? take_settings(cut, settings, text.path, err)
                          : fail(err, STATUS_DATA, "%s:%d: %s", text.path, why.line, why.text);
    }
    json_decref(settings);
    free(text.bytes);
    return status;
}

// Sections ------------------------------------------------------------------------------------------------------------

typedef struct Section {
    const uint8_t *begin;
    size_t count;
} Section;

// Removes the next section from *rest, which becomes NULL after the last one.
static Section next_section(const uint8_t **rest, const Text *text, const Cut *cut) {
    const uint8_t *begin = *rest, *end = text->bytes + text->count;
    const size_t left = (size_t)(end - begin);
    const uint8_t *found = cut->separator_bytes ? memmem(begin, left, cut->separator, cut->separator_bytes) : NULL;
    *rest = found ? found + cut->separator_bytes : NULL;
    return (Section){begin, (size_t)((found ? found : end) - begin)};
}

static uint64_t samples_in(const Section *section, const Cut *cut) {
    return section->count > cut->length ? (section->count - cut->length - 1) / cut->step + 1 : 0;
}

static uint64_t count_samples(Texts *texts, DatasetSplitKind split) {
    uint64_t all = 0;
    for (const uint8_t *rest = texts->of[split].bytes; rest && texts->sections[split] < MOST_SECTIONS;) {
        const Section section = next_section(&rest, &texts->of[split], &texts->cut);
        const uint64_t samples = samples_in(&section, &texts->cut);
        all += samples;
        texts->users[split] += samples > 0;
        texts->sections[split]++;
    }
    return all;
}

static void free_texts(Texts *texts) {
    for (DatasetSplitKind split = 0; split < DATASET_SPLITS; split++)
        free(texts->of[split].bytes);
}

// The vocabulary ------------------------------------------------------------------------------------------------------

// Writes a byte as a token, which notes of models hold as text: itself, or spelled if it is no ASCII. Returns the end.
static char *spell(char *to, int byte) {
    return to + (byte > 0 && byte < 0x80 ? sprintf(to, "%c", byte) : sprintf(to, "\\x%02x", byte));
}

// The byte of a token; -1 for one that is no byte, such as a letter of LEAF's texts that has several.
static int byte_of(const char *token) {
    char spelled[SPELLED_BYTES];
    unsigned byte;
    if (!token[1]) return (unsigned char)token[0];
    if (sscanf(token, "\\x%2x", &byte) != 1) return -1;
    spell(spelled, (int)byte);
    return strcmp(spelled, token) == 0 ? (int)byte : -1;
}

// Numbers the bytes that occur, or takes the numbers of a model that has a vocabulary.
static Status make_vocabulary(Texts *texts, const DatasetModel *model, const char *place, Error *err) {
    uint64_t counts[BYTES] = {0};
    char *end = texts->own, token[SPELLED_BYTES];
    UnknownTokens unknown = {0};
    for (int i = 0; i < 2; i++)
        for (size_t at = 0; at < texts->of[i].count; at++)
            counts[texts->of[i].bytes[at]]++;
    for (int byte = 0; byte < BYTES; byte++) {
        texts->number[byte] = UNKNOWN;
        if (counts[byte]) end = spell(end, byte) + 1;
    }
    texts->tokens = model && model->are_tokens ? model->feature_names : texts->own;
    for (const char *name = texts->tokens; *name; name += strlen(name) + 1) {
        if (texts->characters == BYTES)
            return fail(err, STATUS_DATA, "%s: its characters are bytes, but the model knows more than %d tokens",
                        place, BYTES);
        const int byte = byte_of(name);
        if (byte >= 0) texts->number[byte] = (uint16_t)texts->characters;
        texts->characters++;
    }
    for (int byte = 0; byte < BYTES; byte++) {
        spell(token, byte);
        if (counts[byte] && texts->number[byte] == UNKNOWN) unknown_tokens_add(&unknown, token, counts[byte]);
    }
    return unknown_tokens_refuse(&unknown, place, err);
}

// Reads both files, cut as the settings say, and sets what the source says of them. Nothing to free on failure.
static Status open_texts(Texts *texts, DatasetSource *source, const char *place, Error *err) {
    static const char *const names[] = {"train.txt", "test.txt"};
    *texts = (Texts){.characters = 0};
    Status status = read_cut(&texts->cut, place, err);
    if (source->settings.given[SETTING_LENGTH]) texts->cut.length = (size_t)source->settings.number[SETTING_LENGTH];
    for (DatasetSplitKind split = 0; split < DATASET_SPLITS && status == STATUS_OK; split++) {
        TRY_GOTO(fail, read_whole(&texts->of[split], place, names[split], err));
        const uint64_t count = count_samples(texts, split);
        if (count < 1 || count > INT32_MAX || texts->sections[split] == MOST_SECTIONS)
            status = fail(
                err, STATUS_DATA,
                "%s: %zu bytes make %llu samples of %zu characters and one that follows; from 1 to %d are read",
                texts->of[split].path, texts->of[split].count, (unsigned long long)count, texts->cut.length, INT32_MAX);
        source->counts[split] = (uint32_t)count;
    }
    source->items = DATASET_IMAGES;
    if (texts->cut.separator_bytes) source->users = texts->users[DATASET_TRAIN];
    if (texts->cut.separator_bytes) source->items.owner_bytes = sizeof(uint32_t);
    if (status == STATUS_OK) status = make_vocabulary(texts, source->model, place, err);
    source->items.vocabulary = texts->characters;
    if (status == STATUS_OK) vocabulary_note(&source->items, texts->tokens, true);
    if (status == STATUS_OK) status = dataset_take_shape(source, 1, 1, texts->cut.length, texts->of[0].path, err);
    if (status == STATUS_OK) return status;
fail:
    free_texts(texts);
    return status;
}

static Status text_find(DatasetSource *source, const char *place, Error *err) {
    Texts texts;
    char path[DATASET_PATH_BYTES];
    TRY(open_texts(&texts, source, place, err));
    free_texts(&texts);
    for (DatasetSplitKind split = 0; split < DATASET_SPLITS; split++)
        TRY(dataset_note_file(source, texts.of[split].path, err));
    if (!dataset_has_file(place, "text.json")) return STATUS_OK;
    TRY(dataset_path(path, place, "text.json", err));
    return dataset_note_file(source, path, err);
}

// Samples -------------------------------------------------------------------------------------------------------------

// If both files have as many sections, section s of test.txt belongs to the client of section s of train.txt.
static void fill(DatasetArrays to, const Texts *texts, DatasetSplitKind split) {
    const Text *text = &texts->of[split], *train = &texts->of[DATASET_TRAIN];
    const Cut *cut = &texts->cut;
    const bool has_owners = texts->sections[DATASET_TRAIN] == texts->sections[split];
    const uint8_t *rest = text->bytes, *train_rest = train->bytes;
    uint8_t *sample = to.samples;
    for (uint32_t users = 0; rest;) {
        const Section section = next_section(&rest, text, cut);
        const Section trains = has_owners ? next_section(&train_rest, train, cut) : (Section){NULL, 0};
        const uint64_t count = samples_in(&section, cut);
        const uint32_t owner = samples_in(&trains, cut) > 0 ? users++ : UINT32_MAX;
        for (uint64_t i = 0; i < count; i++) {
            const uint8_t *from = section.begin + i * cut->step;
            for (size_t c = 0; c < cut->length; c++)
                *sample++ = (uint8_t)texts->number[from[c]];
            *to.labels++ = texts->number[from[cut->length]];
            if (to.owners) *to.owners++ = owner;
        }
    }
}

static Status text_read(DatasetBlock *block, const DatasetSource *source, Error *err) {
    Texts texts;
    DatasetSource again = *source;
    TRY(open_texts(&texts, &again, source->folder, err));
    const bool is_same = dataset_is_as_found(&again, source);
    if (is_same) vocabulary_write(block, texts.tokens);
    for (DatasetSplitKind split = 0; split < DATASET_SPLITS && is_same; split++)
        fill(dataset_arrays(block, split), &texts, split);
    block->classes = (int)texts.characters;
    block->scale[0] = 1; // indices of characters enter a net unchanged
    free_texts(&texts);
    return is_same ? STATUS_OK : dataset_changed(source->folder, err);
}

// The row is easier to read on few lines.
// clang-format off
const DatasetFormat text_format = {
    .name = "text", .files = "train.txt", .settings = 1 << SETTING_LENGTH, .is_here = text_is_here, .find = text_find, .read = text_read,
    .help = "a folder with train.txt and test.txt, for nets that guess the next character (a byte): a sample is 80 of them, numbered as "
            "in the vocabulary of both files, its label the one that follows; a model notes the vocabulary, so that other texts (sounder eval, "
            "--init) are numbered as its own. text.json may say otherwise: {\"length\": 80, \"step\": 1, "
            "\"separator\": \"\\n\\n\"}; the sections between separators are clients, for --partition natural-id"};
// clang-format on
