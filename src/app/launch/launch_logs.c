#include "launch_logs.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>

Status launch_logs_create(char *path, const char *parent, const char *run_id, Error *err) {
    const char *temporary = getenv("TMPDIR");
    if (!parent[0]) parent = temporary && temporary[0] ? temporary : "/tmp";
    int length = snprintf(path, LAUNCH_FOLDER_BYTES, "%s/%s_XXXXXX", parent, run_id);
    if (length >= LAUNCH_FOLDER_BYTES)
        return fail(err, STATUS_CANTCREATE, "--log-dir: a folder name of %d characters; at most %d fit", length,
                    LAUNCH_FOLDER_BYTES - 1);
    if (make_folders(parent) < 0) return fail_errno(err, STATUS_CANTCREATE, "--log-dir %.400s: cannot be made", parent);
    if (!mkdtemp(path))
        return fail_errno(err, STATUS_CANTCREATE, "--log-dir %.400s: no folder can be made in it", parent);
    return STATUS_OK;
}

Status launch_log_open(int *fd, const char *path, int attempt, int local_rank, const char *stream, Error *err) {
    char folder[FOLDER_PATH_BYTES - 32], file[FOLDER_PATH_BYTES];
    snprintf(folder, sizeof folder, "%s/attempt_%d/%d", path, attempt, local_rank);
    if (make_folders(folder) < 0)
        return fail_errno(err, STATUS_CANTCREATE, "the log folder %.400s: cannot be made", folder);
    snprintf(file, sizeof file, "%s/%s.log", folder, stream);
    *fd = open(file, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0666);
    if (*fd < 0) return fail_errno(err, STATUS_CANTCREATE, "the log file %.400s: cannot be made", file);
    return STATUS_OK;
}
