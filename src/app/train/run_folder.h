// The folder of one run:
//
//   config.yaml                 the effective options
//   metrics.jsonl               one JSON object a line, appended as the run goes
//   tensorboard/                the same for TensorBoard
//   checkpoints/                the last two checkpoints
//   clients.kept                what clients keep from turn to turn, where an algorithm has them do so
//   live/global.safetensors     while the run lives: a link to the shared weights themselves
//   model.safetensors           the final model
//
// The folder is locked (flock on the folder itself) while a run uses it: a second run is refused, and a kill releases
// it. All files are found through its descriptor: who moves the folder away and puts another in its place does not get
// this run's files into that one.
#ifndef SOUNDER_APP_TRAIN_RUN_FOLDER_H
#define SOUNDER_APP_TRAIN_RUN_FOLDER_H

#include <stdbool.h>

#include "base/err.h"
#include "io/durable.h"

enum { RUN_PATH_BYTES = 4096 };

typedef struct RunFolder {
    char path[RUN_PATH_BYTES - 64]; // room for the names above; for sentences
    int lock_fd;                    // owned; close-on-exec, so that workers do not keep the lock
    int checkpoints_fd;             // owned
    bool made, made_checkpoints;    // by run_folder_create: it had not been there
} RunFolder;

// Creates the folder (and those above it) and locks it. An empty `path` means runs/<date>-<time>-<label>. CANTCREATE
// when it cannot be made; USAGE when it is in use, holds anything by the names above, or is another user's.
Status run_folder_create(RunFolder *folder, const char *path, const char *label, Error *err);

// Locks the folder of an earlier run. NOINPUT when it holds none; USAGE when it is in use or another user's.
Status run_folder_open(RunFolder *folder, const char *path, Error *err);

// For what is written into it. Borrows from folder.
Folder run_folder_at(const RunFolder *folder);

// IO, with where it is now, when the folder is no longer found under its path.
Status run_folder_check(const RunFolder *folder, Error *err);

// Whether it holds a file of this name.
bool run_folder_has(const RunFolder *folder, const char *name);

// Links live/global.safetensors and live/control to descriptors of this process; takes the links away, also those of a
// process that was killed. A warning in the log when they stay.
Status run_folder_link_live(const RunFolder *folder, int weights_fd, int control_fd, Error *err);
void run_folder_unlink_live(const RunFolder *folder);

// A new run of which nothing is worth keeping: takes away what it has made.
void run_folder_discard(const RunFolder *folder);

void run_folder_close(RunFolder *folder);

#endif
