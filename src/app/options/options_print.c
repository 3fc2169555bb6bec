// The table as text for people and shells: help, man page, completion words.
#include <stdio.h>
#include <string.h>

#include "option_table.h"
#include "options.h"

enum { HELP_COLUMNS = 96, HELP_INDENT = 31, DESCRIPTION_BYTES = 512 };

// "rounds of training (from 1 to 1000000)"
static void describe(char text[DESCRIPTION_BYTES], const Option *option) {
    char range[OPTION_RANGE_BYTES];
    option_range(range, option);
    if (option->type == OPTION_SEED) range[0] = '\0'; // all 64 bits: nobody needs to be told the limit
    snprintf(text, DESCRIPTION_BYTES,
             option->type == OPTION_CHOICE ? "%s: %s"
             : *range                      ? "%s (%s)"
                                           : "%s%s",
             option->help, range);
}

static const char *default_of(const Option *option) {
    return option->preset ? option->preset : option->derived;
}

static void print_wrapped(FILE *file, const char *text) {
    int column = HELP_INDENT;
    while (*text) {
        int length = (int)strcspn(text, " ");
        if (column > HELP_INDENT && column + 1 + length > HELP_COLUMNS) {
            fprintf(file, "\n%*s", HELP_INDENT, "");
            column = HELP_INDENT;
        }
        column += fprintf(file, "%s%.*s", column > HELP_INDENT ? " " : "", length, text);
        text += length + (text[length] == ' ');
    }
    fputc('\n', file);
}

void option_print_help(FILE *file, const Option *option) {
    char left[64], letter[8] = "", description[DESCRIPTION_BYTES], text[DESCRIPTION_BYTES + 64];
    if (option->letter) snprintf(letter, sizeof letter, "-%c, ", option->letter);
    snprintf(left, sizeof left, "  %s--%s %s", letter, option->name, option->placeholder ? option->placeholder : "");
    describe(description, option);
    snprintf(text, sizeof text, "%s [%s]", description, default_of(option));
    fprintf(file, "%-*s", HELP_INDENT, left);
    print_wrapped(file, text);
}

void options_print_help(FILE *file) {
    for (int group = 0; group < GROUP_COUNT; group++) {
        fprintf(file, "%s%s:\n", group ? "\n" : "", option_group_titles[group]);
        for (int i = 0; i < option_count; i++)
            if ((int)option_table[i].group == group) option_print_help(file, &option_table[i]);
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
    fputc('\n', file);
}

void options_print_words(FILE *file) {
    for (int i = 0; i < option_count; i++)
        option_print_words(file, &option_table[i], option_table[i].eval ? "train,eval" : "train");
}

// troff turns a bare '-' into a hyphen that nobody can paste into a shell, and obeys backslashes.
static void print_troff(FILE *file, const char *text) {
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
    fputs(". Default: ", file);
    print_troff(file, default_of(option));
    fputs(".\n", file);
}

void options_print_man(FILE *file) {
    for (int group = 0; group < GROUP_COUNT; group++) {
        fprintf(file, ".SS %s\n", option_group_titles[group]);
        for (int i = 0; i < option_count; i++)
            if ((int)option_table[i].group == group) option_print_man(file, &option_table[i]);
    }
}
