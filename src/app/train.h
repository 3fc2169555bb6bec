// A run of `sounder train` as it stands at any moment. train.c goes from the command line to the memory of the run,
// train_rounds.c from the first worker to the final model.
#ifndef SOUNDER_APP_TRAIN_H
#define SOUNDER_APP_TRAIN_H

#include "app/inspect/tensorboard.h"
#include "app/train/progress.h"
#include "app/train/ready_data.h"
#include "app/train/run_device.h"
#include "app/train/run_folder.h"
#include "app/train/run_metrics.h"
#include "app/train/run_set_up.h"
#include "fedavg/nodes/nodes.h"
#include "fedavg/parent/rounds.h"
#include "fedavg/parent/trace_file.h"
#include "nn/net.h"
#include "nn/spec.h"

typedef struct Run {
    Options options;
    uint64_t start_nanoseconds;
    uint64_t data_hash;
    ModelAbout about;
    Spec spec;
    int argc; // of the command line, which the run's record repeats; borrowed
    char **argv;
    RunFolder folder;
    RunRecord past, record; // of the process before, with --resume; of this one
    const ReadyData *ready; // data sets that are there already; borrowed, NULL: none
    DatasetSource source;
    RunDevice device;
    char blas[NET_BLAS_NAME_BYTES]; // what multiplies for wide layers; empty if the net has none, or a GPU
    RunMemory memory;
    Nodes nodes;
    Rounds rounds;
    Metrics metrics;
    Tensorboard tensorboard;
    Progress progress;
    TraceFile trace;
    uint32_t rounds_done;
    uint32_t published; // the round whose model the shared memory holds: from its training on, before it is done
    uint32_t saved;     // the round of the last checkpoint
    uint32_t workers_lost;
    bool has_trained;       // some client has arrived, in some round
    int stop_signal;        // that ends the run before its time; 0: none
    RunFigure figure;       // that the run is about
    double target_variance; // of the test set, by which R2 is measured
    RoundReport report;     // of the last round
    RoundTest tested;       // what the last round with a test has found
    double cold_start_seconds;
    int64_t worker_bytes; // of the largest worker, when all rounds were done
} Run;

// One node alone writes files and prints; it is the first.
static inline bool train_is_first(const Run *run) {
    return run->nodes.rank == 0;
}

// With the options settled, and data, memory and the folder there: restores a checkpoint if the run is resumed, trains
// what is left of its rounds, and writes the model. *exit_code: 128 + the number of a signal that ended it.
Status train_in_folder(Run *run, int *exit_code, Error *err);

#endif
