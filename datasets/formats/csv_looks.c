#include "datasets/formats/csv_looks.h"

#include <ctype.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

const char *const csv_look_names[CSV_LOOKS] = {[LOOK_COMMA] = "a number with a decimal comma",
                                               [LOOK_THOUSANDS] = "a number with a comma",
                                               [LOOK_BLANKS] = "a number with a blank",
                                               [LOOK_CURRENCY] = "a number with a currency sign",
                                               [LOOK_PERCENT] = "a number with a percent sign",
                                               [LOOK_BRACKETS] = "a number in brackets",
                                               [LOOK_DATE] = "a date"};

// Signs around a number.
typedef struct Signs {
    bool currency, percent, opening, closing;
} Signs;

// Takes signs and blanks at the beginning of the text, and returns the rest.
static const char *take_signs(Signs *signs, const char *text) {
    static const char *const currencies[] = {"$", "€", "£", "¥"};
    for (;;) {
        const char *before = text;
        text += strspn(text, " +-");
        if (*text == '(') signs->opening = true, text++;
        if (*text == ')') signs->closing = true, text++;
        if (*text == '%') signs->percent = true, text++;
        for (size_t i = 0; i < sizeof currencies / sizeof *currencies; i++)
            if (strncmp(text, currencies[i], strlen(currencies[i])) == 0)
                signs->currency = true, text += strlen(currencies[i]);
        if (text == before) return text;
    }
}

// Says whether digits are in groups of three between commas or blanks, the first of at most three and without a zero in
// front.
static bool are_thousands(const char *digits, size_t bytes, char between) {
    size_t first = strspn(digits, "0123456789"), at = first;
    if (first == 0 || first > 3 || *digits == '0') return false;
    while (at < bytes && digits[at] == between && strspn(digits + at + 1, "0123456789") == 3)
        at += 4;
    return at > first &&
           (at == bytes || (digits[at] == '.' && at + 1 + strspn(digits + at + 1, "0123456789") == bytes));
}

static bool is_date(const char *text) {
    int first, month, last;
    char before[2], after[2];
    return isdigit((unsigned char)*text) &&
           sscanf(text, "%4d%1[-/.]%2d%1[-/.]%4d", &first, before, &month, after, &last) == 5 && *before == *after;
}

CsvLook csv_look_of(const char *text) {
    Signs signs = {0};
    const char *digits = take_signs(&signs, text);
    const size_t bytes = strspn(digits, "0123456789.,");
    if (bytes == 0 || !strpbrk(digits, "0123456789")) return LOOK_WORD;
    if (are_thousands(digits, strlen(digits), ' ')) return LOOK_BLANKS;
    if (*take_signs(&signs, digits + bytes)) return is_date(text) ? LOOK_DATE : LOOK_WORD;
    if (signs.percent) return LOOK_PERCENT;
    if (signs.currency) return LOOK_CURRENCY;
    if (signs.opening && signs.closing) return LOOK_BRACKETS;
    if (signs.opening || signs.closing) return LOOK_WORD;
    if (are_thousands(digits, bytes, ',')) return LOOK_THOUSANDS;
    const char *comma = memchr(digits, ',', bytes);
    if (comma && !strpbrk(comma + 1, ",.")) return LOOK_COMMA;
    return is_date(text) ? LOOK_DATE : LOOK_WORD;
}
