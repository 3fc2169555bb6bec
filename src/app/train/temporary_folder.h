// A folder that is removed however this process ends: by a return, a signal or kill -9.
//
//   TemporaryFolder folder;
//   TRY(temporary_folder_make(&folder, "replay", err));      // folder.path: "/tmp/sounder-replay-mkW3dc"
//   temporary_folder_remove(&folder);
//
// Make it before the first CUDA call: the process that removes it is a fork, which would keep the GPU's files open.
#ifndef SOUNDER_APP_TRAIN_TEMPORARY_FOLDER_H
#define SOUNDER_APP_TRAIN_TEMPORARY_FOLDER_H

#include <sys/types.h>

#include "base/err.h"

typedef struct TemporaryFolder {
    char path[1024];
    int life_fd;   // owned: open while this process lives
    pid_t remover; // process that waits for the end of life_fd, and removes the folder
} TemporaryFolder;

// Makes the folder in TMPDIR, or in /tmp. CANTCREATE or OS; then there is nothing to remove.
Status temporary_folder_make(TemporaryFolder *folder, const char *name, Error *err);

// Removes it with all that it contains, and waits for that. Does nothing for a folder of zeros.
void temporary_folder_remove(TemporaryFolder *folder);

#endif
