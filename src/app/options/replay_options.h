// The options of `sounder replay`: rows as those of train, with a record of their own.
#ifndef SOUNDER_APP_OPTIONS_REPLAY_OPTIONS_H
#define SOUNDER_APP_OPTIONS_REPLAY_OPTIONS_H

#include "app/options/options.h"

typedef struct ReplayOptions {
    const char *run;             // its folder; borrowed from argv
    int round;                   // 1, 2, ...
    int client;                  // 0, 1, ...
    char out[OPTION_TEXT_BYTES]; // "": none
} ReplayOptions;

// argv holds what follows `sounder replay`. USAGE unless run, round and client are there.
Status replay_options_parse(ReplayOptions *options, int argc, char **argv, Error *err);

void replay_options_print_help(FILE *file);
void replay_options_print_words(FILE *file);
void replay_options_print_man(FILE *file);

#endif
