// What other programs read about this one, all of it from the tables of options.
#ifndef SOUNDER_APP_MANUAL_H
#define SOUNDER_APP_MANUAL_H

#include <stdio.h>

// Examples of `sounder train`, for help and manual: (manual_example_count) lines as typed.
extern const char *const manual_examples[];
extern const int manual_example_count;

// The man page, as troff.
void manual_print(FILE *file);

// A script that has bash complete the commands, options and values of sounder.
void manual_print_completion(FILE *file);

#endif
