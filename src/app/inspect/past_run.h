// Reads a run folder, finished or not: options, state, and figures from metrics.jsonl.
//
//   PastRuns runs;
//   TRY(past_runs_find(&runs, folders, folder_count, err));     // every run in them, at any depth
//   for (size_t i = 0; i < runs.count; i++) ... runs.all[i].path
//   past_runs_free(&runs);
#ifndef SOUNDER_APP_INSPECT_PAST_RUN_H
#define SOUNDER_APP_INSPECT_PAST_RUN_H

#include <jansson.h>

#include "app/options/option_table.h"
#include "app/options/run_figure.h"
#include "base/err.h"

// Running: a process holds the lock of the folder. Finished: the folder has a summary, which a run writes last.
typedef enum RunState { RUN_STOPPED, RUN_RUNNING, RUN_FINISHED } RunState;
extern const char *const run_state_names[];

// Unknown numbers are NaN.
typedef struct PastRun {
    char *path; // owned
    Options options;
    RunState state;
    json_t *start;             // owned: its first "start" line; NULL: none
    json_t *summary;           // owned; NULL: none
    json_t *round, *clients;   // owned: the last line of a round, and of the clients' tests; NULL: none
    uint32_t rounds;           // rounds done
    RunFigure figure;          // the figure that the run is about
    double last[FIGURE_KINDS]; // of the last test; personal figures: of the last test of the clients
    double best[FIGURE_KINDS]; // best of all tests; set only for the run's figure
    json_t *metrics;           // owned: {name: value}, of the trainer's last test; NULL: none
    uint32_t best_round;
    double rmse, r2, mae;      // of the last test
    double best_test_accuracy; // of the best model on the test set, in finished runs with a validation set
    double best_test_loss;
    double new_accuracy, new_tuned; // of new clients, in the last test: of the global model, and fine-tuned
    double attack_success;          // success of a backdoor in the last test
    double worst_tenth; // mean accuracy of the worst tenth of the clients in their last test, with their own
    double worst_loss;  // models if the run trains personal ones; mean loss instead if targets are numbers
    double epsilon, local_epsilon, sample_epsilon; // spent so far: centrally; by one update of a client; on a sample
    double train_loss;                             // of the last round
    double seconds;                                // of all rounds, tests included
    double samples;                                // samples trained
    double rounds_to_target;                       // set with --target, once the run is finished
    double seconds_to_target;                      // simulated ones
    double bytes_to_target;                        // in both directions
    double simulated_seconds, bytes;               // totals; bytes in both directions
    double joules, joules_to_target;               // simulated ones, of training and links
    double measured_joules;                        // of the machine, once the run is finished
    double workers_lost, trainer_restarts;
} PastRun;

// path: the run's folder. NOINPUT if it holds no run, USAGE or DATA if its files cannot be parsed.
Status past_run_read(PastRun *run, const char *path, Error *err);
void past_run_free(PastRun *run);

// Whether a run is working in the folder: it has locked that before it writes config.yaml.
bool past_run_is_locked(const char *path);

// Returns the number at a key of a line of metrics.jsonl; NaN if there is none.
double past_run_number(const json_t *line, const char *key);

// Writes the run's value of an option; "" if it had no effect. The caller owns text (OPTION_VALUE_BYTES).
void past_run_option(char *text, const PastRun *run, const Option *option);

// Whether the runs have different values of the option.
bool past_runs_differ(const PastRun *runs, size_t count, const Option *option);

typedef struct PastRuns {
    PastRun *all; // owned, (count), ordered by path
    size_t count;
} PastRuns;

// Finds all runs in the folders and below them. NOINPUT names a folder without runs. A run whose files cannot be parsed
// is left out with a warning.
Status past_runs_find(PastRuns *runs, char *const *folders, int folder_count, Error *err);

// Moves the finished runs to the front and returns how many there are.
size_t past_runs_finished_first(PastRuns *runs);
void past_runs_free(PastRuns *runs);

#endif
