// The folder of one run:
//
//   config.yaml                 the effective options
//   metrics.jsonl               one JSON object per line, appended while the run trains
//   tensorboard/                its lines for TensorBoard
//   checkpoints/                the last two checkpoints
//   clients.kept                client states, if the algorithm keeps some between a client's turns
//   schedule.csv                which client trained when, with a buffered schedule (run_schedule.h)
//   live/global.safetensors     during the run: a link to the shared weights themselves
//   model.safetensors           the final model
//   cluster-0.safetensors, ...  the models of all clusters (personal clusters), of which it is the largest one's
//   best.safetensors            the best one of all tests
//   trainer.log                 what the programs of --trainer and --aggregator print; a new run appends to an old one
//
// The folder is locked (flock on the folder itself) while a run uses it: a second run is refused, and a kill releases
// it. All files are opened relative to its descriptor, so this run's files never get into another folder that a user
// puts in its place.
#ifndef SOUNDER_APP_TRAIN_RUN_FOLDER_H
#define SOUNDER_APP_TRAIN_RUN_FOLDER_H

#include <stdbool.h>

#include "base/err.h"
#include "io/durable.h"

enum { RUN_PATH_BYTES = 4096 };

#define MODEL_NAME         "model.safetensors"
#define CLUSTER_MODEL_NAME "cluster-%u.safetensors"
#define BEST_MODEL_NAME    "best.safetensors" // best_model.h

typedef struct RunFolder {
    char path[RUN_PATH_BYTES - 64]; // leaves room for the names above; for error sentences
    int lock_fd;                    // owned; close-on-exec, so that workers do not hold the lock
    int checkpoints_fd;             // owned
    bool made, made_checkpoints;    // run_folder_create made them: they did not exist
    bool made_log;                  // the caller's: it begins trainer.log, which did not exist
} RunFolder;

// Creates the folder (with its parents) and locks it. An empty `path` means runs/<date>-<time>-<label>. CANTCREATE if
// it cannot be made; USAGE if it is in use, contains one of the names above, or belongs to another user.
Status run_folder_create(RunFolder *folder, const char *path, const char *label, Error *err);

// Locks the folder of an earlier run. NOINPUT if it holds none; USAGE if it is in use or belongs to another user.
Status run_folder_open(RunFolder *folder, const char *path, Error *err);

// For writing files into the folder. Borrows from folder.
Folder run_folder_at(const RunFolder *folder);

// IO, with its present place, if the folder is no longer found under its path.
Status run_folder_check(const RunFolder *folder, Error *err);

// Whether it holds a file of this name.
bool run_folder_has(const RunFolder *folder, const char *name);

// Links live/global.safetensors and live/control to descriptors of this process; removes the links, also those of a
// process that was killed. Logs a warning if that fails.
Status run_folder_link_live(const RunFolder *folder, int weights_fd, int control_fd, Error *err);
void run_folder_unlink_live(const RunFolder *folder);

// Removes everything that a failed new run has made; with keep_log all but a trainer.log that is not empty. A
// trainer.log that the run did not begin stays.
void run_folder_discard(const RunFolder *folder, bool keep_log);

void run_folder_close(RunFolder *folder);

#endif
