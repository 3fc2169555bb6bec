// The log files of `sounder launch`, laid out as torchrun's:
//   FOLDER/<run id>_<random>/attempt_<restart>/<local rank>/stdout.log and stderr.log
#ifndef SOUNDER_APP_LAUNCH_LAUNCH_LOGS_H
#define SOUNDER_APP_LAUNCH_LAUNCH_LOGS_H

#include "base/err.h"
#include "base/folders.h"

enum { LAUNCH_FOLDER_BYTES = FOLDER_PATH_BYTES - 128 }; // room for the names below it

// Creates a folder of this run's own below `parent`, which is created as well; "": below $TMPDIR or /tmp.
// path (LAUNCH_FOLDER_BYTES). CANTCREATE with the folder.
Status launch_logs_create(char *path, const char *parent, const char *run_id, Error *err);

// Opens the log file of one stream ("stdout") of a rank, for writing and close-on-exec; *fd is the caller's.
Status launch_log_open(int *fd, const char *path, int attempt, int local_rank, const char *stream, Error *err);

#endif
