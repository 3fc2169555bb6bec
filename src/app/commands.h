// The commands of the `sounder` program and the topics of its help, one row each, in the order in which everything
// lists them. main.c, help.c, manual.c and
// completion.c are loops over this table: a new command is a row in commands.c, and the function that runs it.
//
//   const Command *command = command_find("replay");     // NULL: neither a command nor a topic
//   if (command && command->run) return command->run(argc, argv, &exit_code, err);
#ifndef SOUNDER_APP_COMMANDS_H
#define SOUNDER_APP_COMMANDS_H

#include <stdbool.h>
#include <stdio.h>

#include "app/options/option_table.h"
#include "app/train/ready_data.h"
#include "base/err.h"

// Runs a command. argv holds what follows the command's name; some commands rearrange it. Leaves one sentence in err;
// only main prints it and exits. *exit_code, 0 before the call, is what to exit with when the status is OK: 128 + n
// after signal n ended a run early (its round finished, its checkpoint written), 1 where diff finds a difference, the
// code of the first run of a sweep, or of the first rank of launch, that failed.
typedef Status CommandRun(int argc, char **argv, int *exit_code, Error *err);

CommandRun command_data, command_diff, command_eval, command_help, command_launch, command_overview, command_partition,
    command_privacy, command_replay, command_report, command_reproduce, command_runs, command_sweep, command_top,
    command_train, command_version, command_worker;

// The rows of option_table that a command takes beside its own options.
typedef enum TrainOptions {
    TAKES_NONE,
    TAKES_ALL,   // those of train
    TAKES_SAVED, // those of train that are part of an experiment
    TAKES_EVAL,  // those of eval
} TrainOptions;

typedef struct Command {
    const char *name;
    const char *also;      // what others call it, for suggestions: words between blanks; NULL: none
    const char *arguments; // "[FOLDER ...] [--OPTION VALUE ...]"
    const char *brief;     // arguments in the overview; NULL: all of them
    const char *summary;   // a phrase for the overview; NULL: not in it
    const char *purpose; // what it does, in the manual page's DESCRIPTION (troff); NULL: description, with its options
    const char *description;    // for its help: paragraphs, a line end after each but the last; NULL: none
    const OptionTable *options; // its own; NULL: none
    TrainOptions takes;
    int least, most;             // folders that look_options_parse accepts
    const char *keeps_help;      // --help after this word is for the command itself; "": after any; NULL: for main
    bool writes;                 // a file that several nodes would write at once
    bool hidden;                 // users do not type it
    bool is_for_programs;        // a topic that no pager shows
    void (*more)(FILE *file);    // its help below `options`; of a topic: all of it; NULL: nothing
    void (*briefly)(FILE *file); // what -h prints; NULL: the same as --help
    CommandRun *run;             // NULL: a topic of help and no command
} Command;

extern const Command commands[];
extern const int command_count;

const Command *command_find(const char *name); // NULL: none

// Whether `sounder help` explains it.
bool command_is_topic(const Command *command);

// Training in a process that a sweep has forked and that ends with the run. ready: what data it has loaded.
Status train_with(int argc, char **argv, const ReadyData *ready, int *exit_code, Error *err);

// The argv with which the parent starts workers: `sounder:wRANK worker RANK PARENT_PID` (see shm/supervisor.h).
extern char *const worker_arguments[];

#endif
