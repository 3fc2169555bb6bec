#include "datasets/settings.h"

#include "datasets/dataset.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

enum { SHAPE_MOST = 65535 };

// clang-format off
static const FormRow row = {
    .name = "PLACE", .help = "settings of your own files, after their folder or file",
    .keys = {
        [SETTING_LABEL] = {.name = "label", .type = FORM_WORD, .preset = "",
            .help = "column of a table with the classes: names, or whole numbers; numbered by their sorted values. Preset: the column "
                    "called label, in letters of any case"},
        [SETTING_TARGET] = {.name = "target", .type = FORM_WORD, .preset = "",
            .help = "column with the targets of the squared loss. Preset: the column called target, in letters of any case"},
        [SETTING_CLIENT] = {.name = "client", .type = FORM_WORD, .preset = "",
            .help = "column with the owners of the samples, for --partition natural-id. Preset: the column called client, if there is one; client=file in a folder: a table for each client, NAME.csv, or NAME/train.csv and NAME/test.csv"},
        [SETTING_WITHOUT] = {.name = "without", .type = FORM_WORD, .preset = "",
            .help = "columns to leave out, separated by commas: without=id,name; a name may have commas of its own, for the longest "
                    "name that fits is taken"},
        [SETTING_HEADER] = {.name = "header", .type = FORM_CHOICE, .preset = "yes", .choices = "yes no",
            .help = "no: the first line has values; columns are then called 1, 2, 3, ..."},
        [SETTING_TEXT] = {.name = "text", .type = FORM_CHOICE, .preset = "refuse", .choices = "refuse one-hot",
            .help = "columns of texts that are no label; one-hot: a number for each of a column's values: 1 for samples that have it, else 0"},
        [SETTING_MISSING] = {.name = "missing", .type = FORM_CHOICE, .preset = "refuse", .choices = "refuse drop mean median flag",
            .help = "gaps (an empty field, ?, NA, nan, null); drop leaves their rows out; mean or median fills them with that of the training samples of all "
                    "clients, which no federation would share as it is (a one-hot text gets 0 for each of its values), and flag with the mean, beside a feature for each "
                    "column with gaps that is 1 where it has one; the model notes the values, and eval fills with them. Rows without label, target or client are left out"},
        [SETTING_DECIMAL] = {.name = "decimal", .type = FORM_CHOICE, .preset = ".", .choices = ". ,",
            .help = "sign between a number's whole part and its fraction; with a comma, points between thousands are read, too: 1.234,5"},
        [SETTING_GAPS] = {.name = "gaps", .type = FORM_WORD, .preset = "",
            .help = "further texts that are gaps, separated by commas: gaps=-,unknown"},
        [SETTING_TEST_FRACTION] = {.name = "test-fraction", .type = FORM_REAL, .minimum = 0.001, .maximum = 1, .preset = "0.2",
            .help = "share of the samples, of each class or of each client, that are for tests, where the files have none of their own"},
        [SETTING_TEST_SEED] = {.name = "test-seed", .type = FORM_WHOLE, .minimum = 0, .maximum = 4294967295.0, .preset = "1",
            .help = "which samples these are, whatever the --seed"},
        [SETTING_FOLD] = {.name = "fold", .type = FORM_WORD, .preset = "",
            .help = "in place of test-fraction: fold=2/5 tests on the second of five parts, which share no sample, of each class or of each "
                    "client; for all: sounder sweep --data \"PLACE fold={1,2,3,4,5}/5\""},
        [SETTING_SHAPE] = {.name = "shape", .type = FORM_WORD, .preset = "",
            .help = "of a sample whose numbers are in one row: CxHxW or HxW, such as 1x28x28, for layers that need images"},
        [SETTING_NORMALIZE] = {.name = "normalize", .type = FORM_CHOICE, .preset = "no", .choices = "no yes",
            .help = "samples enter as (x - mean) / deviation of the training samples, for each feature, or for each channel of images; "
                    "the model notes both, and eval uses them for other data"},
        [SETTING_CHANNELS] = {.name = "channels", .type = FORM_CHOICE, .preset = "first", .choices = "first last",
            .help = "axis of the channels in arrays of images: (N,C,H,W), or last: (N,H,W,C)"},
        [SETTING_TOKENS] = {.name = "tokens", .type = FORM_CHOICE, .preset = "characters", .choices = "characters words",
            .help = "parts of LEAF's texts that enter a net as numbers; words: runs of letters and digits in lower case, and . , ! ? ;"},
        [SETTING_LENGTH] = {.name = "length", .type = FORM_WHOLE, .minimum = 1, .maximum = 65535, .preset = "",
            .help = "how many tokens of a text enter. Preset: all, at most 140 characters or 25 words; short texts are filled up in front by 0; of "
                    "train.txt, the length of text.json"},
        [SETTING_VOCABULARY] = {.name = "vocabulary", .type = FORM_WHOLE, .minimum = 1, .maximum = 65534, .preset = "10000",
            .help = "how many of the most frequent tokens have numbers of their own, from 1; 0 is all others"},
        [SETTING_CLASSES] = {.name = "classes", .type = FORM_WHOLE, .minimum = 1, .maximum = DATASET_MAX_CLASSES, .preset = "",
            .help = "how many classes there are, where the samples do not have all: labels are whole numbers from 0 to below it, in arrays and JSON also with a point"}}};
// clang-format on
_Static_assert((int)DATASET_SETTINGS <= (int)FORM_MAX_KEYS, "a row has room for all settings");

const FormTable settings_table = {.rows = &row, .count = 1, .what = "setting of data", .topic = "data"};

static bool begins_setting(const char *word) {
    const size_t name = strcspn(word, " \t=/");
    return name > 0 && word[name] == '=';
}

static bool exists(const char *data, size_t bytes) {
    char place[PATH_MAX];
    return snprintf(place, sizeof place, "%.*s", (int)bytes, data) < PATH_MAX && access(place, F_OK) == 0;
}

// Names of files may have blanks and even "=": the first place that exists counts, else the first word with a "=".
size_t settings_place_bytes(const char *data) {
    size_t first = strlen(data);
    if (exists(data, first)) return first;
    while (first > 0 && data[first - 1] == ' ')
        first--;
    const size_t all = first;
    for (size_t i = 1; i < all; i++) {
        if (data[i] != ' ' || data[i - 1] == ' ' || !begins_setting(data + i + strspn(data + i, " "))) continue;
        if (exists(data, i)) return i;
        if (first == all) first = i;
    }
    return first;
}

bool settings_replace(char *text, size_t bytes, const char *place, const char *data) {
    const int length = snprintf(text, bytes, "%s%s", place, data + settings_place_bytes(data));
    return length >= 0 && (size_t)length < bytes;
}

bool settings_full(char *text, size_t bytes, const char *data) {
    char place[PATH_MAX], path[PATH_MAX];
    snprintf(place, sizeof place, "%.*s", (int)settings_place_bytes(data), data);
    if (!realpath(place, path)) return false;
    errno = ENAMETOOLONG;
    return settings_replace(text, bytes, path, data);
}

Status settings_parse(Form *settings, const char *text, Error *err) {
    char all[FORM_TEXT_BYTES];
    if (snprintf(all, sizeof all, "%s %s", row.name, text) >= FORM_TEXT_BYTES)
        return fail(err, STATUS_USAGE, "--data: settings of more than %d bytes", FORM_TEXT_BYTES - 1);
    TRY(form_parse(settings, all, &settings_table, err));
    uint32_t fold, folds;
    if (!settings->given[SETTING_FOLD]) return STATUS_OK;
    if (settings->given[SETTING_TEST_FRACTION])
        return fail(err, STATUS_USAGE, "--data: fold and test-fraction; a fold is the part for tests, so give one");
    if (settings_fold(&fold, &folds, settings)) return STATUS_OK;
    return fail(err, STATUS_USAGE, "--data: fold=%.40s: write which of how many parts is for tests, such as fold=1/5",
                form_text(settings, SETTING_FOLD));
}

bool settings_fold(uint32_t *fold, uint32_t *folds, const Form *settings) {
    const char *text = form_text(settings, SETTING_FOLD);
    int end = 0;
    return !text[strspn(text, "0123456789/")] && sscanf(text, "%9u/%9u%n", fold, folds, &end) == 2 && !text[end] &&
           *fold >= 1 && *fold <= *folds && *folds >= 2;
}

const char *settings_split(const Form *settings) {
    for (int setting = SETTING_TEST_FRACTION; setting <= SETTING_FOLD; setting++)
        if (setting != SETTING_TEST_SEED && settings->given[setting]) return row.keys[setting].name;
    return NULL;
}

Status settings_check(const Form *settings, unsigned known, const char *form, Error *err) {
    for (int setting = 0; setting < DATASET_SETTINGS; setting++)
        if (settings->given[setting] && !(known & 1u << setting))
            return fail(err, STATUS_USAGE, "--data: %s=%.60s: no setting of data of the form %s (`sounder help data`)",
                        row.keys[setting].name, form_text(settings, setting), form);
    return STATUS_OK;
}

bool settings_is_owner(const char *name, size_t bytes) {
    static const char *const usual[] = {
        "user",      "user_id",  "userid",      "subject", "subject_id", "patient",     "patient_id", "client",
        "client_id", "hospital", "hospital_id", "site",    "site_id",    "institution", "writer",     "participant"};
    for (size_t i = 0; i < sizeof usual / sizeof *usual; i++)
        if (strlen(usual[i]) == bytes && strncasecmp(name, usual[i], bytes) == 0) return true;
    return false;
}

char *settings_word(char word[SETTINGS_WORD_BYTES], DatasetSetting setting, const char *value) {
    const char *quote = !strpbrk(value, " \t'") ? "" : strchr(value, '\'') ? "\"" : "'";
    const int length = snprintf(word, SETTINGS_WORD_BYTES, "%s=%s%s%s", row.keys[setting].name, quote, value, quote);
    if (length >= SETTINGS_WORD_BYTES) snprintf(word, SETTINGS_WORD_BYTES, "%s=COLUMN", row.keys[setting].name);
    return word;
}

bool settings_say(const Form *settings, DatasetSetting setting, const char *word) {
    return strcmp(form_text(settings, (int)setting), word) == 0;
}

Status settings_reshape(Shape *shape, const Form *settings, Error *err) {
    const char *text = form_text(settings, SETTING_SHAPE);
    Shape wanted = {1, 0, 0};
    int end = 0;
    if (!*text) return STATUS_OK;
    if (sscanf(text, "%dx%dx%d%n", &wanted.channels, &wanted.rows, &wanted.columns, &end) != 3 || text[end]) {
        wanted.channels = 1;
        if (sscanf(text, "%dx%d%n", &wanted.rows, &wanted.columns, &end) != 2) end = 0;
    }
    if (end == 0 || text[end] || wanted.channels < 1 || wanted.rows < 1 || wanted.columns < 1 ||
        wanted.channels > SHAPE_MOST || wanted.rows > SHAPE_MOST || wanted.columns > SHAPE_MOST)
        return fail(err, STATUS_USAGE, "--data: shape=%.40s: write channels, rows and columns: shape=1x28x28", text);
    const double size = (double)wanted.channels * wanted.rows * wanted.columns;
    if (size != (double)shape_size(*shape))
        return fail(err, STATUS_USAGE, "--data: shape=%.40s: %.0f numbers, but a sample has %zu (%dx%dx%d)", text, size,
                    shape_size(*shape), shape->channels, shape->rows, shape->columns);
    *shape = wanted;
    return STATUS_OK;
}

uint32_t settings_classes(const Form *settings) {
    return settings->given[SETTING_CLASSES] ? (uint32_t)settings->number[SETTING_CLASSES] : 0;
}
