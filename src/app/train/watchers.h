// Look at a run while it trains: its record, TensorBoard, the best model, checkpoints, a trace, energy, lines of
// progress. Each watcher is one row of the table in watchers.c and one file with its own state, and is called at the
// same few moments. A watcher changes nothing that the training depends on.
//
//   TRY(watchers_open(&run, err));
//   TRY(watchers_tell(&run, MOMENT_ROUND, &(Seen){.round = 3, ...}, err));
//   status = watchers_stop(&run, status, err);
//   watchers_close(&run);                               // always
//
// To add a watcher, add a file with `const Watcher NAME_watcher`, and its name here and in the table.
#ifndef SOUNDER_APP_TRAIN_WATCHERS_H
#define SOUNDER_APP_TRAIN_WATCHERS_H

#include "app/train/run.h"

extern const Watcher energy_watcher, model_watcher, best_model_watcher, record_watcher, tensorboard_watcher,
    schedule_watcher, checkpoint_watcher, live_watcher, trace_watcher, doubts_watcher, progress_watcher;

// Makes the states of all watchers that the run wants, and calls them at MOMENT_OPEN. All nodes together.
Status watchers_open(Run *run, Error *err);

// Calls all watchers at another moment, in the order of the table, until one fails.
Status watchers_tell(Run *run, Moment moment, const Seen *seen, Error *err);

// Calls all watchers at MOMENT_STOP. Returns status, or the first failure if that is OK.
Status watchers_stop(Run *run, Status status, Error *err);

void watchers_tick(void *run);

// Frees their states; nothing if there are none.
void watchers_close(Run *run);

// The state of a watcher; NULL: this run has none.
void *watcher_state(const Run *run, const Watcher *watcher);

#endif
