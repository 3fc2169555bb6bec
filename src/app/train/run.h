// The state of a run of `sounder train`. train.c goes from the command line to the memory of the run, train_rounds.c
// from the first worker to the final model, by the steps of train_steps.h.
#ifndef SOUNDER_APP_TRAIN_RUN_H
#define SOUNDER_APP_TRAIN_RUN_H

#include "app/options/run_budget.h"
#include "app/options/run_target.h"
#include "app/train/forecast.h"
#include "app/train/progress.h"
#include "app/train/ready_data.h"
#include "app/train/run_device.h"
#include "app/train/run_folder.h"
#include "app/train/run_set_up.h"
#include "app/train/watcher.h"
#include "fedavg/nodes/nodes.h"
#include "fedavg/parent/rounds.h"

// The request of the caller. Pointers are borrowed.
typedef struct RunCall {
    int argc; // command line, which the run's record repeats
    char **argv;
    const ReadyData *ready; // data sets that are loaded already; NULL: none
    struct Outlook *told;   // gets the figures of --plan in place of stdout; NULL: they are printed
    uint64_t start_nanoseconds;
} RunCall;

typedef struct RunData {
    DatasetSource source;
    uint64_t hash;
} RunData;

// When the run ends before its last round.
typedef struct RunEnds {
    Target target;    // of --target
    Budget budget;    // of --until
    RunFigure figure; // that the run is about
    bool is_spent;    // the budget ends the run with the last round
    int signal;       // that ends the run early; 0: none
} RunEnds;

// Results of the rounds so far.
typedef struct RunResults {
    RoundReport report;    // of the last round
    RoundTest tested;      // of the last test
    uint32_t tested_round; // whose model that was; 0: this process has tested none
    RoundTest final;       // of the final model on the test set: `tested` without a validation set
    RoundTest best_final;  // of the best model on the test set, if that is another one and there is a validation set
    double *recalls, *f1;  // owned (classes): of the final model on the test samples of each class; NULL: unknown
    uint32_t workers_lost; // in the run's processes
    double seconds;        // of the run's processes, from start to end; NaN: unknown
    double joules;         // of this machine in them; NaN: not measured, or unknown
    char sha256[65];       // of model.safetensors
} RunResults;

// The answer to --plan.
typedef struct RunProspect {
    RunPlan plan; // with the workers that were asked for
    Forecast forecast;
} RunProspect;

typedef struct Run {
    Options options;
    RunCall call;
    RunData data;
    RunModel model;
    TrainerHost trainers;
    RunFolder folder;
    RunRecord past, record; // of the earlier process, with --resume; of this one
    RunDevice device;
    bool begins_again; // the GPU that --device auto had chosen does not serve: once more, on the CPU
    RunMemory memory;
    Nodes nodes;
    Rounds rounds;
    uint32_t rounds_done;
    Progress progress;
    void *watched[WATCHERS]; // owned: states of the watchers; NULL: this run has it not
    RunEnds ends;
    RunResults results;
    RunProspect prospect;
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
Status train_stop_late(Run *run, int signal, Status status, int *exit_code, Error *err);

// The steps of --plan, in order: sizes of the run's memory, before it is made for one worker; a turn of that worker,
// which is thrown away; the forecast, printed. OS or IO if the run does not fit.
Status train_plan_begin(Run *run, Error *err);
Status train_plan_turn(Run *run, Error *err);
Status train_plan_end(Run *run, Error *err);

// Called with options settled, and data, memory and folder ready: restores a checkpoint if the run is resumed, trains
// the remaining rounds, and writes the model. *exit_code: 128 + the number of a signal that ended the run.
Status train_in_folder(Run *run, int *exit_code, Error *err);

#endif
