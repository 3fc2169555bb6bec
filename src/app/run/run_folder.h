// The folder of one run:
//
//   config.yaml                 the effective options
//   metrics.jsonl               one JSON object a line, appended as the run goes
//   checkpoints/                the last two checkpoints
//   live/global.safetensors     while the run lives: a link to the shared weights themselves
//   model.safetensors           the final model
//
// The folder is locked (flock on the folder itself) while a run uses it: a second run is refused, and a kill releases
// it.
#ifndef SOUNDER_APP_RUN_RUN_FOLDER_H
#define SOUNDER_APP_RUN_RUN_FOLDER_H

#include <stdbool.h>

#include "base/err.h"

enum { RUN_PATH_BYTES = 4096 };

typedef struct RunFolder {
    char path[RUN_PATH_BYTES - 64]; // room for the names below
    int lock_fd;                    // owned; close-on-exec, so that workers do not keep the lock
    bool made;                      // by run_folder_create: it had not been there
} RunFolder;

// Creates the folder (and those above it) and locks it. An empty `path` means runs/<date>-<time>-<label>. CANTCREATE
// when it cannot be made; USAGE when it is in use or already holds a run.
Status run_folder_create(RunFolder *folder, const char *path, const char *label, Error *err);

// Locks the folder of an earlier run. NOINPUT when it holds none; USAGE when it is in use.
Status run_folder_open(RunFolder *folder, const char *path, Error *err);

// Writes `folder/name` into path (RUN_PATH_BYTES) and returns it.
const char *run_folder_path(char path[RUN_PATH_BYTES], const RunFolder *folder, const char *name);

// Links live/global.safetensors to a descriptor of this process; takes the link away.
Status run_folder_link_live(const RunFolder *folder, int weights_fd, Error *err);
void run_folder_unlink_live(const RunFolder *folder);

// A run that could not begin: takes away what was made for it and is still empty.
void run_folder_discard(const RunFolder *folder);

void run_folder_close(RunFolder *folder);

#endif
