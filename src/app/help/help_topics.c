// Part of help.h: topics that explain a command or a way of working, and `sounder help` itself.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "app/command.h"
#include "app/help/help.h"
#include "app/options/option_names.h"
#include "app/options/option_table.h"
#include "base/embed.h"
#include "base/suggest.h"
#include "base/text.h"
#include "base/text_stream.h"
#include "datasets/formats/format.h"
#include "datasets/settings.h"
#include "fedavg/figures/figure.h"

EMBED(help_data, HELP_TEXTS "/data.txt");

static void print_examples(FILE *file, int count) {
    fputs("Examples:\n", file);
    for (int i = 0; i < count; i++)
        fprintf(file, "  %s\n", manual_examples[i]);
}

void help_print_train(FILE *file) {
    options_print_help(file);
    fputc('\n', file);
    print_examples(file, manual_example_count);
}

void help_print_train_briefly(FILE *file) {
    enum { EXAMPLES = 3 };
    fputs("Usage: sounder train [EXPERIMENT.yaml] [--OPTION VALUE ...]    (all: --help)\n", file);
    options_print_common_help(file);
    print_examples(file, EXAMPLES);
}

static void print_option(FILE *file, const Option *option) {
    option_print_help(file, option);
    char line[256];
    snprintf(line, sizeof line, "Only used with %s.", option->condition ? option->condition : "");
    if (option->condition) print_paragraph(file, 2, line);
    snprintf(line, sizeof line, "In an experiment file: %s: %s", option->name,
             option->placeholder ? option->placeholder : "true");
    if (!option->not_train) print_paragraph(file, 2, line);
    if (option->form) help_print_forms(file, &option->form->table);
}

void help_print_data(FILE *file) {
    print_option(file, option_find("data"));
    const char *rest = help_print_text(file, help_data);
    for (uint32_t i = 0; i < dataset_format_count; i++) {
        if (i > 0) fputc('\n', file);
        help_print_format(file, dataset_formats[i]);
    }
    rest = help_print_text(file, rest);
    help_print_forms(file, &settings_table);
    help_print_text(file, rest);
}

// Commands and topics ------------------------------------------------------------------------------------------------

static void print_overview(FILE *file) {
    fputs("sounder " SOUNDER_VERSION ": trains one model with many processes on one machine\n\nUsage:\n", file);
    for (const Command *command = commands; command < commands + command_count; command++) {
        if (!command->summary) continue;
        const char *arguments = command->brief ? command->brief : command->arguments ? command->arguments : "";
        char usage[128], text[1024] = "";
        snprintf(usage, sizeof usage, "sounder %s%s%s", command->name, *arguments ? " " : "", arguments);
        for (const Command *topic = commands; topic < commands + command_count; topic++)
            if (command->run == command_help && command_is_topic(topic) && !topic->is_for_programs)
                text_add(text, sizeof text, "%s, ", topic->name);
        text_add(text, sizeof text, "%s", command->summary);
        print_entry(file, usage, text);
    }
}

Status command_overview(int argc, char **argv, int *exit_code, Error *err) {
    (void)argc, (void)argv;
    return command_help(0, NULL, exit_code, err);
}

static void print_command(FILE *file, const Command *command) {
    if (command->run) fprintf(file, "Usage: sounder %s %s\n\n", command->name, command->arguments);
    for (const char *text = command->description ? command->description : ""; *text;) {
        char paragraph[2048];
        const size_t length = strcspn(text, "\n");
        snprintf(paragraph, sizeof paragraph, "%.*s", (int)length, text);
        print_paragraph(file, 0, paragraph);
        text += length + (text[length] == '\n');
    }
    if (command->options) fputc('\n', file);
    for (int i = 0; command->options && i < command->options->count; i++)
        option_print_help(file, &command->options->rows[i]);
    if (command->more && command->run) fputc('\n', file);
    if (command->more) command->more(file);
}

void help_print_topics(FILE *file) {
    for (const Command *topic = commands; topic < commands + command_count; topic++)
        if (command_is_topic(topic)) fprintf(file, "%s%s", topic > commands ? " " : "", topic->name);
}

// Prints the options of this name that other commands have beside those of train. Returns whether there are any.
static bool print_own_options(FILE *file, Suggestion *suggestion, bool follows) {
    bool found = false;
    for (const Command *command = commands; command < commands + command_count; command++)
        for (int i = 0; command->options && i < command->options->count; i++) {
            const Option *option = &command->options->rows[i];
            suggestion_consider(suggestion, option->name);
            if (!option_same_name(option->name, suggestion->typed)) continue;
            fprintf(file, "%ssounder %s (help %s):\n", found || follows ? "\n" : "", command->name, command->name);
            option_print_help(file, option);
            found = true;
        }
    return found;
}

// A figure of a test by its key or one of its further names.
static bool print_figure(FILE *file, const char *typed) {
    const Figure *figure = figure_by_name(typed), *told = figure;
    if (!figure) return false;
    while (!told->help && told > figure_table) // the row before tells of this one, too
        told--;
    fprintf(file, "%s, a figure of a test", figure->title);
    if (figure->also) fprintf(file, " (also: %s)", figure->also);
    fputs("\n", file);
    if (told->help) print_paragraph(file, 2, told->help);
    fprintf(file, "  sounder runs --show %s    sounder runs --clients --show %s\n", figure->key, figure->key);
    if (figure->of_run.name)
        fprintf(file, "  --target %sVALUE    --patience-by %s\n", figure->of_run.begun, figure->of_run.name);
    fputs("  all figures: sounder help metrics\n", file);
    return true;
}

static Status print_topic(FILE *file, const char *name, Error *err) {
    char typed[64];
    snprintf(typed, sizeof typed, "%s", name + strspn(name, "-"));
    for (char *c = typed; *c; c++)
        if (*c == '_') *c = '-';
    Suggestion suggestion = {.typed = typed};
    for (const Command *topic = commands; topic < commands + command_count; topic++) {
        if (!command_is_topic(topic)) continue;
        if (strcmp(name, topic->name) == 0) {
            print_command(file, topic);
            return STATUS_OK;
        }
        suggestion_consider(&suggestion, topic->name);
    }
    const Option *option = option_find(typed);
    if (option) print_option(file, option);
    const bool is_own = print_own_options(file, &suggestion, option != NULL);
    if (help_print_name(file, &suggestion, option || is_own) || option || is_own) return STATUS_OK;
    if (print_figure(file, typed)) return STATUS_OK;
    option_suggest(&suggestion);
    char remedy[256];
    const bool is_exact = suggestion.best && suggestion.distance == 0;
    if (!is_exact && algorithm_remedy(remedy, sizeof remedy, typed))
        return fail(err, STATUS_USAGE, "help %.60s: is %s; `sounder help algorithms` explains it", name, remedy);
    return fail(err, STATUS_USAGE, "help %.60s: unknown topic; %s%s%s", name,
                suggestion.best ? "did you mean " : "`sounder help` lists them", suggestion.best ? suggestion.best : "",
                suggestion.best ? "?" : "");
}

static Status print_help(FILE *file, int argc, char **argv, Error *err) {
    if (argc == 0) {
        print_overview(file);
        return STATUS_OK;
    }
    if (argc == 2 && strcmp(argv[0], "completion") == 0) {
        if (completion_print(file, argv[1])) return STATUS_OK;
        return fail(err, STATUS_USAGE, "help completion %.60s: needs bash, zsh or fish", argv[1]);
    }
    const Command *command = command_find(argv[0]);
    if (argc == 2 && command && command->briefly && strcmp(argv[1], "-h") == 0) {
        command->briefly(file);
        return STATUS_OK;
    }
    if (argc > 1)
        return fail(err, STATUS_USAGE, "help %.60s: one topic at a time; write sounder help %.60s", argv[0],
                    argv[argc - 1]);
    return print_topic(file, argv[0], err);
}

Status command_help(int argc, char **argv, int *exit_code, Error *err) {
    (void)exit_code;
    TextStream stream;
    FILE *file = text_open(&stream);
    Status status = file ? print_help(file, argc, argv, err) : STATUS_OK;
    if (!text_close(&stream) && status == STATUS_OK) status = fail(err, STATUS_OS, "no memory for the help");
    const Command *command = argc > 0 ? command_find(argv[0]) : NULL;
    const bool is_for_people = !(command && command->is_for_programs) && isatty(STDOUT_FILENO);
    char *folded = status == STATUS_OK ? pager_fold(stream.text, is_for_people) : NULL;
    if (status == STATUS_OK && !folded) status = fail(err, STATUS_OS, "no memory for the help");
    if (status == STATUS_OK) pager_show(folded);
    free(folded);
    free(stream.text);
    return status;
}
