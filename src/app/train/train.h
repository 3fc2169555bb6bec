// `sounder train` as other commands call it, and how its workers are started.
#ifndef SOUNDER_APP_TRAIN_TRAIN_H
#define SOUNDER_APP_TRAIN_TRAIN_H

#include <stdbool.h>
#include <stdint.h>

#include "app/train/ready_data.h"
#include "base/err.h"

// Trains in a process that a sweep has forked and that ends with the run. ready: data that the sweep has loaded. cores:
// of the run, if it trains on the CPU and has no --workers; 0: all usable ones.
Status train_with(int argc, char **argv, const ReadyData *ready, int cores, int *exit_code, Error *err);

// The variable of the environment in which a sweep tells its runs the names of the options that it compares, with
// blanks between them.
#define RUN_SWEEP_AXES "SOUNDER_SWEEP_AXES"

// Figures of a run that has not begun, for a sweep.
typedef struct Outlook {
    uint64_t memory, shared; // bytes of all; of it the data set, if it is in memory that runs share
    double seconds, start_seconds;
    int rounds;
    bool on_gpu;
} Outlook;

// In such a process, too: has one worker make a turn (train/forecast.h), in place of the run.
Status train_outlook(Outlook *outlook, int argc, char **argv, const ReadyData *ready, int cores, Error *err);

// Starts a worker; the parent passes argv `sounder:wRANK worker RANK PARENT_PID` (see shm/supervisor.h).
extern char *const worker_arguments[];

#endif
