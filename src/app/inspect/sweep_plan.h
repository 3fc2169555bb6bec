// Which runs a sweep consists of: options of `sounder train` with several values each.
//
//   sounder sweep EXPERIMENT.yaml --seed 1..5 --alpha 0.1,1,10 --algorithm "fedprox mu={0.01,0.1}"
//
// Several values are: A,B,C (of a text only where it has no blank and no brace); 1..5 of whole numbers; an option that
// comes again; {A,B} inside a text, one text for each. Grid: every value with every other; list: the first values
// together, then the second, ...; random: some points of the grid, drawn by a fixed seed, so that the same command
// means the same runs; halving: the grid, most of which is left behind after few rounds (sweep_halving.h).
#ifndef SOUNDER_APP_INSPECT_SWEEP_PLAN_H
#define SOUNDER_APP_INSPECT_SWEEP_PLAN_H

#include "app/inspect/look_options.h"

typedef enum SweepSearch { SWEEP_GRID, SWEEP_LIST, SWEEP_RANDOM, SWEEP_HALVING } SweepSearch;

enum { SWEEP_MOST_RUNS = 10000, SWEEP_NAME_BYTES = 200 };

typedef struct SweepAxis {
    const Option *option;
    char **values; // owned, (count)
    size_t count;
} SweepAxis;

typedef struct SweepPlan {
    const char *experiment; // borrowed from argv; NULL: none
    SweepAxis axes[OPTION_MAX_COUNT];
    size_t axis_count;
    uint32_t *points; // owned, (count): numbers of points of the grid, or of the list
    size_t count;
    SweepSearch search;
} SweepPlan;

// argv: what follows `sounder sweep`. options: those of the sweep itself. USAGE, also where a list's options have
// different numbers of values, or there are too many runs. Nothing to free on failure.
Status sweep_plan_read(SweepPlan *plan, LookOptions *options, int argc, char **argv, Error *err);
void sweep_plan_free(SweepPlan *plan);

// The value that run number i has of an axis.
const char *sweep_plan_value(const SweepPlan *plan, size_t i, size_t axis);

// "alpha=0.1,seed=2": the axes with several values; a name for a folder. text: (SWEEP_NAME_BYTES) of the caller's.
void sweep_plan_name(char *text, const SweepPlan *plan, size_t i);

#endif
