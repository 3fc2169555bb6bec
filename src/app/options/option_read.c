// Part of option_table.h: reads an option's value, strictly, and says why another text is none.
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

static bool only(const char *text, const char *letters) {
    return *text && text[strspn(text, letters)] == '\0';
}

// strtod and its relatives skip blanks, accept "nan", "inf" and hexadecimal, and stop at junk. Here the whole text must
// be a number of only digits, sign, point and exponent. A text that is refused leaves *value unchanged.
static bool read_whole(int *value, const Option *option, const char *text) {
    if (!only(text, "-0123456789")) return false;
    char *end;
    errno = 0;
    const long number = strtol(text, &end, 10);
    if (errno || *end || (double)number < option->minimum || (double)number > option->maximum) return false;
    *value = (int)number;
    return true;
}

static bool read_seed(uint64_t *value, const char *text) {
    if (!only(text, "0123456789")) return false;
    errno = 0;
    const uint64_t number = strtoull(text, NULL, 10);
    if (errno == 0) *value = number;
    return errno == 0;
}

static bool read_real(double *value, const Option *option, const char *text) {
    if (!only(text, "+-0123456789.eE")) return false;
    char *end;
    errno = 0;
    const double number = strtod(text, &end);
    if (errno || end == text || *end) return false; // ERANGE: too large, or so small that digits are lost
    const bool above = option->above_minimum ? number > option->minimum : number >= option->minimum;
    const bool below = option->below_maximum ? number < option->maximum : number <= option->maximum;
    if (above && below) *value = number;
    return above && below;
}

// Training is in single precision, where a tiny number would be 0.
static bool read_float(float *value, const Option *option, const char *text) {
    double exact;
    if (!read_real(&exact, option, text) || ((float)exact != 0) != (exact != 0)) return false;
    *value = (float)exact;
    return true;
}

bool option_read_flag(bool *value, const char *text) {
    static const char *const yes[] = {"true", "yes", "on"}, *const no[] = {"false", "no", "off"};
    for (size_t i = 0; i < sizeof yes / sizeof *yes; i++) {
        const bool is_yes = strcasecmp(text, yes[i]) == 0;
        if (!is_yes && strcasecmp(text, no[i]) != 0) continue;
        *value = is_yes;
        return true;
    }
    return false;
}

static bool read_choice(int *value, const Option *option, const char *text) {
    for (int i = 0; i < OPTION_MAX_CHOICES && option->choices[i]; i++) {
        if (strcmp(option->choices[i], text) != 0) continue;
        *value = i;
        return true;
    }
    return false;
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
    const size_t length = strlen(text), room = option_bytes(option);
    if (length == 0 || length >= room) return false;
    for (const char *letter = text; *letter; letter += text_letter(letter))
        if (iscntrl((unsigned char)*letter) || text_letter(letter) == 0) return false;
    memmove(value, text, length); // the text may be the value itself
    memset(value + length, 0, room - length);
    return true;
}

// Refuses what looks like several values for `sounder sweep`: 1,2 or, for whole numbers, 1..3 and 1-3.
static Status check_single(const Option *option, const char *value, const char *where, Error *err) {
    const bool leads = option->form && option->form->table.rows->leads; // the form begins with a number
    const bool is_whole = option->type == OPTION_WHOLE || option->type == OPTION_SEED;
    const bool is_number = leads || is_whole || option->type == OPTION_REAL || option->type == OPTION_FLOAT;
    const char *comma = strchr(value, ','), *name;
    unsigned long first, last;
    char rest, several[256], shown[OPTION_SHOWN_BYTES];
    bool is_several = (is_number && comma && !value[strspn(value, "0123456789.,+-e")]) ||
                      (is_whole && strstr(value, "..") && !value[strspn(value, "0123456789.,")]);
    snprintf(several, sizeof several, "%s", value);
    if (!is_several && is_whole && sscanf(value, "%lu-%lu%c", &first, &last, &rest) == 2)
        is_several = snprintf(several, sizeof several, "%lu..%lu", first, last) > 0;
    for (size_t i = 0; comma && (name = option_name_in_table(option, i)); i++)
        is_several |= strlen(name) == (size_t)(comma - value) && memcmp(name, value, strlen(name)) == 0;
    if (!is_several || option->unsaved || option->not_train) return STATUS_OK;
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
    char shown[OPTION_SHOWN_BYTES], range[OPTION_RANGE_BYTES];
    option_printable(shown, value);
    option_range(range, option);
    const double number = strtod(value, NULL);
    const bool is_percent = *value && value[strlen(value) - 1] == '%' && number > 0 && number <= 100;
    const bool is_share = option->type == OPTION_WHOLE && ((number > 0 && number < 1) || is_percent);
    const bool is_real = option->type == OPTION_REAL || option->type == OPTION_FLOAT;
    Suggestion suggestion = {.typed = value};
    if (is_percent && is_real)
        return fail(err, STATUS_USAGE, "%s%s %s: needs a number %s; write %g", where, option->name, shown, range,
                    number / 100);
    if (is_real && strstr(value, ".."))
        return fail(err, STATUS_USAGE,
                    "%s%s %s: needs a number %s; ranges are of whole numbers, so write 0.1,0.2,0.3 in a sweep", where,
                    option->name, shown, range);
    for (int i = 0; option->type == OPTION_CHOICE && i < OPTION_MAX_CHOICES && option->choices[i]; i++)
        suggestion_consider(&suggestion, option->choices[i]);
    for (int i = 0; option->type == OPTION_CHOICE && i < OPTION_MAX_CHOICES && option->choices[i]; i++)
        if (strcmp(option->choices[i], "cuda") == 0) suggestion_consider_as(&suggestion, "gpu", "cuda");
    // One edit turns three letters into another word: cpu into gpu.
    const char *best = suggestion.distance == 0 || strlen(value) > 3 ? suggestion.best : NULL;
    return fail(err, STATUS_USAGE, "%s%s %s: needs %s%s%s%s%s%s", where, option->name, shown,
                option->is_net ? net : kinds[option->type], range, is_share ? ", not a share of them" : "",
                best ? "; did you mean " : "", best ? best : "", best ? "?" : "");
}

// A shell replaces ~ at the beginning of a word, not in --out=~/runs, and no shell reads an experiment file: the path
// would be that of a folder called ~.
static Status check_home(const Option *option, const char *value, const char *where, Error *err) {
    const char *kind = option->placeholder ? option->placeholder : "";
    char shown[OPTION_SHOWN_BYTES];
    if ((strcmp(kind, "FOLDER") != 0 && strcmp(kind, "FILE") != 0) || strncmp(value, "~/", 2) != 0) return STATUS_OK;
    option_printable(shown, value);
    return fail(err, STATUS_USAGE, "%s%s %s: nothing has replaced the ~; write the whole path%s", where, option->name,
                shown, where[0] == '-' ? ", or a blank in place of the =" : "");
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
    memcpy((char *)record + option->offset, text, sizeof text);
    option->form->take(record, &form);
    return STATUS_OK;
}

Status option_read(void *record, const Option *option, const char *value, const char *where, Error *err) {
    void *field = (char *)record + option->offset;
    bool good = false;
    TRY(check_single(option, value, where, err));
    TRY(check_home(option, value, where, err));
    switch (option->type) {
    case OPTION_WHOLE:
        good = read_whole(field, option, value);
        break;
    case OPTION_SEED:
        good = read_seed(field, value);
        break;
    case OPTION_REAL:
        good = read_real(field, option, value);
        break;
    case OPTION_FLOAT:
        good = read_float(field, option, value);
        break;
    case OPTION_FLAG:
        good = option_read_flag(field, value);
        break;
    case OPTION_CHOICE:
        good = read_choice(field, option, value);
        break;
    case OPTION_TEXT:
        good = read_text(field, option, value);
        break;
    case OPTION_FORM:
        return read_form(record, option, value, where, err);
    }
    return good ? STATUS_OK : refuse_value(option, value, where, err);
}

Status option_set(Options *options, const Option *option, const char *value, const char *where, Error *err) {
    TRY(option_read(options, option, value, where, err));
    options->given[option_index(option)] = true;
    return STATUS_OK;
}
