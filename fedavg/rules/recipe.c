#include "recipe.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/suggest.h"
#include "fedavg/rules/combine_rules.h"
#include "fedavg/rules/local_rules.h"
#include "fedavg/rules/mix_rules.h"
#include "fedavg/rules/optimizer_rules.h"
#include "fedavg/rules/personal_rules.h"
#include "fedavg/rules/release_rules.h"
#include "fedavg/rules/schedule.h"
#include "fedavg/rules/send_rules.h"
#include "fedavg/rules/server_rules.h"
#include "fedavg/rules/stale_rules.h"
#include "fedavg/rules/walk.h"

// The tables ----------------------------------------------------------------------------------------------------------

const EngineFacts engine_facts[ENGINE_COUNT] = {
    [ENGINE_ROUNDS] =
        {.text = {"rounds",
                  "clients train on their own, then come together; steps instead of epochs go on from round to round",
                  "McMahan et al. 2017; steps: Stich 2019; warmup, rounds of one step: Lin et al. 2020",
                  {[ROUNDS_STEPS] = {.name = "steps",
                                     .preset = NAN,
                                     .minimum = 1,
                                     .maximum = 1e6,
                                     .derived = "--local-epochs",
                                     .whole = true},
                   [ROUNDS_WARMUP] = {.name = "warmup", .preset = 0, .minimum = 0, .maximum = 1e9, .whole = true}}}},
    [ENGINE_WILD] = {.text = {"wild",
                              "workers write the global weights as they train",
                              "Niu et al. 2011; steps: Dean et al. 2012; bound: Ho et al. 2013",
                              {[WILD_STEPS] = {.name = "steps",
                                               .preset = 1,
                                               .minimum = 1,
                                               .maximum = 1e6,
                                               .whole = true},
                               [WILD_BOUND] = {.name = "bound",
                                               .preset = NAN,
                                               .minimum = 0,
                                               .maximum = 1e6,
                                               .derived = "none",
                                               .whole = true}}},
                     .whole_cohort = true,
                     .client_is_worker = true,
                     .writes_weights = true},
    [ENGINE_LOCKSTEP] = {.text = {"lockstep", "all meet at every step", "Chen et al. 2016", {{0}}},
                         .whole_cohort = true,
                         .worker_needs_client = true,
                         .writes_weights = true,
                         .in_lockstep = true},
    [ENGINE_BUFFERED] = {.text = {"buffered", "nobody waits for all: every K updates that arrive make a step",
                                  "Nguyen et al., AISTATS 2022", BUFFERED_NUMBERS},
                         .buffers = true},
};

const char *const part_names[PART_COUNT] = {
    [PART_LOCAL] = "local",   [PART_OPTIMIZER] = "optimizer", [PART_PERSONAL] = "personal",
    [PART_CLIP] = "send",     [PART_NOISE] = "send",          [PART_CODE] = "send",
    [PART_MIX] = "mix",       [PART_COMBINE] = "combine",     [PART_RELEASE] = "release",
    [PART_SERVER] = "server", [PART_SCHEDULE] = "schedule",   [PART_STALE] = "stale"};

const RuleText *part_rule(Part part, uint32_t row) {
    switch (part) {
    case PART_LOCAL:
        return row < LOCAL_RULE_COUNT ? &local_rules[row]->text : NULL;
    case PART_OPTIMIZER:
        return row < OPTIMIZER_COUNT ? &optimizer_rules[row].text : NULL;
    case PART_PERSONAL:
        return row < PERSONAL_COUNT ? &personal_rules[row].text : NULL;
    case PART_CLIP:
        return row < CLIP_RULE_COUNT ? &clip_rules[row] : NULL;
    case PART_NOISE:
        return row < NOISE_RULE_COUNT ? &noise_rules[row] : NULL;
    case PART_CODE:
        return row < SEND_CODE_COUNT ? &send_codes[row]->text : NULL;
    case PART_RELEASE:
        return row < RELEASE_RULE_COUNT ? &release_rules[row] : NULL;
    case PART_MIX:
        return row < MIX_RULE_COUNT ? &mix_rules[row].text : NULL;
    case PART_COMBINE:
        return row < COMBINE_RULE_COUNT ? &combine_rules[row]->text : NULL;
    case PART_STALE:
        return row < STALE_COUNT ? &stale_rules[row] : NULL;
    case PART_SERVER:
        return row < SERVER_RULE_COUNT ? &server_rules[row]->text : NULL;
    case PART_SCHEDULE:
        return row < ENGINE_COUNT ? &engine_facts[row].text : NULL;
    }
    return NULL;
}

EngineKind recipe_engine(const Recipe *recipe) {
    return (EngineKind)recipe->parts[PART_SCHEDULE].row;
}

static void add(char *text, size_t bytes, const char *format, ...) __attribute__((format(printf, 3, 4)));
static void add(char *text, size_t bytes, const char *format, ...) {
    size_t used = strlen(text);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text + used, bytes - used, format, arguments);
    va_end(arguments);
}

void rule_form(char *text, size_t bytes, const RuleText *rule) {
    *text = '\0';
    add(text, bytes, "%s", rule->name);
    for (int n = 0; n < RULE_NUMBERS && rule->numbers[n].name; n++) {
        const RuleNumber *number = &rule->numbers[n];
        add(text, bytes, " [%s=", number->name);
        for (int w = 0; w < RULE_WORDS && number->words[w]; w++)
            add(text, bytes, "%s%s", w ? "|" : "", number->words[w]);
        if (!number->words[0] && number->derived) add(text, bytes, "%s", number->derived);
        if (!number->words[0] && !number->derived) add(text, bytes, "%g", number->preset);
        add(text, bytes, "]");
    }
}

// Reading -------------------------------------------------------------------------------------------------------------

enum { MAX_WORDS = 16 };

// A part of an algorithm's text, cut into words.
typedef struct PartText {
    const char *whole; // text of the algorithm; borrowed
    size_t at;         // where in it the part begins
    int number;        // from 1
    char text[RECIPE_TEXT_BYTES], split[RECIPE_TEXT_BYTES];
    char *words[MAX_WORDS];
    int count;
} PartText;

#define PART_FORMAT   "part %d (\"%.200s\"): "
#define PART_ARGS(of) (of)->number, (of)->text

// After a failure that is about the part, or about a word of `split` in it: where that stands in the whole text.
static Status sketch(const PartText *of, const char *word, Error *err) {
    if (word)
        error_sketch(err, of->whole, of->at + (size_t)(word - of->split), strlen(word));
    else
        error_sketch(err, of->whole, of->at, strlen(of->text));
    return STATUS_USAGE;
}

static Status split(PartText *of, const char *from, size_t length, Error *err) {
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
        if (of->count == MAX_WORDS) {
            fail(err, STATUS_USAGE, PART_FORMAT "too many words; parts are separated by ';'", PART_ARGS(of));
            return sketch(of, word, err);
        }
        of->words[of->count++] = word;
    }
    if (of->count > 0) return STATUS_OK;
    fail(err, STATUS_USAGE, "part %d is empty; write a part between two ';' and none after the last", of->number);
    return sketch(of, NULL, err);
}

static bool read_word(double *value, const RuleNumber *number, const char *text) {
    for (int w = 0; w < RULE_WORDS && number->words[w]; w++)
        if (strcmp(number->words[w], text) == 0) {
            *value = w;
            return true;
        }
    return false;
}

static bool read_number(double *value, const RuleNumber *number, const char *text) {
    if (number->words[0]) return read_word(value, number, text);
    char *end;
    errno = 0;
    if (text[strspn(text, "+-0123456789.eE")]) return false; // as strtod takes "inf" and hexadecimal, too
    *value = strtod(text, &end);
    if (number->whole && *value != floor(*value)) return false;
    return errno == 0 && end != text && !*end && *value >= number->minimum && *value <= number->maximum;
}

static Status refuse_value(const PartText *of, const RuleNumber *number, const char *text, Error *err) {
    char words[256] = "";
    for (int w = 0; w < RULE_WORDS && number->words[w]; w++)
        add(words, sizeof words, "%s%s", w == 0 ? "" : number->words[w + 1] ? ", " : " or ", number->words[w]);
    if (*words)
        fail(err, STATUS_USAGE, PART_FORMAT "%s=%.40s: needs %s", PART_ARGS(of), number->name, text, words);
    else
        fail(err, STATUS_USAGE, PART_FORMAT "%s=%.40s: needs a %snumber from %g to %g", PART_ARGS(of), number->name,
             text, number->whole ? "whole " : "", number->minimum, number->maximum);
    return sketch(of, text, err);
}

// Whether the rule has a number of this name (bytes long): its index, or -1.
static int number_named(const RuleText *rule, const char *name, size_t bytes) {
    for (int n = 0; n < RULE_NUMBERS && rule->numbers[n].name; n++)
        if (strlen(rule->numbers[n].name) == bytes && memcmp(rule->numbers[n].name, name, bytes) == 0) return n;
    return -1;
}

static Status refuse_number(const PartText *of, const RuleText *rule, const char *word, size_t bytes, Error *err) {
    char form[512], typed[64];
    snprintf(typed, sizeof typed, "%.*s", (int)bytes, word);
    Suggestion suggestion = {.typed = typed};
    for (int n = 0; n < RULE_NUMBERS && rule->numbers[n].name; n++)
        suggestion_consider(&suggestion, rule->numbers[n].name);
    rule_form(form, sizeof form, rule);
    fail(err, STATUS_USAGE, PART_FORMAT "%s has no number \"%s\"%s%s%s; write it as \"%s\"", PART_ARGS(of), rule->name,
         typed, suggestion.best ? ", did you mean " : "", suggestion.best ? suggestion.best : "",
         suggestion.best ? "?" : "", form);
    return sketch(of, word, err);
}

// The words of a part from `first` on are numbers of its rule.
static Status read_numbers(Chosen *chosen, const RuleText *rule, const PartText *of, int first, Error *err) {
    for (int w = first; w < of->count; w++) {
        const char *word = of->words[w], *equals = strchr(word, '=');
        const size_t bytes = equals ? (size_t)(equals - word) : 0;
        int n = equals ? number_named(rule, word, bytes) : w == first && rule->numbers[0].name ? 0 : -1;
        if (n < 0) return refuse_number(of, rule, word, equals ? bytes : strlen(word), err);
        const char *value = equals ? equals + 1 : word;
        if (!read_number(&chosen->number[n], &rule->numbers[n], value))
            return refuse_value(of, &rule->numbers[n], value, err);
    }
    return STATUS_OK;
}

static void choose(Chosen *chosen, const RuleText *rule, uint32_t row) {
    *chosen = (Chosen){.row = row};
    for (int n = 0; n < RULE_NUMBERS && rule->numbers[n].name; n++)
        chosen->number[n] = rule->numbers[n].preset;
}

static int part_named(const char *word) {
    for (int part = 0; part < PART_COUNT; part++)
        if (strcmp(part_names[part], word) == 0) return part;
    return -1;
}

// Whether this part has the name of another one, too: what a text calls by it may be a rule of either.
static bool share_name(Part a, Part b) {
    return strcmp(part_names[a], part_names[b]) == 0;
}

static Status refuse_rule(const PartText *of, Part part, Error *err) {
    char names[512] = "";
    Suggestion suggestion = {.typed = of->count > 1 ? of->words[1] : ""};
    for (int named = (int)part; named < PART_COUNT && share_name(part, (Part)named); named++)
        for (uint32_t row = 0; part_rule((Part)named, row); row++) {
            add(names, sizeof names, "%s%s", *names ? ", " : "", part_rule((Part)named, row)->name);
            suggestion_consider(&suggestion, part_rule((Part)named, row)->name);
        }
    if (of->count == 1) {
        fail(err, STATUS_USAGE, PART_FORMAT "which %s rule? There are %s", PART_ARGS(of), part_names[part], names);
        return sketch(of, of->words[0], err);
    }
    fail(err, STATUS_USAGE, PART_FORMAT "no %s rule %.40s%s%s%s; there are %s", PART_ARGS(of), part_names[part],
         of->words[1], suggestion.best ? ", did you mean " : "", suggestion.best ? suggestion.best : "",
         suggestion.best ? "?" : "", names);
    return sketch(of, of->words[1], err);
}

static Status refuse_name(const PartText *of, Error *err) {
    Suggestion suggestion = {.typed = of->words[0]};
    for (size_t i = 0; i < zoo_algorithm_count && of->number == 1; i++)
        suggestion_consider(&suggestion, zoo_algorithms[i].name);
    for (int part = 0; part < PART_COUNT; part++)
        suggestion_consider(&suggestion, part_names[part]);
    const char *known =
        "the parts are local, optimizer, personal, send, mix, combine, release, server, schedule and stale";
    if (of->number == 1) known = "`sounder help algorithms` lists names and parts";
    fail(err, STATUS_USAGE, "%.60s: no such %s%s%s%s; %s", of->words[0], of->number == 1 ? "algorithm" : "part",
         suggestion.best ? ", did you mean " : "", suggestion.best ? suggestion.best : "", suggestion.best ? "?" : "",
         known);
    return sketch(of, of->words[0], err);
}

// A recipe while it is read: which of its parts the text has named so far.
typedef struct Reader {
    Recipe *recipe;
    bool named[PART_COUNT];
} Reader;

static Status read_part(Reader *reader, const PartText *of, Part first, Error *err) {
    for (int part = (int)first; part < PART_COUNT && share_name(first, (Part)part); part++)
        for (uint32_t row = 0; of->count > 1 && part_rule((Part)part, row); row++) {
            const RuleText *rule = part_rule((Part)part, row);
            if (strcmp(rule->name, of->words[1]) != 0) continue;
            reader->named[part] = true;
            choose(&reader->recipe->parts[part], rule, row);
            return read_numbers(&reader->recipe->parts[part], rule, of, 2, err);
        }
    return refuse_rule(of, first, err);
}

// The part whose rule has the number that a word after a zoo name means: of the parts that make up the entry, or of the
// others. -1: none. A number without a name is the first of the entry's first part.
static int part_with_number(const Reader *reader, const char *word) {
    const char *equals = strchr(word, '=');
    for (int others = 0; others <= (equals ? 1 : 0); others++)
        for (int part = 0; part < PART_COUNT; part++) {
            const RuleText *rule = part_rule((Part)part, reader->recipe->parts[part].row);
            if (reader->named[part] == (others != 0)) continue;
            if (equals ? number_named(rule, word, (size_t)(equals - word)) >= 0 : rule->numbers[0].name != NULL)
                return part;
        }
    return -1;
}

static Status read_parts(Reader *reader, const char *text, Error *err);

// Names of the numbers that its parts have, with commas between.
static void numbers_of(char *text, size_t bytes, const Reader *reader) {
    size_t used = 0;
    snprintf(text, bytes, "none of its own");
    for (int part = 0; part < PART_COUNT; part++) {
        const RuleText *rule = part_rule((Part)part, reader->recipe->parts[part].row);
        for (int n = 0; reader->named[part] && n < RULE_NUMBERS && rule->numbers[n].name && used < bytes; n++)
            used += (size_t)snprintf(text + used, bytes - used, "%s%s", used ? ", " : "", rule->numbers[n].name);
    }
}

static Status read_zoo(Reader *reader, const ZooAlgorithm *zoo, const PartText *of, Error *err) {
    TRY(read_parts(reader, zoo->text, err));
    for (int w = 1; w < of->count; w++) {
        int part = w == 1 || strchr(of->words[w], '=') ? part_with_number(reader, of->words[w]) : -1;
        if (part < 0) {
            char has[256];
            numbers_of(has, sizeof has, reader);
            fail(err, STATUS_USAGE, PART_FORMAT "%s has no number \"%.*s\"; it has %s", PART_ARGS(of), zoo->name,
                 (int)strcspn(of->words[w], "="), of->words[w], has);
            return sketch(of, of->words[w], err);
        }
        PartText single = *of;
        single.words[0] = single.split + (of->words[w] - of->split);
        single.count = 1;
        Chosen *chosen = &reader->recipe->parts[part];
        TRY(read_numbers(chosen, part_rule((Part)part, chosen->row), &single, 0, err));
    }
    return STATUS_OK;
}

// A part that begins with no part's name: the first may be of the zoo.
static Status read_name(Reader *reader, const PartText *of, Error *err) {
    for (size_t i = 0; i < zoo_algorithm_count && of->number == 1; i++)
        if (strcmp(of->words[0], zoo_algorithms[i].name) == 0) return read_zoo(reader, &zoo_algorithms[i], of, err);
    return refuse_name(of, err);
}

static Status read_parts(Reader *reader, const char *text, Error *err) {
    for (PartText of = {.whole = text, .number = 1}; *text; of.number++) {
        size_t length = strcspn(text, ";");
        TRY(split(&of, text, length, err));
        int part = part_named(of.words[0]);
        TRY(part >= 0 ? read_part(reader, &of, (Part)part, err) : read_name(reader, &of, err));
        text += length;
        if (*text == ';' && !*++text) { // an empty part behind the last ';'
            fail(err, STATUS_USAGE, "part %d is empty; write a part between two ';' and none after the last",
                 of.number + 1);
            error_sketch(err, of.whole, strlen(of.whole) - 1, 1);
            return STATUS_USAGE;
        }
    }
    return STATUS_OK;
}

Status recipe_parse(Recipe *recipe, const char *text, Error *err) {
    Reader reader = {.recipe = recipe};
    if (strlen(text) >= RECIPE_TEXT_BYTES)
        return fail(err, STATUS_USAGE, "an algorithm's text has at most %d bytes", RECIPE_TEXT_BYTES - 1);
    for (int part = 0; part < PART_COUNT; part++)
        choose(&recipe->parts[part], part_rule((Part)part, 0), 0);
    if (!text[strspn(text, " \t\n")]) return fail(err, STATUS_USAGE, "empty; write a name or parts, such as fedavg");
    TRY(read_parts(&reader, text, err));
    return recipe_check(recipe, err);
}

Status rule_parse(Chosen *chosen, const RuleText *rules, uint32_t count, const char *what, const char *text,
                  Error *err) {
    PartText of = {.whole = text, .number = 1};
    char names[512] = "";
    if (strlen(text) >= RECIPE_TEXT_BYTES)
        return fail(err, STATUS_USAGE, "the text of an %s has at most %d bytes", what, RECIPE_TEXT_BYTES - 1);
    TRY(split(&of, text, strlen(text), err));
    Suggestion suggestion = {.typed = of.words[0]};
    for (uint32_t row = 0; row < count; row++) {
        add(names, sizeof names, "%s%s", row ? ", " : "", rules[row].name);
        suggestion_consider(&suggestion, rules[row].name);
        if (strcmp(rules[row].name, of.words[0]) != 0) continue;
        choose(chosen, &rules[row], row);
        return read_numbers(chosen, &rules[row], &of, 1, err);
    }
    fail(err, STATUS_USAGE, "%.40s: no such %s%s%s%s; there are %s", of.words[0], what,
         suggestion.best ? ", did you mean " : "", suggestion.best ? suggestion.best : "", suggestion.best ? "?" : "",
         names);
    return sketch(&of, of.words[0], err);
}

const char *recipe_name(char name[RECIPE_TEXT_BYTES], const char *text) {
    text += strspn(text, " \t\n");
    size_t bytes = strcspn(text, " \t\n;"), more = 0;
    snprintf(name, RECIPE_TEXT_BYTES, "%.*s", (int)bytes, text);
    if (part_named(name) < 0) return name;
    more = bytes + strspn(text + bytes, " \t\n");
    more += strcspn(text + more, " \t\n;");
    snprintf(name, RECIPE_TEXT_BYTES, "%.*s", (int)more, text);
    return name;
}
