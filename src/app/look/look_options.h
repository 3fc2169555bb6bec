// The commands that look at runs: what help, man page and completion say of each, and its options, as rows of a table
// of its own. Their arguments are folders, before, between or behind the options.
#ifndef SOUNDER_APP_LOOK_LOOK_OPTIONS_H
#define SOUNDER_APP_LOOK_LOOK_OPTIONS_H

#include "app/options/option_table.h"

typedef struct LookOptions {
    char *const *folders; // (folder_count); borrowed from argv
    int folder_count;
    char by[OPTION_TEXT_BYTES];  // names of options, with commas between; "": none
    int format;                  // TableFormat
    char out[OPTION_TEXT_BYTES]; // "": not given
    char svg[OPTION_TEXT_BYTES]; // "": none
    char part[OPTION_TEXT_BYTES]; // "I/N"; "": all
    int search;                  // SweepSearch
    int number, parallel, seeds; // 0: not given
    bool dry_run, once;
} LookOptions;

typedef struct LookCommand {
    const char *name, *arguments; // "runs", "[FOLDER ...] [--OPTION VALUE ...]"
    const char *summary;          // a phrase
    const char *description;      // a paragraph
    OptionTable table;
    int least, most; // folders
} LookCommand;

extern const LookCommand look_commands[];
extern const int look_command_count;

const LookCommand *look_command_find(const char *name); // NULL: none of these

// argv, what follows the command's name, is rearranged.
Status look_options_parse(LookOptions *options, const LookCommand *command, int argc, char **argv, Error *err);

void look_command_print_help(FILE *file, const LookCommand *command);

// Of all of them: the lines of the synopsis, what each is for, the sections of options, and completion's words.
void look_commands_print_synopsis(FILE *file);
void look_commands_print_man(FILE *file);
void look_commands_print_words(FILE *file);

#endif
