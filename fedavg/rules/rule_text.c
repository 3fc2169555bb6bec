#include "rule_text.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/suggest.h"
#include "base/text.h"

Status rule_text_sketch(const RuleWords *of, const char *word, Error *err) {
    const size_t begin = word ? (size_t)(word - of->split) : 0;
    error_sketch(err, of->whole, of->at + begin, strlen(word ? word : of->text));
    return STATUS_USAGE;
}

// Cuts a copy of the part, so that a message can still quote the part as it was written.
Status rule_text_split(RuleWords *of, const char *from, size_t length, Error *err) {
    while (length > 0 && strchr(" \t\n", *from))
        from++, length--;
    while (length > 0 && strchr(" \t\n", from[length - 1]))
        length--;
    of->at = (size_t)(from - of->whole);
    snprintf(of->text, sizeof of->text, "%.*s", (int)length, from);
    memcpy(of->split, of->text, sizeof of->split);
    of->count = 0;
    char *rest;
    for (char *word = strtok_r(of->split, " \t\n", &rest); word; word = strtok_r(NULL, " \t\n", &rest)) {
        if (of->count == RULE_MAX_WORDS) {
            fail(err, STATUS_USAGE, PART_FORMAT "too many words; parts are separated by ';'", PART_ARGS(of));
            return rule_text_sketch(of, word, err);
        }
        of->words[of->count++] = word;
    }
    if (of->count > 0) return STATUS_OK;
    fail(err, STATUS_USAGE, "part %d is empty; write a part between two ';' and none after the last", of->number);
    return rule_text_sketch(of, NULL, err);
}

static bool read_word(double *value, const RuleNumber *number, const char *text) {
    for (int w = 0; w < RULE_WORDS && number->words[w]; w++)
        if (strcmp(number->words[w], text) == 0) {
            *value = w;
            return true;
        }
    return false;
}

// A number with words is a choice and takes only these. The range of a number is part of its row, so that a rule's own
// code never meets a value outside it.
static bool read_number(double *value, const RuleNumber *number, const char *text) {
    if (number->words[0]) return read_word(value, number, text);
    char *end;
    errno = 0;
    if (text[strspn(text, "+-0123456789.eE")]) return false; // strtod would also accept "inf" and hexadecimal
    *value = strtod(text, &end);
    if (number->whole && *value != floor(*value)) return false;
    return errno == 0 && end != text && !*end && *value >= number->minimum && *value <= number->maximum;
}

static Status refuse_value(const RuleWords *of, const RuleNumber *number, const char *text, Error *err) {
    char words[256] = "";
    for (int w = 0; w < RULE_WORDS && number->words[w]; w++)
        text_add(words, sizeof words, "%s%s", w == 0 ? "" : number->words[w + 1] ? ", " : " or ", number->words[w]);
    if (*words)
        fail(err, STATUS_USAGE, PART_FORMAT "%s=%.40s: needs %s", PART_ARGS(of), number->name, text, words);
    else
        fail(err, STATUS_USAGE, PART_FORMAT "%s=%.40s: needs a %snumber from %g to %g", PART_ARGS(of), number->name,
             text, number->whole ? "whole " : "", number->minimum, number->maximum);
    return rule_text_sketch(of, text, err);
}

// Names the nearest number and shows the whole form: a misspelt number and one that belongs to another rule both occur.
static Status refuse_number(const RuleWords *of, const RuleText *rule, const char *word, size_t bytes, Error *err) {
    char form[512], typed[64];
    snprintf(typed, sizeof typed, "%.*s", (int)bytes, word);
    Suggestion suggestion = {.typed = typed};
    for (int n = 0; n < RULE_NUMBERS && rule->numbers[n].name; n++)
        suggestion_consider(&suggestion, rule->numbers[n].name);
    rule_form(form, sizeof form, rule);
    fail(err, STATUS_USAGE, PART_FORMAT "%s has no number \"%s\"%s%s%s; write it as \"%s\"", PART_ARGS(of), rule->name,
         typed, suggestion.best ? ", did you mean " : "", suggestion.best ? suggestion.best : "",
         suggestion.best ? "?" : "", form);
    return rule_text_sketch(of, word, err);
}

// Quotes around the names are left out: no shell takes them away inside an option's text.
static Status read_names(char names[RULE_NAMES_BYTES], const RuleWords *of, const char *text, Error *err) {
    size_t length = strlen(text);
    const bool quoted = length >= 2 && text[0] == '"' && text[length - 1] == '"';
    if (quoted) text++, length -= 2;
    if (length < RULE_NAMES_BYTES) {
        memset(names, 0, RULE_NAMES_BYTES); // an entry of the zoo may have written longer ones; recipes are compared
        snprintf(names, RULE_NAMES_BYTES, "%.*s", (int)length, text);
        return STATUS_OK;
    }
    fail(err, STATUS_USAGE, PART_FORMAT "names of at most %d bytes; take patterns, such as \"head.*\"", PART_ARGS(of),
         RULE_NAMES_BYTES - 1);
    return rule_text_sketch(of, text, err);
}

// A word without '=' is the value of the rule's first number, and only the first word of a part may be one.
Status rule_text_numbers(Chosen *chosen, const RuleText *rule, const RuleWords *of, int first, Error *err) {
    for (int w = first; w < of->count; w++) {
        const char *word = of->words[w], *equals = strchr(word, '=');
        const size_t bytes = equals ? (size_t)(equals - word) : 0;
        int n = equals ? rule_number_named(rule, word, bytes) : w == first && rule->numbers[0].name ? 0 : -1;
        if (n < 0) return refuse_number(of, rule, word, equals ? bytes : strlen(word), err);
        const char *value = equals ? equals + 1 : word;
        if (rule->numbers[n].names) {
            TRY(read_names(chosen->names, of, value, err));
            continue;
        }
        if (!read_number(&chosen->number[n], &rule->numbers[n], value))
            return refuse_value(of, &rule->numbers[n], value, err);
    }
    return STATUS_OK;
}

void rule_choose(Chosen *chosen, const RuleText *rule, uint32_t row) {
    *chosen = (Chosen){.row = row};
    for (int n = 0; n < RULE_NUMBERS && rule->numbers[n].name; n++)
        chosen->number[n] = rule->numbers[n].preset;
}

Status rule_parse(Chosen *chosen, const RuleText *rules, uint32_t count, const char *what, const char *text,
                  Error *err) {
    RuleWords of = {.whole = text, .number = 1};
    char names[512] = "";
    if (strlen(text) >= RULE_TEXT_BYTES)
        return fail(err, STATUS_USAGE, "the text of an %s has at most %d bytes", what, RULE_TEXT_BYTES - 1);
    TRY(rule_text_split(&of, text, strlen(text), err));
    Suggestion suggestion = {.typed = of.words[0]};
    for (uint32_t row = 0; row < count; row++) {
        text_add(names, sizeof names, "%s%s", row ? ", " : "", rules[row].name);
        suggestion_consider(&suggestion, rules[row].name);
        if (strcmp(rules[row].name, of.words[0]) != 0) continue;
        rule_choose(chosen, &rules[row], row);
        return rule_text_numbers(chosen, &rules[row], &of, 1, err);
    }
    fail(err, STATUS_USAGE, "%.40s: no such %s%s%s%s; there are %s", of.words[0], what,
         suggestion.best ? ", did you mean " : "", suggestion.best ? suggestion.best : "", suggestion.best ? "?" : "",
         names);
    return rule_text_sketch(&of, of.words[0], err);
}
