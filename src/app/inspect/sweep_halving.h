// Successive halving (Jamieson and Talwalkar, AISTATS 2016): all runs of a sweep train for few rounds, the best part of
// them for more, and so on; the last ones for all. Runs that differ in the seed alone stand or fall together, by their
// mean.
//
//   halving_plan(&ladder, plan, rounds);
//   for (int rung = 0; rung < ladder.rungs; rung++) {
//       TRY(halving_begin(jobs, &ladder, rung, plan, err));   // what waits now goes on to ladder.rounds[rung]
//       ... run the jobs that wait ...
//       TRY(halving_select(jobs, &ladder, rung, plan, err));  // those that are left behind become JOB_LEFT
//   }
//
// A run is judged by the figure that it is about (app/train/run_figure.h), and between equal ones by the loss, in its
// test after exactly so many rounds, whatever it has done since: the same command goes on where an earlier one stopped,
// and decides the same.
#ifndef SOUNDER_APP_INSPECT_SWEEP_HALVING_H
#define SOUNDER_APP_INSPECT_SWEEP_HALVING_H

#include "app/inspect/sweep_jobs.h"

enum { HALVING_FACTOR = 3, HALVING_MOST_RUNGS = 16 };

typedef struct Ladder {
    int rungs;
    int rounds[HALVING_MOST_RUNGS];    // that a run has done at the end of it
    size_t groups[HALVING_MOST_RUNGS]; // that take part
} Ladder;

// USAGE where not all runs have the same number of rounds, which is divided, or some are about personal models alone.
Status halving_check(const Job *jobs, const SweepPlan *plan, Error *err);

// rounds: of the last rung; each has a third of those of the next, while there are rounds and groups to divide.
void halving_plan(Ladder *ladder, const SweepPlan *plan, int rounds);

// USAGE for a run that another process has.
Status halving_begin(Job *jobs, const Ladder *ladder, int rung, const SweepPlan *plan, Error *err);

// After the last rung nothing is left behind. USAGE for runs that are about different figures.
Status halving_select(Job *jobs, const Ladder *ladder, int rung, const SweepPlan *plan, Error *err);

#endif
