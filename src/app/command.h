// The commands of the `sounder` program and the topics of its help: one row each, in the order of every list. main.c
// and the files of help/ are loops over this table: a new command is a row in commands.c, and the function that runs
// it.
//
//   const Command *command = command_find("replay");     // NULL: neither a command nor a topic
//   if (command && command->run) return command->run(argc, argv, &exit_code, err);
#ifndef SOUNDER_APP_COMMAND_H
#define SOUNDER_APP_COMMAND_H

#include <stdbool.h>
#include <stdio.h>

#include "app/options/option_table.h"
#include "base/err.h"

// Runs a command. argv holds the words after the command's name; some commands reorder it. An error leaves one sentence
// in err, and only main prints it and exits. *exit_code, 0 before the call, is the exit code if the status is OK: 128 +
// n after signal n ended a run early (its round finished, its checkpoint written), 1 if diff finds a difference or
// doctor a fault, the code of the first failed run of a sweep, or of the first failed rank of launch.
typedef Status CommandRun(int argc, char **argv, int *exit_code, Error *err);

CommandRun command_data, command_diff, command_doctor, command_eval, command_guard, command_help, command_launch,
    command_export, command_flower, command_overview, command_partition, command_privacy, command_replay,
    command_report, command_reproduce, command_retime, command_runs, command_sweep, command_top, command_train,
    command_version, command_worker, command_worth;

// The rows of option_table that a command accepts beside its own options.
typedef enum TrainOptions {
    TAKES_NONE,
    TAKES_ALL,   // options of train
    TAKES_SAVED, // options of train that are part of an experiment
    TAKES_EVAL,  // options of eval
} TrainOptions;

typedef struct Command {
    const char *name;
    const char *also;           // names in other programs, for suggestions: words between blanks; NULL: none
    const char *arguments;      // "[FOLDER ...] [--OPTION VALUE ...]"
    const char *brief;          // arguments in the overview; NULL: all of them
    const char *summary;        // a phrase for the overview; NULL: left out there
    const char *purpose;        // the manual page's DESCRIPTION (troff); NULL: description, with its options
    const char *description;    // text of its help: paragraphs, a line end after each but the last; NULL: none
    const OptionTable *options; // its own options; NULL: none
    TrainOptions takes;
    int least, most; // folders that look_options_parse accepts
    // A --help after this word is the command's own argument. "": after any word; NULL: main handles --help.
    const char *keeps_help;
    bool writes;                 // it writes a file, which several nodes must not write at once
    bool hidden;                 // not for users
    bool is_for_programs;        // a topic that is never shown in a pager
    void (*more)(FILE *file);    // prints its help below `options`; of a topic: all of it; NULL: nothing
    void (*briefly)(FILE *file); // prints what -h shows; NULL: as --help
    CommandRun *run;             // NULL: a topic of help, no command
} Command;

// Options of commands that inspect runs (look/look_options.c).
extern const OptionTable data_options, runs_options, report_options, sweep_options, reproduce_options, top_options,
    retime_options, worth_options;

extern const Command commands[];
extern const int command_count;

const Command *command_find(const char *name); // NULL: none

// Whether `sounder help` lists it.
bool command_is_topic(const Command *command);

#endif
