// What a run folder tells of its run, finished or not: options, state, and figures from metrics.jsonl.
//
//   PastRuns runs;
//   TRY(past_runs_find(&runs, folders, folder_count, err));     // every run in them, however deep
//   for (size_t i = 0; i < runs.count; i++) ... runs.all[i].path
//   past_runs_free(&runs);
#ifndef SOUNDER_APP_INSPECT_PAST_RUN_H
#define SOUNDER_APP_INSPECT_PAST_RUN_H

#include <jansson.h>

#include "app/options/option_table.h"
#include "app/train/run_figure.h"
#include "base/err.h"

// Running: a process has the folder locked. Finished: it has a summary, the last thing that a run writes.
typedef enum RunState { RUN_STOPPED, RUN_RUNNING, RUN_FINISHED } RunState;
extern const char *const run_state_names[];

// NaN: not known.
typedef struct PastRun {
    char *path; // owned
    Options options;
    RunState state;
    json_t *start;            // owned: its first "start" line; NULL: none
    json_t *summary;          // owned; NULL: none
    uint32_t rounds;          // done
    RunFigure figure;         // that the run is about
    double last[RUN_FIGURES]; // of the last test; the personal ones: when the clients were tested last
    double best[RUN_FIGURES]; // of all tests: only of the run's figure
    uint32_t best_round;
    double rmse, r2;       // of the last test
    double attack_success; // of a backdoor, likewise
    double worst_tenth;    // mean accuracy of the worst tenth of the clients, when they were tested last: of their own
    double worst_loss;     // models where the run is about those; mean loss, where targets are numbers
    double epsilon, local_epsilon;   // spent so far; by an update of a client
    double train_loss;               // of the last round
    double seconds;                  // of all rounds, tests included
    double samples;                  // trained
    double rounds_to_target;         // with --target-accuracy
    double simulated_seconds, bytes; // in all, both ways
    double workers_lost;
} PastRun;

// path: its folder. NOINPUT where there is no run, USAGE or DATA where its files cannot be understood.
Status past_run_read(PastRun *run, const char *path, Error *err);
void past_run_free(PastRun *run);

// The value of an option as the run had it; empty where it did not matter. text: (OPTION_VALUE_BYTES) of the caller's.
void past_run_option(char *text, const PastRun *run, const Option *option);

// Whether some of the runs differ in it.
bool past_runs_differ(const PastRun *runs, size_t count, const Option *option);

typedef struct PastRuns {
    PastRun *all; // owned, (count), ordered by path
    size_t count;
} PastRuns;

// All runs in the folders and below them. NOINPUT, with its name, for a folder without any. A run whose files cannot be
// understood is left out with a warning.
Status past_runs_find(PastRuns *runs, char *const *folders, int folder_count, Error *err);
void past_runs_free(PastRuns *runs);

#endif
