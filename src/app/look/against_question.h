// Reads `--against VALUE`: finds the option that has the value, the runs that make a group, and the figure to compare.
#ifndef SOUNDER_APP_LOOK_AGAINST_QUESTION_H
#define SOUNDER_APP_LOOK_AGAINST_QUESTION_H

#include "app/look/by_options.h"
#include "app/look/past_run.h"
#include "app/look/run_columns.h"

// value: of an option in which the runs differ ("fedavg"), or OPTION=VALUE ("alpha=0.1"). by: names of options whose
// values make a group; "": all in which the runs differ, except the seed. show: the figure to compare, a key of
// run_columns.h; "": the one that the runs are about. over: names of options whose values make pairs beside the seed.
typedef struct Against {
    const char *value, *by, *show, *over;
} Against;

typedef struct Question {
    const Option *option;           // has the value that the others are compared with
    char value[OPTION_VALUE_BYTES]; // as runs write it
    ByOptions by, others;           // others: by without the option
    ByOptions over;                 // a pair of runs has equal values of each
    bool is_named;                  // by --show: the column; otherwise the figure that the runs are about
    RunColumn column;
    RunFigure figure;
    char title[COLUMN_NAME_BYTES];
    int decimals;
} Question;

// Writes a typed value as runs write it ("0.10": "0.1"); a value that the option cannot have is copied.
void against_value(char value[OPTION_VALUE_BYTES], const Option *option, const char *typed);

// Returns what is typed as a value of the option: VALUE of OPTION=VALUE, NULL if that names another option.
const char *against_value_of(const Option *option, const char *typed);

// Fails with USAGE, since both options have the value.
Status against_refuse_two(const Option *first, const Option *second, const char *typed, Error *err);

// runs: finished ones. USAGE as in against.h.
Status against_question_read(Question *question, const PastRuns *runs, const Against *asked, Error *err);

// Returns the run's value of the figure; NaN if it has none.
double against_question_value(const PastRun *run, const Question *question);

#endif
