#include "base/keyed_text.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/suggest.h"
#include "base/text.h"

static const char *const blanks = " \t";

bool form_is(const char *text, const char *name) {
    text += strspn(text, blanks);
    size_t length = strlen(name);
    return strncmp(text, name, length) == 0 && (text[length] == '\0' || strchr(" \t:", text[length]));
}

static int count_keys(const FormRow *row) {
    int count = 0;
    while (count < FORM_MAX_KEYS && row->keys[count].name)
        count++;
    return count;
}

void form_usage(char usage[FORM_USAGE_BYTES], const FormRow *row) {
    snprintf(usage, FORM_USAGE_BYTES, "%s", row->unnamed ? "" : row->name);
    for (int k = row->leads ? 1 : 0; k < count_keys(row); k++) {
        const FormKey *key = &row->keys[k];
        const bool is_text = key->type == FORM_TEXT;
        const char *value = key->choices ? key->choices : key->preset && *key->preset ? key->preset : "X";
        text_add(usage, FORM_USAGE_BYTES, "%s%s", *usage && !is_text ? " " : "", key->preset ? "[" : "");
        char *part = usage + strlen(usage);
        if (is_text)
            text_add(usage, FORM_USAGE_BYTES, ":%s", key->name);
        else
            text_add(usage, FORM_USAGE_BYTES, "%s=%s%s", key->name, value, key->type == FORM_REALS ? ",..." : "");
        for (; *part; part++)
            if (*part == ' ') *part = '|'; // between choices
        text_add(usage, FORM_USAGE_BYTES, "%s", key->preset ? "]" : "");
    }
}

static Status unknown_row(const char *name, const FormTable *table, Error *err) {
    Suggestion suggestion = {.typed = name};
    for (uint32_t i = 0; i < table->count; i++)
        if (!form_row(table, i)->unnamed) suggestion_consider(&suggestion, form_row(table, i)->name);
    return fail(err, STATUS_USAGE, "%.60s: no such %s%s%s%s; `sounder help %s` lists them", name, table->what,
                suggestion.best ? " (did you mean " : "", suggestion.best ? suggestion.best : "",
                suggestion.best ? "?)" : "", table->topic);
}

static Status unknown_key(const char *word, const FormRow *row, Error *err) {
    char usage[FORM_USAGE_BYTES], name[64];
    form_usage(usage, row);
    snprintf(name, sizeof name, "%.*s", (int)strcspn(word, "="), word);
    Suggestion suggestion = {.typed = name};
    for (int k = 0; k < count_keys(row); k++)
        suggestion_consider(&suggestion, row->keys[k].name);
    return fail(err, STATUS_USAGE, "%s: %.60s is no part of it%s%s%s; write %s", row->name, word,
                suggestion.best ? " (did you mean " : "", suggestion.best ? suggestion.best : "",
                suggestion.best ? "?)" : "", usage);
}

// As for options: the whole text must be a number, made only of digits, sign, point and exponent.
static bool read_number(double *number, const char *text, size_t length, const FormKey *key) {
    char digits[64], *end;
    if (length == 0 || length >= sizeof digits || strspn(text, "+-0123456789.eE") < length) return false;
    memcpy(digits, text, length);
    digits[length] = '\0';
    errno = 0;
    *number = strtod(digits, &end);
    if (errno || *end || end == digits) return false;
    if (key->type == FORM_WHOLE && *number != floor(*number)) return false;
    return *number >= key->minimum && *number <= key->maximum;
}

static bool read_list(double *first, const char *text, const FormKey *key) {
    for (uint32_t i = 0;; i++) {
        double number;
        size_t length = strcspn(text, ",");
        if (!read_number(&number, text, length, key)) return false;
        if (i == 0) *first = number;
        if (!text[length]) return true;
        text += length + 1;
    }
}

static bool read_choice(double *place, const char *text, const char *choices) {
    size_t length = strlen(text);
    for (*place = 0; *choices; ++*place) {
        size_t word = strcspn(choices, " ");
        if (word == length && memcmp(choices, text, length) == 0) return true;
        choices += word + strspn(choices + word, " ");
    }
    return false;
}

static bool read_value(double *number, const char *text, const FormKey *key) {
    switch (key->type) {
    case FORM_WHOLE:
    case FORM_REAL:
        return read_number(number, text, strlen(text), key);
    case FORM_REALS:
        return read_list(number, text, key);
    case FORM_CHOICE:
        return read_choice(number, text, key->choices);
    case FORM_WORD:
    case FORM_TEXT:
        break;
    }
    return *text != '\0';
}

static Status refuse_value(const char *text, const FormRow *row, const FormKey *key, Error *err) {
    char part[160];
    if (row->leads && key == row->keys)
        snprintf(part, sizeof part, "%.60s", text);
    else
        snprintf(part, sizeof part, "%s%s%s=%.60s", row->unnamed ? "" : row->name, row->unnamed ? "" : ": ", key->name,
                 text);
    if (key->type == FORM_CHOICE) return fail(err, STATUS_USAGE, "%s: needs one of %s", part, key->choices);
    if (key->type == FORM_WORD) return fail(err, STATUS_USAGE, "%s: %s= needs a value", row->name, key->name);
    if (key->type == FORM_TEXT)
        return fail(err, STATUS_USAGE, "%s: needs a value; write %s:%s", row->name, row->name, key->name);
    return fail(err, STATUS_USAGE, "%s: needs %s from %.15g to %.15g%s", part,
                key->type == FORM_WHOLE ? "a whole number" : "a number", key->minimum, key->maximum,
                key->type == FORM_REALS ? ", or several between commas" : "");
}

static Status take_value(Form *form, size_t *used, const char *value, size_t length, const FormRow *row, int key,
                         Error *err) {
    char *text = form->text + *used;
    form->place[key] = (uint16_t)*used;
    memcpy(text, value, length); // fits: the values are shorter than the text, presets than ROOM_FOR_PRESETS
    text[length] = '\0';
    *used += length + 1;
    if (read_value(&form->number[key], text, &row->keys[key])) return STATUS_OK;
    return refuse_value(text, row, &row->keys[key], err);
}

// Length of the part that begins here: up to a blank, but for blanks in a value within quotes.
static size_t part_length(const char *text, const char *ends) {
    const size_t name = strcspn(text, " \t:=");
    if (text[name] != '=' || !text[name + 1] || !strchr("'\"", text[name + 1])) return strcspn(text, ends);
    const char *end = strchr(text + name + 2, text[name + 1]);
    return end ? (size_t)(end - text) + 1 : strcspn(text, ends);
}

// Removes the quotes around a value.
static const char *unquoted(const char *value, size_t *length) {
    if (*length < 2 || !strchr("'\"", *value) || value[*length - 1] != *value) return value;
    *length -= 2;
    return value + 1;
}

// The first `length` bytes of `word`.
static Status take_part(Form *form, size_t *used, const char *word, size_t length, const FormRow *row, Error *err) {
    const size_t name = strcspn(word, "=");
    char shown[64];
    snprintf(shown, sizeof shown, "%.*s", (int)length, word);
    for (int k = 0; k < count_keys(row); k++) {
        const FormKey *key = &row->keys[k];
        if (key->type == FORM_TEXT || strlen(key->name) != name || name >= length) continue;
        if (memcmp(key->name, word, name) != 0) continue;
        if (form->given[k]) return fail(err, STATUS_USAGE, "%s: %s is given twice", row->name, key->name);
        form->given[k] = true;
        size_t bytes = length - name - 1;
        const char *value = word + name + 1;
        if (key->type == FORM_WORD) value = unquoted(value, &bytes);
        return take_value(form, used, value, bytes, row, k, err);
    }
    return unknown_key(shown, row, err);
}

static Status take_presets(Form *form, size_t *used, const FormRow *row, Error *err) {
    char usage[FORM_USAGE_BYTES];
    for (int k = 0; k < count_keys(row); k++) {
        const FormKey *key = &row->keys[k];
        if (form->given[k]) continue;
        form_usage(usage, row);
        if (!key->preset) return fail(err, STATUS_USAGE, "%s: needs its %s; write %s", row->name, key->name, usage);
        if (*key->preset)
            TRY(take_value(form, used, key->preset, strlen(key->preset), row, k, err));
        else
            form->place[k] = (uint16_t)(*used - 1); // an empty text: the '\0' after the last value
    }
    return STATUS_OK;
}

// Adds a sketch to a refusal of the `length` bytes at `at` of the text `whole`.
static Status sketched(Status status, const char *whole, const char *at, size_t length, Error *err) {
    if (status != STATUS_OK) error_sketch(err, whole, (size_t)(at - whole), length);
    return status;
}

// Reads the "key=value" parts after the name, and for a row that ends with a text a colon and that text.
static Status take_parts(Form *form, size_t *used, const char *whole, const char *text, const FormRow *row,
                         Error *err) {
    const int last = count_keys(row) - 1;
    const char *const ends = last >= 0 && row->keys[last].type == FORM_TEXT ? " \t:" : blanks;
    for (text += strspn(text, blanks); *text; text += strspn(text, blanks)) {
        if (*text == ':' && ends != blanks) {
            form->given[last] = true;
            return take_value(form, used, text + 1, strlen(text + 1), row, last, err);
        }
        const size_t length = part_length(text, ends);
        TRY(sketched(take_part(form, used, text, length, row, err), whole, text, length, err));
        text += length;
    }
    return STATUS_OK;
}

// Whether the text, whose first word is `name`, is of this row.
static bool is_of(const FormRow *row, const char *name) {
    return row->leads || (row->unnamed ? strchr(name, '=') != NULL : strcmp(row->name, name) == 0);
}

// Two passes fill the form: the parts that the user gives, then the presets of the other keys, so that the caller finds
// a value for every key of the row. Every refusal adds a sketch that points at the wrong word.
Status form_parse(Form *form, const char *text, const FormTable *table, Error *err) {
    enum { ROOM_FOR_PRESETS = 256 };
    const char *const whole = text;
    *form = (Form){0};
    text += strspn(text, blanks);
    size_t length = strcspn(text, " \t:"), used = 1;
    char name[64];
    if (strlen(text) + ROOM_FOR_PRESETS > FORM_TEXT_BYTES)
        return fail(err, STATUS_USAGE, "%.40s...: longer than %d bytes", text, FORM_TEXT_BYTES - ROOM_FOR_PRESETS);
    snprintf(name, sizeof name, "%.*s", (int)length, text);
    while (form->row < table->count && !is_of(form_row(table, form->row), name))
        form->row++;
    if (form->row == table->count) return sketched(unknown_row(name, table, err), whole, text, length, err);
    const FormRow *row = form_row(table, form->row);
    if (row->leads) {
        form->given[0] = true;
        TRY(take_value(form, &used, text, length, row, 0, err));
    }
    TRY(take_parts(form, &used, whole, row->unnamed ? text : text + length, row, err));
    return take_presets(form, &used, row, err);
}

double form_number(const Form *form, const FormTable *table, const char *name, double otherwise) {
    const FormRow *row = form_row(table, form->row);
    for (int k = 0; k < count_keys(row); k++)
        if (strcmp(row->keys[k].name, name) == 0 && *form_text(form, k)) return form->number[k];
    return otherwise;
}

void form_write(char *text, size_t bytes, const Form *form, const FormTable *table) {
    const FormRow *row = form_row(table, form->row);
    snprintf(text, bytes, "%s", row->leads ? form_text(form, 0) : row->unnamed ? "" : row->name);
    for (int k = row->leads ? 1 : 0; k < count_keys(row); k++) {
        const char *value = form_text(form, k);
        if (!*value) continue;
        if (row->keys[k].type == FORM_TEXT)
            text_add(text, bytes, ":%s", value);
        else
            text_add(text, bytes, "%s%s=%s", *text ? " " : "", row->keys[k].name, value);
    }
}

uint32_t form_reals(double *values, uint32_t room, const Form *form, int key) {
    uint32_t count = 0;
    const char *text = form_text(form, key);
    while (*text) {
        size_t length = strcspn(text, ",");
        if (count < room) values[count] = strtod(text, NULL);
        count++;
        text += length + (text[length] == ',');
    }
    return count;
}
