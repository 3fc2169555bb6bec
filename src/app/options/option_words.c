// Part of option_table.h: splits the words of a command line into options of a table and their values.
#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "datasets/settings.h"
#include "option_names.h"
#include "option_table.h"

bool option_same_name(const char *name, const char *typed) {
    while (*name && (*name == *typed || (*name == '-' && *typed == '_')))
        name++, typed++;
    return *name == *typed;
}

static const Option *find_name(const OptionTable *table, const char *name) {
    for (int i = 0; i < table->count; i++)
        if (option_same_name(table->rows[i].name, name)) return &table->rows[i];
    return NULL;
}

const Option *option_find(const char *name) {
    return find_name(&option_train_table, name);
}

static void consider_row(Suggestion *suggestion, const Option *option) {
    suggestion_consider(suggestion, option->name);
    suggestion_consider_others(suggestion, option->also, option->name);
}

static bool is_setting_of_data(const char *name) {
    for (int k = 0; k < DATASET_SETTINGS; k++)
        if (strcmp(settings_table.rows->keys[k].name, name) == 0) return true;
    return false;
}

static Status unknown(const OptionTable *table, const char *name, const char *where, Error *err) {
    for (int i = 0; i < table->foreign_count; i++)
        if (option_same_name(table->foreign[i].name, name))
            return fail(err, STATUS_USAGE, "%s%s: of %s, not of sounder %s; %s", where, table->foreign[i].name,
                        table->foreigner, table->command, table->foreign[i].remedy);
    char shown[OPTION_SHOWN_BYTES], typed[OPTION_SHOWN_BYTES];
    option_printable(shown, name);
    snprintf(typed, sizeof typed, "%s", name);
    for (char *c = typed; *c; c++)
        if (*c == '_') *c = '-';
    if (table->rows == option_table && is_setting_of_data(typed))
        return fail(err, STATUS_USAGE,
                    "%s%s: is a setting of your own files, after their place in --data: --data \"PLACE %s=...\" "
                    "(`sounder help data`)",
                    where, shown, typed);
    const Option *flag = strncmp(typed, "no-", 3) == 0 ? find_name(table, typed + 3) : NULL;
    if (flag && flag->type == OPTION_FLAG)
        return fail(err, STATUS_USAGE, "%s%s: unknown option; write --%s=false", where, shown, flag->name);
    Suggestion suggestion = {.typed = typed};
    for (int i = 0; i < table->count; i++)
        consider_row(&suggestion, &table->rows[i]);
    char remedy[400];
    const bool is_exact = suggestion.best && suggestion.distance == 0;
    const bool trains = table->rows == option_table || strcmp(table->command, "sweep") == 0;
    if (strcmp(table->command, "sweep") == 0 && strcmp(typed, "resume") == 0)
        return fail(err, STATUS_USAGE, "%s%s: is of single runs; the same sweep with --out FOLDER continues it", where,
                    shown);
    if (trains && !is_exact && algorithm_remedy(remedy, sizeof remedy, typed))
        return fail(err, STATUS_USAGE, "%s%s: is %s", where, shown, remedy);
    if (!suggestion.best)
        return fail(err, STATUS_USAGE, "%s%s: unknown option; `sounder help %s` lists them", where, shown,
                    table->command);
    const char *dashes = where[0] == '-' && !where[strspn(where, "-")] ? "--" : ""; // not of "--by NAME"
    return fail(err, STATUS_USAGE, "%s%s: unknown option; did you mean %s%s?", where, shown, dashes, suggestion.best);
}

void option_suggest(Suggestion *suggestion) {
    for (int i = 0; i < option_count; i++)
        consider_row(suggestion, &option_table[i]);
}

Status option_unknown(const char *name, const char *where, Error *err) {
    return unknown(&option_train_table, name, where, err);
}

// Splits "--name" or "--name=value"; *value: NULL if it is in the next word.
static Status read_name(const Option **option, const char **value, const char *word, const OptionTable *table,
                        Error *err) {
    char name[OPTION_TEXT_BYTES];
    snprintf(name, sizeof name, "%s", word + 2);
    name[strcspn(name, "=")] = '\0';
    const char *equals = strchr(word, '=');
    *value = equals ? equals + 1 : NULL;
    *option = find_name(table, name);
    return *option ? STATUS_OK : unknown(table, name, "--", err);
}

// Splits "-n" or "-nvalue". A letter that no option has may still be another program's ("-w", "-w4").
static Status read_letter(const Option **option, const char **value, const char *word, const OptionTable *table,
                          Error *err) {
    *value = NULL;
    for (int i = 0; i < table->count && word[1]; i++) {
        *option = &table->rows[i];
        if ((*option)->letter != word[1]) continue;
        if (word[2]) *value = word + 2;
        if (*value && (*option)->type == OPTION_FLAG) break;
        return STATUS_OK;
    }
    const char letter[] = {word[1], '\0'};
    bool alone = word[1] && !isalpha((unsigned char)word[2]);
    return unknown(table, alone ? letter : word + 1, "-", err);
}

static bool looks_like_option(const char *word) {
    return word[0] == '-' && word[1] && !isdigit((unsigned char)word[1]) && word[1] != '.';
}

Status option_take(const Option **option, const char **value, int *next, int argc, char **argv,
                   const OptionTable *table, Error *err) {
    const char *word = argv[(*next)++];
    TRY((word[1] == '-' ? read_name : read_letter)(option, value, word, table, err));
    if (!*value && (*option)->type == OPTION_FLAG) *value = "true";
    if (!*value && *next < argc && !looks_like_option(argv[*next])) *value = argv[(*next)++];
    if (*value) return STATUS_OK;
    return fail(err, STATUS_USAGE, "--%s: needs a value; write --%s %s", (*option)->name, (*option)->name,
                (*option)->placeholder);
}

Status option_once(const char **before, const Option *option, const char *value, Error *err) {
    if (*before) {
        char first[OPTION_SHOWN_BYTES], second[OPTION_SHOWN_BYTES];
        option_printable(first, *before);
        option_printable(second, value);
        if (option->parts)
            return fail(err, STATUS_USAGE, "--%s is given twice; give all of it at once: --%s \"%s %s\"", option->name,
                        option->name, first, second);
        return fail(err, STATUS_USAGE, "--%s is given twice, as %s and as %s; leave one of the two out", option->name,
                    first, second);
    }
    *before = value;
    return STATUS_OK;
}

Status option_take_word(const char **taken, const char *word, const char *what, Error *err) {
    if (*taken) return fail(err, STATUS_USAGE, "%.200s: a second %s, after %.200s; give one", word, what, *taken);
    *taken = word;
    return STATUS_OK;
}

Status option_take_file(const char **taken, int at, char **argv, Error *err) {
    const char *word = argv[at];
    const bool follows_value = at > 1 && strncmp(argv[at - 2], "--", 2) == 0 && argv[at - 1][0] != '-';
    if (follows_value && strchr(word, '=') && access(word, F_OK) != 0)
        return fail(err, STATUS_USAGE, "%.200s: a word of its own without quotes; write %.60s \"%.200s %.200s\"", word,
                    argv[at - 2], argv[at - 1], word);
    if (follows_value && access(word, F_OK) != 0 && !word[strspn(word, "+-0123456789.eE")])
        return fail(err, STATUS_USAGE,
                    "%.60s: a second value of %.60s; sounder sweep takes several with commas: %.60s %.60s,%.60s", word,
                    argv[at - 2], argv[at - 2], argv[at - 1], word);
    return option_take_word(taken, word, "experiment file", err);
}

Status option_read_next(void *record, const char **seen, int *next, int argc, char **argv, const OptionTable *table,
                        Error *err) {
    const Option *option;
    const char *value;
    TRY(option_take(&option, &value, next, argc, argv, table, err));
    TRY(option_once(&seen[option - table->rows], option, value, err));
    return option_read(record, option, value, "--", err);
}

Status option_read_all(void *record, int argc, char **argv, const OptionTable *table, Error *err) {
    const char *seen[OPTION_MAX_COUNT] = {NULL};
    for (int next = 0; next < argc;) {
        if (argv[next][0] != '-')
            return fail(err, STATUS_USAGE, "%.200s: sounder %s takes options alone; `sounder help %s` lists them",
                        argv[next], table->command, table->command);
        TRY(option_read_next(record, seen, &next, argc, argv, table, err));
    }
    return STATUS_OK;
}
