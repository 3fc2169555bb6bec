// A run that trained earlier, set up again in one process on the CPU, to repeat something that workers have done.
//
//   ReopenedRun run = {0};
//   Status status = reopened_run_open(&run, folder, folder, "it has no clients", err);
//   if (status == STATUS_OK) status = reopened_run_restore(&run, &round, err);   // its last checkpoint
//   reopened_run_close(&run);                                                    // also after a failure
#ifndef SOUNDER_APP_TRAIN_REOPENED_RUN_H
#define SOUNDER_APP_TRAIN_REOPENED_RUN_H

#include "app/train/run_set_up.h"

// Large; owned by the caller, who zeroes it.
typedef struct ReopenedRun {
    Options options;        // of the run, resolved for one worker on the CPU
    RunRecord past, record; // as the run was recorded; as it is now
    RunFolder folder;       // path empty: not open
    RunMemory memory;
    bool has_data;  // the memory has at least that
    RunModel model; // about: the layer list alone
} ReopenedRun;

// Reads config.yaml and the data, and creates the run's memory, with the first weights. The folder is locked: USAGE if
// another process works in it. USAGE, too, for a run without clients that train on their own: what says what such a run
// is asked for ("there is nothing to replay"). DATA if its data or another of its inputs
// (run_inputs.h) have changed. name: of the run in sentences, as its folder may be a copy.
Status reopened_run_open(ReopenedRun *run, const char *folder, const char *name, const char *what, Error *err);

// Restores weights and state from the last checkpoint; *round: its rounds, 0 without one.
Status reopened_run_restore(ReopenedRun *run, uint32_t *round, Error *err);

void reopened_run_close(ReopenedRun *run);

#endif
