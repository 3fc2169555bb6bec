// Computes the runs of a sweep from options of `sounder train` with several values each.
//
//   sounder sweep EXPERIMENT.yaml --seed 1..5 --alpha 0.1,1,10 --algorithm "fedprox mu={0.01,0.1}"
//
// A list in the experiment file has several values, too, unless the command line has the option. On the command line
// several values are written A,B,C (in a text only if it has no blank and no brace); 1..5 for whole numbers; by
// repeating the option; or {A,B} inside a text, which makes one text for each. Searches: grid: every value with every
// other; list: the first values together, then the second, ...; random: some points of the grid, drawn with a fixed
// seed, so that a command always means the same runs; halving: the grid, most of which stops after few rounds
// (sweep_halving.h).
#ifndef SOUNDER_APP_LOOK_SWEEP_PLAN_H
#define SOUNDER_APP_LOOK_SWEEP_PLAN_H

#include "app/look/look_options.h"

enum { SWEEP_NAME_BYTES = 200 };

typedef struct SweepAxis {
    const Option *option;
    char **values; // owned, (count)
    size_t count;
    bool repeats; // its values only repeat an experiment (replicates.h): means are over them
} SweepAxis;

typedef struct SweepPlan {
    const char *experiment; // borrowed from argv; NULL: none
    SweepAxis axes[OPTION_MAX_COUNT];
    size_t axis_count;
    uint32_t *points; // owned, (count): indices of points in the grid, or in the list
    size_t count;
    SweepSearch search;
} SweepPlan;

// argv: the words after `sounder sweep`. options: the sweep's own. USAGE also if a list's options have different
// numbers of values, or if there are too many runs. Nothing to free on failure.
Status sweep_plan_read(SweepPlan *plan, LookOptions *options, int argc, char **argv, Error *err);
void sweep_plan_free(SweepPlan *plan);

// Make a plan by hand: from one that is zero but for experiment and search, a value of an option of train at a time
// (copied), and in the end its points, which are all of the grid or list. USAGE as above. The caller frees the plan,
// also on failure.
Status sweep_plan_add(SweepPlan *plan, const Option *option, const char *value, Error *err);
Status sweep_plan_finish(SweepPlan *plan, Error *err);

// Returns the value of an axis in run i.
const char *sweep_plan_value(const SweepPlan *plan, size_t i, size_t axis);

// Writes "alpha=0.1,seed=2", the values of the axes with several, as a folder name to the caller's text
// (SWEEP_NAME_BYTES).
void sweep_plan_name(char *text, const SweepPlan *plan, size_t i);

#endif
