// Part of option_table.h: an option's value as it is stored: copied, compared, written as text.
#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "option_table.h"

int option_index(const Option *option) {
    return (int)(option - option_table);
}

bool option_applies(const Options *options, const Option *option) {
    return !option->applies || option->applies(options);
}

size_t option_bytes(const Option *option) {
    static const size_t bytes[] = {
        [OPTION_WHOLE] = sizeof(int),      [OPTION_SEED] = sizeof(uint64_t), [OPTION_REAL] = sizeof(double),
        [OPTION_FLOAT] = sizeof(float),    [OPTION_FLAG] = sizeof(bool),     [OPTION_CHOICE] = sizeof(int),
        [OPTION_TEXT] = OPTION_TEXT_BYTES, [OPTION_FORM] = OPTION_TEXT_BYTES};
    return option->is_net ? OPTION_NET_BYTES : bytes[option->type];
}

static const void *field_of(const Options *options, const Option *option) {
    return (const char *)options + option->offset;
}

void option_copy(Options *to, const Options *from, const Option *option) {
    Form form;
    memcpy((char *)to + option->offset, field_of(from, option), option_bytes(option));
    if (option->form && form_parse(&form, field_of(from, option), &option->form->table, NULL) == STATUS_OK)
        option->form->take(to, &form);
}

bool option_equal(const Options *a, const Options *b, const Option *option) {
    char value[OPTION_VALUE_BYTES], other[OPTION_VALUE_BYTES];
    option_format(value, a, option);
    option_format(other, b, option);
    return strcmp(value, other) == 0;
}

bool option_is_zero(const Options *options, const Option *option) {
    static const char zeros[OPTION_VALUE_BYTES];
    return memcmp(field_of(options, option), zeros, option_bytes(option)) == 0;
}

void option_printable(char shown[OPTION_SHOWN_BYTES], const char *value) {
    enum { ROOM = 60 };
    text_cut(shown, ROOM + 1, value);
    const char *more = !*value ? "\"\"" : value[strlen(shown)] ? "..." : "";
    disarm_text(shown);
    strcat(shown, more);
}

const char *option_name_in_table(const Option *option, size_t index) {
    const FormTable *forms = option->form ? &option->form->table : NULL;
    if (forms) {
        const FormRow *row = index < forms->count ? &forms->rows[index] : NULL;
        return row && !row->leads && !row->unnamed ? row->name : NULL;
    }
    return option->name_of ? option->name_of(index) : NULL;
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

// A derived default is a word of the option's own, such as none.
bool option_is_default(const Options *options, const Option *option) {
    char value[OPTION_VALUE_BYTES], preset[OPTION_VALUE_BYTES];
    Options defaults;
    option_format(value, options, option);
    if (!option->preset) return option->derived && form_is(value, option->derived);
    options_defaults(&defaults);
    option_format(preset, &defaults, option);
    return strcmp(value, preset) == 0;
}

void option_show(char shown[OPTION_SHOWN_BYTES], const Options *options, const Option *option) {
    char value[OPTION_VALUE_BYTES];
    if (option->form)
        strcpy(value, field_of(options, option)); // as typed
    else
        option_format(value, options, option);
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
