// Part of option_table.h: one option's value: reading, writing, and error sentences.
#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/suggest.h"
#include "base/text.h"
#include "option_table.h"

int option_index(const Option *option) {
    return (int)(option - option_table);
}

bool option_applies(const Options *options, const Option *option) {
    return !option->applies || option->applies(options);
}

static size_t text_bytes(const Option *option) {
    return option->is_net ? OPTION_NET_BYTES : OPTION_TEXT_BYTES;
}

static size_t field_bytes(const Option *option) {
    switch (option->type) {
    case OPTION_WHOLE:
    case OPTION_CHOICE:
        return sizeof(int);
    case OPTION_SEED:
        return sizeof(uint64_t);
    case OPTION_REAL:
        return sizeof(double);
    case OPTION_FLOAT:
        return sizeof(float);
    case OPTION_FLAG:
        return sizeof(bool);
    case OPTION_TEXT:
    case OPTION_FORM:
        break;
    }
    return text_bytes(option);
}

static const void *field_of(const Options *options, const Option *option) {
    return (const char *)options + option->offset;
}

static void store(void *record, const Option *option, const void *value) {
    memcpy((char *)record + option->offset, value, field_bytes(option));
}

void option_copy(Options *to, const Options *from, const Option *option) {
    Form form;
    store(to, option, field_of(from, option));
    if (option->form && form_parse(&form, field_of(from, option), &option->form->table, NULL) == STATUS_OK)
        option->form->take(to, &form);
}

bool option_equal(const Options *a, const Options *b, const Option *option) {
    const void *left = field_of(a, option), *right = field_of(b, option);
    char all[OPTION_VALUE_BYTES], others[OPTION_VALUE_BYTES];
    if (option->type == OPTION_TEXT) return strcmp(left, right) == 0;
    if (option->type == OPTION_FORM) {
        option_format(all, a, option);
        option_format(others, b, option);
        return strcmp(all, others) == 0;
    }
    return memcmp(left, right, field_bytes(option)) == 0;
}

static bool only(const char *text, const char *letters) {
    return *text && text[strspn(text, letters)] == '\0';
}

bool option_is_zero(const Options *options, const Option *option) {
    static const char zeros[OPTION_VALUE_BYTES];
    return memcmp(field_of(options, option), zeros, field_bytes(option)) == 0;
}

// strtod and its relatives skip blanks, accept "nan", "inf" and hexadecimal, and stop at junk. Here the whole text must
// be a number of only digits, sign, point and exponent.
static bool read_whole(int *value, const Option *option, const char *text) {
    if (!only(text, "-0123456789")) return false;
    char *end;
    errno = 0;
    long number = strtol(text, &end, 10);
    if (errno || *end || (double)number < option->minimum || (double)number > option->maximum) return false;
    *value = (int)number;
    return true;
}

static bool read_seed(uint64_t *value, const char *text) {
    if (!only(text, "0123456789")) return false;
    errno = 0;
    *value = strtoull(text, NULL, 10);
    return errno == 0;
}

static bool read_real(double *value, const Option *option, const char *text) {
    if (!only(text, "+-0123456789.eE")) return false;
    char *end;
    errno = 0;
    *value = strtod(text, &end);
    if (errno || end == text || *end) return false; // ERANGE: too large, or so small that digits are lost
    bool above = option->above_minimum ? *value > option->minimum : *value >= option->minimum;
    bool below = option->below_maximum ? *value < option->maximum : *value <= option->maximum;
    return above && below;
}

// Training is in single precision, where a tiny number would be 0.
static bool read_float(float *value, const Option *option, const char *text) {
    double exact;
    if (!read_real(&exact, option, text)) return false;
    *value = (float)exact;
    return (*value != 0) == (exact != 0);
}

bool option_read_flag(bool *value, const char *text) {
    static const char *const yes[] = {"true", "yes", "on"}, *const no[] = {"false", "no", "off"};
    for (size_t i = 0; i < sizeof yes / sizeof *yes; i++) {
        *value = strcasecmp(text, yes[i]) == 0;
        if (*value || strcasecmp(text, no[i]) == 0) return true;
    }
    return false;
}

static bool read_choice(int *value, const Option *option, const char *text) {
    for (*value = 0; *value < OPTION_MAX_CHOICES && option->choices[*value]; ++*value)
        if (strcmp(option->choices[*value], text) == 0) return true;
    return false;
}

// Returns the length of the UTF-8 character that begins here; 0: none does. Some second bytes are limited further than
// 80 to BF: others would encode overlong forms, surrogates, or values beyond 10FFFF.
static size_t utf8_character(const unsigned char *at) {
    const unsigned char first = at[0];
    const size_t bytes = first < 0x80   ? 1
                         : first < 0xc2 ? 0
                         : first < 0xe0 ? 2
                         : first < 0xf0 ? 3
                         : first < 0xf5 ? 4
                                        : 0;
    const unsigned char least = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
    const unsigned char most = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
    if (bytes > 1 && (at[1] < least || at[1] > most)) return 0;
    for (size_t i = 2; i < bytes; i++)
        if (at[i] < 0x80 || at[i] > 0xbf) return 0;
    return bytes;
}

enum { JOINED_BYTES = OPTION_VALUE_BYTES + 4 }; // one step of the loop below writes at most three bytes

// Writes a text of parts on one line: "conv 20 5; relu" for "conv 20 5\nrelu". A line end ends a part, but is only
// white space next to a ';'. Stops when the text is too long for an option.
static void join_lines(char joined[JOINED_BYTES], const char *text) {
    static const char white[] = " \t\r\n";
    size_t length = 0;
    text += strspn(text, white);
    while (*text && length < OPTION_VALUE_BYTES) {
        const size_t gap = strspn(text, white);
        const bool ends_part = memchr(text, '\n', gap) && joined[length - 1] != ';' && text[gap] != ';';
        if (gap > 0 && text[gap] && ends_part) joined[length++] = ';';
        if (gap > 0 && text[gap]) joined[length++] = ' ';
        text += gap;
        if (*text) joined[length++] = *text++;
    }
    joined[length] = '\0';
}

// Texts are written to YAML and JSON files and to terminals, so they must be UTF-8 without control characters. The
// check allocates nothing, because a failed allocation would look like a wrong text.
static bool read_text(char *value, const Option *option, const char *text) {
    char joined[JOINED_BYTES];
    if (option->parts && strpbrk(text, "\t\r\n")) {
        join_lines(joined, text);
        text = joined;
    }
    const size_t length = strlen(text);
    if (length == 0 || length >= text_bytes(option)) return false;
    for (const char *c = text; *c; c += utf8_character((const unsigned char *)c))
        if (iscntrl((unsigned char)*c) || utf8_character((const unsigned char *)c) == 0) return false;
    memset(value, 0, text_bytes(option));
    memcpy(value, text, length);
    return true;
}

void option_printable(char shown[OPTION_SHOWN_BYTES], const char *value) {
    enum { ROOM = 60 };
    size_t length = strnlen(value, ROOM);
    for (size_t i = 0; i < length; i++)
        shown[i] = isprint((unsigned char)value[i]) ? value[i] : '?';
    strcpy(shown + length, value[length] ? "..." : "");
    if (length == 0) strcpy(shown, "\"\"");
}

Status option_set(Options *options, const Option *option, const char *value, const char *where, Error *err) {
    TRY(option_read(options, option, value, where, err));
    options->given[option_index(option)] = true;
    return STATUS_OK;
}

const char *option_name_in_table(const Option *option, size_t index) {
    const FormTable *forms = option->form ? &option->form->table : NULL;
    if (forms) {
        const FormRow *row = index < forms->count ? &forms->rows[index] : NULL;
        return row && !row->leads && !row->unnamed ? row->name : NULL;
    }
    return option->name_of ? option->name_of(index) : NULL;
}

// Whether the value looks like several values for `sounder sweep`: 1,2 or 1..3 or, for whole numbers, 1-3.
static bool is_several(char *several, size_t bytes, const Option *option, const char *value) {
    const bool leads = option->form && option->form->table.rows->leads; // the form begins with a number
    const bool is_number = leads || option->type == OPTION_WHOLE || option->type == OPTION_SEED ||
                           option->type == OPTION_REAL || option->type == OPTION_FLOAT;
    const char *comma = strchr(value, ','), *name;
    unsigned long first, last;
    char rest;
    snprintf(several, bytes, "%s", value);
    if (option->unsaved || option->not_train) return false;
    if (is_number && !value[strspn(value, "0123456789.,+-e")] && (comma || strstr(value, ".."))) return true;
    if (is_number && sscanf(value, "%lu-%lu%c", &first, &last, &rest) == 2)
        return snprintf(several, bytes, "%lu..%lu", first, last) > 0;
    for (size_t i = 0; comma && (name = option_name_in_table(option, i)); i++)
        if (strlen(name) == (size_t)(comma - value) && memcmp(name, value, strlen(name)) == 0) return true;
    return false;
}

static Status refuse_several(const Option *option, const char *value, const char *several, const char *where,
                             Error *err) {
    char shown[OPTION_SHOWN_BYTES];
    option_printable(shown, value);
    return fail(err, STATUS_USAGE, "%s%s %s: needs one value; for several: sounder sweep --%s %.200s", where,
                option->name, shown, option->name, several);
}

static Status refuse_value(const Option *option, const char *value, const char *where, Error *err) {
    static const char *const kinds[] = {
        [OPTION_WHOLE] = "a whole number ",
        [OPTION_SEED] = "a whole number ",
        [OPTION_REAL] = "a number ",
        [OPTION_FLOAT] = "a number ",
        [OPTION_FLAG] = "true or false",
        [OPTION_CHOICE] = "",
        [OPTION_TEXT] = "a UTF-8 text of 1 to 2047 bytes without control characters",
        [OPTION_FORM] = "a UTF-8 text of 1 to 2047 bytes without control characters; it is one of ",
    };
    static const char net[] = "a UTF-8 text of 1 to 16383 bytes without control characters";
    static_assert(OPTION_TEXT_BYTES == 2048 && OPTION_NET_BYTES == 16384, "the sentences above say so");
    char shown[OPTION_SHOWN_BYTES], range[OPTION_RANGE_BYTES], several[OPTION_VALUE_BYTES];
    option_printable(shown, value);
    option_range(range, option);
    if (is_several(several, sizeof several, option, value)) return refuse_several(option, value, several, where, err);
    const double number = strtod(value, NULL);
    const bool is_share = option->type == OPTION_WHOLE && number > 0 && number < 1;
    Suggestion suggestion = {.typed = value};
    for (int i = 0; option->type == OPTION_CHOICE && i < OPTION_MAX_CHOICES && option->choices[i]; i++)
        suggestion_consider(&suggestion, option->choices[i]);
    // One edit turns three letters into another word: cpu into gpu.
    const char *best = suggestion.distance == 0 || strlen(value) > 3 ? suggestion.best : NULL;
    return fail(err, STATUS_USAGE, "%s%s %s: needs %s%s%s%s%s%s", where, option->name, shown,
                option->is_net ? net : kinds[option->type], range, is_share ? ", not a share of them" : "",
                best ? "; did you mean " : "", best ? best : "", best ? "?" : "");
}

// Stores the text, and its numbers in their fields.
static Status read_form(void *record, const Option *option, const char *value, const char *where, Error *err) {
    char text[OPTION_TEXT_BYTES];
    Form form;
    Error why;
    if (!read_text(text, option, value)) return refuse_value(option, value, where, err);
    if (form_parse(&form, text, &option->form->table, &why) != STATUS_OK) {
        fail(err, STATUS_USAGE, "%s%s %s", where, option->name, why.message);
        error_keep_sketch(err, &why);
        return STATUS_USAGE;
    }
    store(record, option, text);
    option->form->take(record, &form);
    return STATUS_OK;
}

Status option_read(void *record, const Option *option, const char *value, const char *where, Error *err) {
    union {
        int whole;
        uint64_t seed;
        double real;
        float single;
        bool flag;
        char text[OPTION_VALUE_BYTES];
    } parsed;
    char several[OPTION_VALUE_BYTES];
    bool good = false;
    errno = 0;
    switch (option->type) {
    case OPTION_WHOLE:
        good = read_whole(&parsed.whole, option, value);
        break;
    case OPTION_SEED:
        good = read_seed(&parsed.seed, value);
        break;
    case OPTION_REAL:
        good = read_real(&parsed.real, option, value);
        break;
    case OPTION_FLOAT:
        good = read_float(&parsed.single, option, value);
        break;
    case OPTION_FLAG:
        good = option_read_flag(&parsed.flag, value);
        break;
    case OPTION_CHOICE:
        good = read_choice(&parsed.whole, option, value);
        break;
    case OPTION_TEXT:
        if (is_several(several, sizeof several, option, value))
            return refuse_several(option, value, several, where, err);
        good = read_text(parsed.text, option, value);
        break;
    case OPTION_FORM:
        if (is_several(several, sizeof several, option, value))
            return refuse_several(option, value, several, where, err);
        return read_form(record, option, value, where, err);
    }
    if (good) {
        store(record, option, &parsed);
        return STATUS_OK;
    }
    return refuse_value(option, value, where, err);
}

// 15 digits represent every decimal of at most 15 digits exactly, 17 every double.
static void format_real(char *text, size_t bytes, double value) {
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, bytes, "%.*g", digits, value);
        if (strtod(text, NULL) == value) return;
    }
}

// Writes the shortest decimal that reads back to that float: 9 digits always suffice.
static void format_float(char *text, size_t bytes, float value) {
    for (int digits = 6; digits <= 9; digits++) {
        snprintf(text, bytes, "%.*g", digits, (double)value);
        if (strtof(text, NULL) == value) return;
    }
}

void option_format(char *text, const Options *options, const Option *option) {
    const void *field = field_of(options, option);
    Form form;
    switch (option->type) {
    case OPTION_WHOLE:
        snprintf(text, OPTION_VALUE_BYTES, "%d", *(const int *)field);
        break;
    case OPTION_SEED:
        snprintf(text, OPTION_VALUE_BYTES, "%" PRIu64, *(const uint64_t *)field);
        break;
    case OPTION_REAL:
        format_real(text, OPTION_VALUE_BYTES, *(const double *)field);
        break;
    case OPTION_FLOAT:
        format_float(text, OPTION_VALUE_BYTES, *(const float *)field);
        break;
    case OPTION_FLAG:
        strcpy(text, *(const bool *)field ? "true" : "false");
        break;
    case OPTION_CHOICE:
        strcpy(text, option->choices[*(const int *)field]);
        break;
    case OPTION_TEXT:
        strcpy(text, field);
        break;
    case OPTION_FORM:
        strcpy(text, field);
        if (form_parse(&form, field, &option->form->table, NULL) == STATUS_OK)
            form_write(text, OPTION_VALUE_BYTES, &form, &option->form->table);
        break;
    }
}

void option_show(char shown[OPTION_SHOWN_BYTES], const Options *options, const Option *option) {
    char value[OPTION_VALUE_BYTES];
    option_format(value, options, option);
    if (option->form) strcpy(value, field_of(options, option)); // as typed
    const char *quote = strchr(value, ' ') ? "\"" : "";
    snprintf(shown, OPTION_SHOWN_BYTES, "%s%.60s%s%s", quote, value, strlen(value) > 60 ? "..." : "", quote);
}

// Returns choice number i, or the usage of form number i; NULL: there is none.
static const char *choice_in_words(char usage[FORM_USAGE_BYTES], const Option *option, int i) {
    if (!option->form) return i < OPTION_MAX_CHOICES ? option->choices[i] : NULL;
    if (i >= (int)option->form->table.count) return NULL;
    form_usage(usage, &option->form->table.rows[i]);
    return usage;
}

static void choices_in_words(char *text, const Option *option) {
    char usage[FORM_USAGE_BYTES], next[FORM_USAGE_BYTES];
    const char *choice;
    for (int i = 0; (choice = choice_in_words(usage, option, i)); i++) {
        const char *separator = i == 0 ? "" : choice_in_words(next, option, i + 1) ? ", " : " or ";
        text_add(text, OPTION_RANGE_BYTES, "%s%s", separator, choice);
        assert(strlen(text) + 1 < OPTION_RANGE_BYTES);
    }
}

void option_range(char *text, const Option *option) {
    char low[32], high[32];
    format_real(low, sizeof low, option->minimum);
    format_real(high, sizeof high, option->maximum);
    text[0] = '\0';
    switch (option->type) {
    case OPTION_WHOLE:
        snprintf(text, OPTION_RANGE_BYTES, "from %s to %s", low, high);
        break;
    case OPTION_SEED:
        snprintf(text, OPTION_RANGE_BYTES, "from 0 to %" PRIu64, UINT64_MAX);
        break;
    case OPTION_REAL:
    case OPTION_FLOAT:
        snprintf(text, OPTION_RANGE_BYTES,
                 option->above_minimum   ? "above %s, at most %s"
                 : option->below_maximum ? "from %s to below %s"
                                         : "from %s to %s",
                 low, high);
        break;
    case OPTION_CHOICE:
    case OPTION_FORM:
        choices_in_words(text, option);
        break;
    case OPTION_FLAG:
    case OPTION_TEXT:
        break;
    }
}
