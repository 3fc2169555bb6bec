// Reads a run folder, finished or not: options, state, and figures from metrics.jsonl.
//
//   PastRuns runs;
//   TRY(past_runs_find(&runs, folders, folder_count, err));     // every run in them, at any depth
//   for (size_t i = 0; i < runs.count; i++) ... runs.all[i].path
//   past_runs_free(&runs);
#ifndef SOUNDER_APP_LOOK_PAST_RUN_H
#define SOUNDER_APP_LOOK_PAST_RUN_H

#include <jansson.h>
#include <stdio.h>
#include <sys/types.h>

#include "app/options/option_table.h"
#include "app/options/run_figure.h"
#include "app/train/run_inputs.h"
#include "base/err.h"

// Running: a process holds the lock of the folder. Finished: the folder has a summary, which a run writes last.
typedef enum RunState { RUN_STOPPED, RUN_RUNNING, RUN_FINISHED } RunState;
extern const char *const run_state_names[];

typedef struct PastRun {
    char *path; // owned
    Options options;
    RunState state;
    json_t *start;    // owned: its first "start" line; NULL: none
    json_t *last;     // owned: the "start" line of the process that worked in it last; NULL: none
    json_t *summary;  // owned; NULL: none
    json_t *values;   // owned: of each key of the rounds' lines and the summary the last value that is not null
    json_t *clients;  // owned: the last line of the clients' tests; NULL: none
    uint32_t rounds;  // rounds done
    uint32_t tests;   // rounds with a test
    uint32_t idle;    // rounds in which no client trained, or that were abandoned
    RunFigure told;   // the figure that the last "start" line names
    RunFigure figure; // the figure that the run is about: a test without hits makes it the loss
    double best;      // of all tests, of that figure; NaN: none
    uint32_t best_round;
    double seconds, samples; // of all rounds, tests included; samples trained
    double workers_lost, trainer_restarts;
    dev_t device; // of its folder, and the inode of that; set by past_runs_find
    ino_t inode;
} PastRun;

// path: the run's folder. NOINPUT if it holds no run, USAGE or DATA if its files cannot be parsed.
Status past_run_read(PastRun *run, const char *path, Error *err);
void past_run_free(PastRun *run);

// Do this line by line, for a record that grows: options alone, nothing to free on failure; and one more line of the
// record. `state` stays that of a stopped run.
Status past_run_begin(PastRun *run, const char *path, Error *err);
Status past_run_note(PastRun *run, json_t *line, Error *err);

// Whether a run is working in the folder: it has locked that before it writes config.yaml.
bool past_run_is_locked(const char *path);

// Returns the number at a key of a line of metrics.jsonl; NaN if there is none.
double past_run_number(const json_t *line, const char *key);

// The name of a client, by the last "start" line; its number, written to `number`, if it has none.
enum { PAST_CLIENT_BYTES = 24 };
const char *past_run_client(char number[PAST_CLIENT_BYTES], const PastRun *run, size_t client);
bool past_run_names_clients(const PastRun *run);

// Returns the best value of a figure; NaN unless the run is about that.
double past_run_best(const PastRun *run, const RunFigure *figure);

// Traits tell runs apart: their options, and the content of the files that options name (run_inputs.h). A trait is the
// row of either. The first option_count are option_table, in its order.
int past_run_traits(void);
const Option *past_run_trait(int number);

// Writes the run's value of a trait: of an option "" if it had no effect, of an input its hash, "" if the run has none
// or does not tell it. A run that went on with another content has both: "HASH, HASH" or "VERSIONS; VERSIONS". The
// caller owns text (OPTION_VALUE_BYTES).
void past_run_option(char *text, const PastRun *run, const Option *trait);

// Whether the runs have different values of the option; of an input: whether runs that name one content have different
// hashes.
bool past_runs_differ(const PastRun *runs, size_t count, const Option *trait);

// Whether an input of the run has another content today than when it began (run_inputs_changed), by its own options.
bool past_run_changed(InputChange *change, const PastRun *run, InputsToday *today);

bool past_run_tells_epsilon(const PastRun *run);

// Prints a line where several of the runs tell an epsilon: what they spend together.
void past_runs_say_privacy(FILE *file, const PastRun *runs, size_t count);

typedef struct PastRuns {
    PastRun *all; // owned, (count), ordered by path
    size_t count;
} PastRuns;

// Finds all runs in the folders and below them, each once, whatever names its folder has. NOINPUT names a folder
// without runs. A run whose files cannot be parsed is left out with a warning.
Status past_runs_find(PastRuns *runs, char *const *folders, int folder_count, Error *err);

// Orders the runs by path again.
void past_runs_sort(PastRuns *runs);

// Moves the finished runs to the front and returns how many there are.
size_t past_runs_finished_first(PastRuns *runs);

// Frees the copies among the first *finished runs, which are finished: runs with equal traits, rounds and hash of the
// model are one run. Returns the number of copies. Reorders these runs.
size_t past_runs_drop_copies(PastRuns *runs, size_t *finished);
void past_runs_free(PastRuns *runs);

#endif
