// Part of options.h: prints the table for people and shells: help, manual page, completion words.
#include <stdio.h>

#include "option_table.h"
#include "options.h"

enum { DESCRIPTION_BYTES = 1536 };

// Writes "rounds of training (from 1 to 1000000)".
static void describe(char text[DESCRIPTION_BYTES], const Option *option) {
    char range[OPTION_RANGE_BYTES];
    option_range(range, option);
    if (option->type == OPTION_SEED) range[0] = '\0'; // all 64 bits are allowed: a range would not help
    if (option->form)
        snprintf(text, DESCRIPTION_BYTES, "%s (help %s): %s", option->help, option->name, range);
    else
        snprintf(text, DESCRIPTION_BYTES,
                 option->type == OPTION_CHOICE ? "%s: %s"
                 : *range                      ? "%s (%s)"
                                               : "%s%s",
                 option->help, range);
}

static const char *default_of(const Option *option) {
    return option->preset ? option->preset : option->derived;
}

// value: the default; NULL: not shown.
static void print_option(FILE *file, const Option *option, const char *description, const char *value) {
    char left[64], letter[8] = "", text[DESCRIPTION_BYTES + 64];
    if (option->letter) snprintf(letter, sizeof letter, "-%c, ", option->letter);
    snprintf(left, sizeof left, "%s--%s%s%s", letter, option->name, option->placeholder ? " " : "",
             option->placeholder ? option->placeholder : "");
    snprintf(text, sizeof text, value ? "%s [%s]" : "%s", description, value);
    print_entry(file, left, text);
}

void option_print_help(FILE *file, const Option *option) {
    char description[DESCRIPTION_BYTES];
    describe(description, option);
    print_option(file, option, description, default_of(option));
}

void options_print_common_help(FILE *file) {
    for (int i = 0; i < option_count; i++)
        if (option_table[i].common)
            print_option(file, &option_table[i], option_table[i].brief ? option_table[i].brief : option_table[i].help,
                         option_table[i].preset);
}

void options_print_help(FILE *file) {
    for (int group = 0; group < GROUP_COUNT; group++) {
        fprintf(file, "%s%s:\n", group ? "\n" : "", option_group_titles[group]);
        for (int i = 0; i < option_count; i++)
            if ((int)option_table[i].group == group && !option_table[i].not_train)
                option_print_help(file, &option_table[i]);
    }
}

void options_print_eval_help(FILE *file) {
    for (int i = 0; i < option_count; i++)
        if (option_table[i].eval) option_print_help(file, &option_table[i]);
}

void option_print_words(FILE *file, const Option *option, const char *commands) {
    fprintf(file, "%s --%s", commands, option->name);
    for (int choice = 0; choice < OPTION_MAX_CHOICES && option->choices[choice]; choice++)
        fprintf(file, " %s", option->choices[choice]);
    const char *name;
    for (size_t i = 0; (name = option_name_in_table(option, i)); i++)
        fprintf(file, " %s", name);
    fputc('\n', file);
}

void print_troff(FILE *file, const char *text) {
    for (; *text; text++) {
        if (*text == '-' || *text == '\\') fputc('\\', file);
        fputc(*text == '\\' ? 'e' : *text, file);
    }
}

void option_print_man(FILE *file, const Option *option) {
    char description[DESCRIPTION_BYTES];
    describe(description, option);
    fputs(".TP\n", file);
    if (option->letter) fprintf(file, "\\fB\\-%c\\fR, ", option->letter);
    fputs("\\fB\\-\\-", file);
    print_troff(file, option->name);
    fputs("\\fR", file);
    if (option->placeholder) fprintf(file, " \\fI%s\\fR", option->placeholder);
    fputc('\n', file);
    print_troff(file, description);
    if (default_of(option)) {
        fputs(". Default: ", file);
        print_troff(file, default_of(option));
    }
    fputs(".\n", file);
}

void options_print_man(FILE *file) {
    for (int group = 0; group < GROUP_COUNT; group++) {
        fprintf(file, ".SS %s\n", option_group_titles[group]);
        for (int i = 0; i < option_count; i++)
            if ((int)option_table[i].group == group) option_print_man(file, &option_table[i]);
    }
}
