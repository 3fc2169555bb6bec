// The state of a run of `sounder train`. train.c goes from the command line to the memory of the run, train_rounds.c
// from the first worker to the final model, by the steps of train_steps.h.
#ifndef SOUNDER_APP_TRAIN_RUN_H
#define SOUNDER_APP_TRAIN_RUN_H

#include "app/options/run_budget.h"
#include "app/options/run_target.h"
#include "app/train/best_model.h"
#include "app/train/energy_meter.h"
#include "app/train/forecast.h"
#include "app/train/process_memory.h"
#include "app/train/progress.h"
#include "app/train/ready_data.h"
#include "app/train/run_device.h"
#include "app/train/run_folder.h"
#include "app/train/run_metrics.h"
#include "app/train/run_set_up.h"
#include "app/train/tensorboard.h"
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
    TrainerHost trainers;
    TrainerNet net; // of --trainer, which then has the tensors; otherwise count is 0
    int argc;       // command line, which the run's record repeats; borrowed
    char **argv;
    RunFolder folder;
    RunRecord past, record; // of the earlier process, with --resume; of this one
    const ReadyData *ready; // data sets that are loaded already; borrowed, NULL: none
    DatasetSource source;
    RunDevice device;
    char blas[BLAS_NAME_BYTES]; // library that multiplies for wide layers; empty if the net has none, or on a GPU
    RunMemory memory;
    Nodes nodes;
    Rounds rounds;
    Metrics metrics;
    Tensorboard tensorboard;
    Progress progress;
    TraceFile trace;
    uint32_t rounds_done;
    uint32_t published;  // round of the model in the shared memory, which is published before the round counts as done
    uint32_t saved;      // round of the last checkpoint
    bool headed;         // the heading was printed
    bool checked_reads;  // of options by the trainer's turns
    bool warned_of_loss; // which a test found not to be finite
    bool begins_again;   // the GPU that --device auto had chosen does not serve: once more, on the CPU
    EnergyMeter meter;   // of --measure-energy; the first node's
    bool lacks_clients;  // drawn clients have not arrived in this process
    bool has_trained;    // some client has arrived in some round of this process
    RunKept kept;        // what the record has of the rounds of earlier processes; zeroed: there were none
    int stop_signal;     // signal that ends the run early; 0: none
    int late_signal;     // signal that arrived after the last worker had ended; 0: none
    Target target;       // of --target
    Budget budget;       // of --until
    bool spent;          // the budget ends the run with the last round
    RunFigure figure;    // figure that the run is about
    RoundReport report;  // report of the last round
    RoundTest tested;    // result of the last test
    uint32_t tested_round; // whose model that was; 0: this process has tested none
    RoundTest final;       // of the final model on the test set: `tested` without a validation set
    RoundTest best_final;  // of the best model on the test set, if that is another one and there is a validation set
    BestModel best;        // so far; the first node's
    RunPlan plan;          // of --plan: with the workers that were asked for
    Forecast forecast;     // of --plan
    struct Outlook *told;  // gets its figures in place of stdout; borrowed, NULL: it is printed
    RunSummary summary;    // filled as the run proceeds, the rest at its end
} Run;

// Only the first node writes files and prints.
static inline bool train_is_first(const Run *run) {
    return run->nodes.rank == 0;
}

// Whether this process writes the run's folder.
static inline bool train_writes(const Run *run) {
    return train_is_first(run) && !run->options.plan;
}

// Whether the run has programs of the user's: trainers, an aggregator.
static inline bool train_has_programs(const Run *run) {
    return run->options.trainer[0] || run->options.aggregator[0];
}

// Prints the heading, the first time.
void train_say_heading(Run *run);

// nodes_agree, after a step before the first round. All nodes have a GPU there or none has: so a failure makes all of
// them begin again on the CPU, or none.
Status train_agree_to_begin(Run *run, Status status, Error *err);

// A signal that came after the last worker had ended, as the GPU was closed: the run does not begin again on the CPU.
// Returns the status of the run.
Status train_stop_late(Run *run, Status status, int *exit_code, Error *err);

// The steps of --plan, in order: sizes of the run's memory, before it is made for one worker; a turn of that worker,
// which is thrown away; the forecast, printed. OS or IO if the run does not fit.
Status train_plan_begin(Run *run, Error *err);
Status train_plan_turn(Run *run, Error *err);
Status train_plan_end(Run *run, Error *err);

// Called with options settled, and data, memory and folder ready: restores a checkpoint if the run is resumed, trains
// the remaining rounds, and writes the model. *exit_code: 128 + the number of a signal that ended the run.
Status train_in_folder(Run *run, int *exit_code, Error *err);

#endif
