// Prints the end of a sweep: means over the seeds, and with --against the comparison with one of the groups.
#ifndef SOUNDER_APP_LOOK_SWEEP_MEANS_H
#define SOUNDER_APP_LOOK_SWEEP_MEANS_H

#include "app/look/sweep_jobs.h"

// Checks before the first run that --against can be answered: USAGE if none or several of the options with several
// values have the value, or if most runs stop early (halving).
Status sweep_means_check(const SweepPlan *plan, const LookOptions *options, Error *err);

// Prints them for the runs of the plan (jobs: one for each), and which commands show more. The folder may have other
// runs, which an earlier sweep left.
Status sweep_means_print(const SweepPlan *plan, const Job *jobs, const LookOptions *options, Error *err);

#endif
