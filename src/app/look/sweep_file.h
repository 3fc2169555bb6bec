// The file sweep.yaml in the folder of a sweep: an experiment whose options with several values are lists, from which
// sounder sweep makes its runs.
#ifndef SOUNDER_APP_LOOK_SWEEP_FILE_H
#define SOUNDER_APP_LOOK_SWEEP_FILE_H

#include "app/look/sweep_plan.h"

// Writes it into the folder options->out, over that of an earlier command. plan: of a command line, with all points.
// Fails as reading the plan's experiment does, or with IO.
Status sweep_file_write(const SweepPlan *plan, const LookOptions *options, Error *err);

#endif
