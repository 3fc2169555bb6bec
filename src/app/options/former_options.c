#include "former_options.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define WAS(name_, type_, member) .was = {.name = name_, .type = type_, .offset = offsetof(Options, member)}

// clang-format off
const FormerOption former_options[FORMER_OPTIONS] = {
    {.was = {.name = "shards-per-client"}, .after = "alpha",
     .option = "partition", .form = "shards", .key = "per-client", .preset = "2", .implies = true},
    {WAS("replacement", OPTION_FLAG, world.replacement), .after = "sampling",
     .option = "sampling", .form = "by-size", .key = "replacement", .preset = "no", .words = "no yes"},
    {WAS("candidates", OPTION_WHOLE, world.candidates), .after = "sampling",
     .option = "sampling", .form = "power-of-choice", .key = "candidates"},
    {.was = {.name = "candidates-by", .type = OPTION_CHOICE, .offset = offsetof(Options, world.candidates_by),
             .choices = {"data", "batch", "last"}}, .after = "sampling",
     .option = "sampling", .form = "power-of-choice", .key = "by", .preset = "data"},
    {WAS("cycle-shuffle", OPTION_FLAG, world.cycle_shuffle), .after = "sampling",
     .option = "sampling", .form = "cyclic", .key = "shuffle", .preset = "no", .words = "no yes"},
    {WAS("availability", OPTION_REAL, world.availability), .after = "sampling",
     .option = "sampling", .form = "available", .key = "probability", .preset = "1"},
    {WAS("availability-file", OPTION_TEXT, availability_file), .after = "sampling",
     .option = "sampling", .form = "available"},
    {.was = {.name = "straggler-work", .type = OPTION_CHOICE, .offset = offsetof(Options, world.straggler_work),
             .choices = {"drop", "partial"}}, .after = "stragglers",
     .option = "stragglers", .form = "0.5", .key = "work", .preset = "drop"},
    {WAS("client-file", OPTION_TEXT, client_file), .after = "clock", .option = "client-time", .form = "file"},
    {WAS("client-time-mean", OPTION_REAL, world.time_mean), .after = "clock",
     .option = "client-time", .form = "lognormal", .key = "mean", .preset = "1"},
    {WAS("client-time-deviation", OPTION_REAL, world.time_deviation), .after = "clock",
     .option = "client-time", .form = "lognormal", .key = "deviation", .preset = "1"},
    {WAS("client-time-minimum", OPTION_REAL, world.time_minimum), .after = "clock",
     .option = "client-time", .form = "half-normal", .key = "minimum", .preset = "0"},
    {WAS("client-time-noise", OPTION_REAL, world.time_noise), .after = "clock",
     .option = "client-time", .form = "lognormal", .key = "noise", .preset = "0"},
    {.was = {.name = "global-batch"}, .after = "batch-size",
     .option = "algorithm", .form = "ssgd", .key = "batch", .preset = "client", .words = "client global"},
    {WAS("lr-step", OPTION_WHOLE, training.schedule.step), .after = "lr-schedule",
     .option = "lr-schedule", .form = "step", .key = "every", .preset = "10"},
    {WAS("lr-gamma", OPTION_REAL, training.schedule.gamma), .after = "lr-schedule",
     .option = "lr-schedule", .form = "exponential", .key = "gamma"},
    {WAS("lr-minimum", OPTION_REAL, training.schedule.minimum), .after = "lr-schedule",
     .option = "lr-schedule", .form = "cosine", .key = "minimum", .preset = "0"},
    {WAS("lr-rounds", OPTION_WHOLE, training.schedule.rounds), .after = "lr-schedule",
     .option = "lr-schedule", .form = "cosine", .key = "rounds"},
    {.was = {.name = "hogwild-update"}, .after = "client-optimizer-state",
     .option = "algorithm", .form = "hogwild", .key = "update", .preset = "plain"},
    {.was = {.name = "hogwild-data"}, .after = "client-optimizer-state",
     .option = "algorithm", .form = "hogwild", .key = "data", .preset = "full"},
    {.was = {.name = "target-accuracy"}, .after = "inspect-updates",
     .option = "target", .form = "", .key = "accuracy", .implies = true},
};
// clang-format on

const FormerOption *former_find(const char *name) {
    for (int i = 0; i < FORMER_OPTIONS; i++)
        if (option_same_name(former_options[i].was.name, name)) return &former_options[i];
    return NULL;
}

// Returns the value as the form writes it.
static const char *word_of(char word[OPTION_TEXT_BYTES], const FormerOption *former, const char *value) {
    bool flag;
    snprintf(word, OPTION_TEXT_BYTES, "%s", value);
    if (!former->words || !option_read_flag(&flag, value)) return word;
    const size_t first = strcspn(former->words, " ");
    if (flag) return former->words + first + 1;
    snprintf(word, OPTION_TEXT_BYTES, "%.*s", (int)first, former->words);
    return word;
}

// Makes "exponential mean=2" of "exponential"; in a text of several parts the schedule gets the number: "hogwild
// data=shard; local prox".
static bool join(char text[OPTION_TEXT_BYTES], const char *base, const FormerOption *former, const char *word) {
    const bool parts = option_find(former->option)->parts;
    const char *schedule = parts ? strstr(base, "schedule ") : NULL;
    const char *part = schedule ? schedule : base;
    const size_t end = (size_t)(part - base) + (parts ? strcspn(part, ";") : strlen(part));
    return snprintf(text, OPTION_TEXT_BYTES, "%.*s%s%s%s%s%s", (int)end, base, former->key ? end > 0 ? " " : "" : ":",
                    former->key ? former->key : "", former->key ? "=" : "", word, base + end) < OPTION_TEXT_BYTES;
}

// If the typed value of the option still parses with the number added, the remedy repeats that value.
static bool is_right(const Option *option, const char *text) {
    Form form;
    Recipe recipe;
    Error ignored;
    if (option->form) return form_parse(&form, text, &option->form->table, &ignored) == STATUS_OK;
    return !option->parts || recipe_parse(&recipe, text, &ignored) == STATUS_OK;
}

Status former_refuse(const FormerOption *former, const char *value, const char *base, Error *err) {
    char word[OPTION_TEXT_BYTES], text[OPTION_TEXT_BYTES];
    if (!value) value = former->words ? "true" : former->key ? "X" : "FILE";
    const char *named = word_of(word, former, value);
    if (!base || !*former->form || !join(text, base, former, named) || !is_right(option_find(former->option), text))
        join(text, former->form, former, named);
    return fail(err, STATUS_USAGE, "--%s: is a part of --%s now; write --%s \"%.400s\"", former->was.name,
                former->option, former->option, text);
}

Status former_take(Options *options, const FormerOption *former, const char *value, const char *where, Error *err) {
    const Option *option = option_find(former->option);
    char word[OPTION_TEXT_BYTES], text[OPTION_TEXT_BYTES], named[OPTION_NAMED_BYTES];
    const char *taken = word_of(word, former, value), *base = (const char *)options + option->offset;
    if (former->preset && strcmp(taken, former->preset) == 0) return STATUS_OK;
    if (former->implies && !options_given(options, option->name)) base = former->form;
    snprintf(named, sizeof named, "%s%s: ", where, former->was.name);
    if (!join(text, base, former, taken))
        return fail(err, STATUS_USAGE, "%slonger than %d bytes with --%s, which it is a part of now; shorten it", named,
                    OPTION_TEXT_BYTES - 1, option->name);
    return option_set(options, option, text, named, err);
}

// Finds " key=word" in a text of --algorithm or --partition. NULL: it has none.
static const char *find_part(size_t *length, const char *text, const FormerOption *former) {
    char key[32];
    const size_t bytes = (size_t)snprintf(key, sizeof key, " %s=", former->key);
    const char *part = former->implies && !form_is(text, former->form) ? NULL : strstr(text, key);
    *length = part ? bytes + strcspn(part + bytes, " \t;") : 0;
    return part;
}

void former_value(char value[OPTION_VALUE_BYTES], const Options *options, const Option *option, bool apart) {
    option_format(value, options, option);
    if (option->form) value[strcspn(value, " :")] = '\0';
    for (int i = 0; i < FORMER_OPTIONS && apart && !option->form; i++) {
        size_t length;
        if (strcmp(former_options[i].option, option->name) != 0) continue;
        const char *part = find_part(&length, value, &former_options[i]);
        if (part) memmove(value + (part - value), part + length, strlen(part + length) + 1);
    }
}

void former_part(char value[OPTION_VALUE_BYTES], const Options *options, const FormerOption *former, bool apart) {
    const Option *option = option_find(former->option);
    size_t length;
    if (option->form) {
        option_format(value, options, &former->was);
        return;
    }
    const char *part = find_part(&length, (const char *)options + option->offset, former);
    const size_t name = strlen(former->key) + 2;
    snprintf(value, OPTION_VALUE_BYTES, "%s", former->preset ? former->preset : "");
    if (part && apart) snprintf(value, OPTION_VALUE_BYTES, "%.*s", (int)(length - name), part + name);
    if (former->words) strcpy(value, strncmp(former->words, value, strlen(value)) == 0 ? "false" : "true");
}
