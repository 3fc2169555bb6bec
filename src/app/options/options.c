// Defaults and the command line. option_table.c has the options themselves.
#include "options.h"

#include <assert.h>
#include <ctype.h>
#include <stdarg.h>
#include <string.h>

#include "option_table.h"

void options_defaults(Options *options) {
    memset(options, 0, sizeof *options);
    for (int i = 0; i < option_count; i++) {
        if (!option_table[i].preset) continue;
        Status status = option_set(options, &option_table[i], option_table[i].preset, "", NULL);
        assert(status == STATUS_OK);
        (void)status;
    }
    memset(options->given, 0, sizeof options->given);
    options->nodes = 1;
}

const char *options_named(char *text, const Options *options, const char *name) {
    int line = options->lines[option_index(option_find(name))];
    if (line > 0)
        snprintf(text, OPTION_NAMED_BYTES, "%.500s:%d: %s", options->file, line, name);
    else
        snprintf(text, OPTION_NAMED_BYTES, "--%s", name);
    return text;
}

Status options_refuse(const Options *options, const char *name, Error *err, const char *format, ...) {
    char named[OPTION_NAMED_BYTES], text[ERROR_MESSAGE_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return fail(err, STATUS_USAGE, "%s%s", options_named(named, options, name), text);
}

Status options_blame(const Options *options, const char *name, const char *gap, Status status, const Error *why,
                     Error *err) {
    char named[OPTION_NAMED_BYTES];
    if (status == STATUS_OK) return status;
    fail(err, status, "%s%s%s", options_named(named, options, name), gap, why->message);
    error_keep_sketch(err, why);
    return status;
}

bool options_given(const Options *options, const char *name) {
    const Option *option = option_find(name);
    assert(option);
    return options->given[option_index(option)];
}

// One argument of the command line: an option and its value, or a file.
typedef struct Argument {
    const Option *option; // NULL: a file
    const char *value;    // the option's value, or the file's path; borrowed from argv
} Argument;

// Reads the argument at *next and advances *next past it and its value.
static Status take_argument(Argument *argument, const OptionTable *table, int *next, int argc, char **argv,
                            Error *err) {
    const char *text = argv[*next];
    if (text[0] != '-' || !text[1]) { // "-" is standard input
        *argument = (Argument){.value = text};
        ++*next;
        return STATUS_OK;
    }
    TRY(option_take(&argument->option, &argument->value, next, argc, argv, table, err));
    bool flag, alone = argument->option->type == OPTION_FLAG && !strchr(text, '=');
    if (!alone || *next == argc || !option_read_flag(&flag, argv[*next])) return STATUS_OK;
    return fail(err, STATUS_USAGE, "%s %s: a value of this option needs '='; write %s=%s", text, argv[*next], text,
                argv[*next]);
}

// The name may be a slip of one that trains: --client of --clients.
Status option_check_train(const Option *option, const char *where, Error *err) {
    if (!option->not_train) return STATUS_OK;
    Suggestion suggestion = {.typed = option->name};
    for (int i = 0; i < option_count; i++)
        if (!option_table[i].not_train) suggestion_consider(&suggestion, option_table[i].name);
    if (suggestion.best && suggestion.distance == 1)
        return fail(err, STATUS_USAGE, "%s%s: an option of `sounder eval`; did you mean %s%s?", where, option->name,
                    where[0] == '-' ? "--" : "", suggestion.best);
    return fail(err, STATUS_USAGE, "%s%s: an option of `sounder eval`; leave it out", where, option->name);
}

// Handles an option of the command line; seen: (option_count) its values so far.
static Status set_argument(Options *options, const Argument *argument, const char **seen, Error *err) {
    TRY(option_check_train(argument->option, "--", err));
    const int index = option_index(argument->option);
    TRY(option_once(&seen[index], argument->option, argument->value, err));
    TRY(option_set(options, argument->option, argument->value, "--", err));
    options->lines[index] = 0;
    return STATUS_OK;
}

static Status refuse_data(const char *file, Error *err) {
    static const char *const endings[] = {".csv", ".tsv", ".npz", ".npy", ".gz"};
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++)
        if (strlen(file) > strlen(endings[i]) && strcmp(file + strlen(file) - strlen(endings[i]), endings[i]) == 0)
            return fail(err, STATUS_USAGE, "%.500s: is data, no experiment file; write --data %.500s", file, file);
    return STATUS_OK;
}

// A list of the file is for a sweep, whose runs each have one of its values on their command line.
static Status refuse_lists(const Options *options, Error *err) {
    for (int i = 0; i < option_count; i++)
        if (options->lines[i] > 0 && !options->given[i])
            return fail(err, STATUS_USAGE,
                        "%.500s:%d: %s: a list of values, as sounder sweep takes them; give one value, here or as --%s",
                        options->file, options->lines[i], option_table[i].name, option_table[i].name);
    return STATUS_OK;
}

Status options_parse(Options *options, int argc, char **argv, Error *err) {
    const char *experiment = NULL, *seen[OPTION_MAX_COUNT] = {NULL};
    Argument argument;
    // Reads the file first, wherever it is on the command line, so that the command line wins.
    for (int next = 0; next < argc;) {
        TRY(take_argument(&argument, &option_train_table, &next, argc, argv, err));
        if (!argument.option) TRY(option_take_file(&experiment, next - 1, argv, err));
    }
    if (experiment) TRY(refuse_data(experiment, err));
    if (experiment) TRY(options_read_experiment(options, NULL, NULL, experiment, err));
    options_adopt_form(options);
    for (int i = 0; i < option_count; i++)
        options->file_used[i] = options->given[i] && option_applies(options, &option_table[i]);
    for (int next = 0; next < argc;) {
        TRY(take_argument(&argument, &option_train_table, &next, argc, argv, err));
        if (argument.option) TRY(set_argument(options, &argument, seen, err));
    }
    return refuse_lists(options, err);
}

Status options_parse_eval(Options *options, const char **model_file, int argc, char **argv, Error *err) {
    const char *seen[OPTION_MAX_COUNT] = {NULL};
    static const ForeignOption foreign[] = {{"format", "write --json"}};
    const OptionTable table = {.rows = option_table,
                               .count = option_count,
                               .command = "eval",
                               .foreign = foreign,
                               .foreign_count = 1,
                               .foreigner = "sounder runs"};
    *model_file = NULL;
    for (int next = 0; next < argc;) {
        Argument argument;
        TRY(take_argument(&argument, &table, &next, argc, argv, err));
        if (!argument.option) {
            TRY(option_take_word(model_file, argument.value, "model", err));
            continue;
        }
        if (!argument.option->eval)
            return fail(err, STATUS_USAGE, "--%s: no option of `sounder eval`; `sounder help eval` lists them",
                        argument.option->name);
        TRY(option_once(&seen[option_index(argument.option)], argument.option, argument.value, err));
        TRY(option_set(options, argument.option, argument.value, "--", err));
    }
    if (!*model_file)
        return fail(err, STATUS_USAGE, "sounder eval: needs a model; write sounder eval MODEL.safetensors --data NAME");
    return options_check_use(options, err);
}

const char *options_program(char *label, const char *command) {
    char words[OPTION_TEXT_BYTES], *rest;
    snprintf(words, sizeof words, "%s", command);
    const char *named = strtok_r(words, " ", &rest);
    for (char *word = strtok_r(NULL, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
        if (word[0] == '-') continue;
        named = word;
        break;
    }
    const char *slash = named ? strrchr(named, '/') : NULL;
    snprintf(label, OPTION_LABEL_BYTES, "%s", slash ? slash + 1 : named ? named : "");
    for (char *c = label; *c; c++)
        if (!isalnum((unsigned char)*c) && !strchr("._-", *c)) *c = '-';
    return label;
}

const char *options_net(char *label, const Options *options) {
    return options->trainer[0] ? options_program(label, options->trainer) : options->model;
}
