// Options of the commands that inspect runs: one table of rows per command. Folders may be written before, between or
// after the options.
#ifndef SOUNDER_APP_LOOK_LOOK_OPTIONS_H
#define SOUNDER_APP_LOOK_LOOK_OPTIONS_H

#include "app/options/option_table.h"

typedef enum SweepSearch { SWEEP_GRID, SWEEP_LIST, SWEEP_RANDOM, SWEEP_HALVING } SweepSearch;

typedef enum WorthFigure { WORTH_BY_RUN, WORTH_ACCURACY, WORTH_LOSS } WorthFigure;

enum { SWEEP_MOST_RUNS = 10000 };

typedef struct LookOptions {
    char *const *folders; // (folder_count); borrowed from argv
    int folder_count;
    char by[OPTION_TEXT_BYTES];       // names of options, with commas between; "": none
    char show[OPTION_TEXT_BYTES];     // names of figures, with commas between; "": those that say something
    char against[OPTION_TEXT_BYTES];  // a value of an option; "": none
    char over[OPTION_TEXT_BYTES];     // names of options, with commas between; "": the seed alone
    int format;                       // TableFormat
    char out[OPTION_TEXT_BYTES];      // "": not given
    char svg[OPTION_TEXT_BYTES];      // "": none
    int axis;                         // FigureAxis
    char clock[3][OPTION_TEXT_BYTES]; // of `retime`: lists of values of up-bandwidth, down-bandwidth, client-time
    char part[OPTION_TEXT_BYTES];     // "I/N"; "": all
    int search;                       // SweepSearch
    int number, parallel;             // 0: not given
    int seeds;                        // of each figure of `reproduce`
    int figure;                       // WorthFigure
    int samples;                      // permutations of `worth`
    bool dry_run, quiet, once, clients;
} LookOptions;

struct Command;

// Reorders argv, which begins after the command's name.
Status look_options_parse(LookOptions *options, const struct Command *command, int argc, char **argv, Error *err);

#endif
