// Successive halving (Jamieson and Talwalkar, AISTATS 2016): all runs of a sweep train for a few rounds, the best part
// of them for more, and so on; the last ones for all rounds. Runs that differ only in the seed are one group, judged by
// its mean.
//
//   halving_plan(&ladder, plan, rounds);
//   for (int rung = 0; rung < ladder.rungs; rung++) {
//       TRY(halving_begin(jobs, &ladder, rung, plan, err));   // waiting jobs will train to ladder.rounds[rung]
//       ... run the jobs that wait ...
//       TRY(halving_select(jobs, &ladder, rung, plan, err));  // jobs of the worse groups become JOB_LEFT
//   }
//
// A run is judged by the figure that it is about (app/options/run_figure.h), and equal runs by the loss, in the test
// after that many rounds or the last one before, even if it has trained further since. A repeated command therefore
// continues where an earlier one stopped, and decides alike.
#ifndef SOUNDER_APP_LOOK_SWEEP_HALVING_H
#define SOUNDER_APP_LOOK_SWEEP_HALVING_H

#include "app/look/sweep_jobs.h"

enum { HALVING_FACTOR = 3, HALVING_MOST_RUNGS = 16 };

typedef struct Ladder {
    int rungs;
    int rounds[HALVING_MOST_RUNGS];    // rounds that a run has done at the end of the rung
    size_t groups[HALVING_MOST_RUNGS]; // groups that take part in the rung
} Ladder;

// USAGE if the runs have different numbers of rounds, or if some train personal models alone.
Status halving_check(const Job *jobs, const SweepPlan *plan, Error *err);

// rounds: of the last rung. Each rung has a third of the rounds of the next, while rounds and groups can be divided.
void halving_plan(Ladder *ladder, const SweepPlan *plan, int rounds);

// Returns the share of all runs' rounds that are trained, if each run has this many.
double halving_share(const SweepPlan *plan, int rounds);

// USAGE if another process has one of the runs.
Status halving_begin(Job *jobs, const Ladder *ladder, int rung, const SweepPlan *plan, Error *err);

// Returns a job that failed for a reason that says nothing of its values: it was killed, or the machine failed it. No
// rung may be decided then. NULL: there is none.
const Job *halving_unjudged(const Job *jobs, size_t count);

// After the last rung no job is left out. USAGE for runs that are about different figures.
Status halving_select(Job *jobs, const Ladder *ladder, int rung, const SweepPlan *plan, Error *err);

#endif
