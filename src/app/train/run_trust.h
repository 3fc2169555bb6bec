// Whether the programs that a run's folder names may be started: a folder from elsewhere may name any program.
#ifndef SOUNDER_APP_TRAIN_RUN_TRUST_H
#define SOUNDER_APP_TRAIN_RUN_TRUST_H

#include <stdbool.h>

#include "base/err.h"

// Call it before starting programs that only the run in this folder names: its trainer and, if it aggregates, its
// aggregator. USAGE if the folder or its config.yaml belongs to another user, whose programs they are. Otherwise tells
// on stderr which programs start, since an unpacked folder of another user belongs to this one.
Status run_trust_programs(const char *folder, bool aggregates, Error *err);

#endif
