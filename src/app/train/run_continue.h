// The command that continues a run after its end, for the last line that it prints.
//
//   char command[RUN_COMMAND_BYTES];
//   if (run_continue_command(command, &options, &goals, folder, rounds_done, spent, &why) == STATUS_OK) ...
#ifndef SOUNDER_APP_TRAIN_RUN_CONTINUE_H
#define SOUNDER_APP_TRAIN_RUN_CONTINUE_H

#include "app/options/options.h"
#include "base/err.h"
#include "base/text.h"
#include "fedavg/memory/layout.h"

enum { RUN_COMMAND_BYTES = SHELL_WORD_BYTES + 128 };

// Writes a command that trains more rounds: twice the rounds done or, if the run ended early, the remaining ones with
// other goals. Runs the checks that might refuse the command; then `why` has the sentence. options: resolved; goals: at
// the end of the run. spent: its budget (--until) has ended it.
Status run_continue_command(char command[RUN_COMMAND_BYTES], const Options *options, const Goals *goals,
                            const char *folder, uint32_t rounds_done, bool spent, Error *why);

#endif
