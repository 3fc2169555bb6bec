#include "run_folder.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/folders.h"

static Status lock(RunFolder *folder, Error *err) {
    folder->lock_fd = open(folder->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder->lock_fd < 0) return fail_errno(err, STATUS_NOINPUT, "cannot open the run folder %s", folder->path);
    if (flock(folder->lock_fd, LOCK_EX | LOCK_NB) == 0) return STATUS_OK;
    int reason = errno;
    close(folder->lock_fd);
    errno = reason;
    if (reason != EWOULDBLOCK) return fail_errno(err, STATUS_IO, "cannot lock the run folder %s", folder->path);
    return fail(err, STATUS_USAGE, "%s is in use by another run; wait for it to end, or give another --out",
                folder->path);
}

static Status set_path(RunFolder *folder, const char *path, Error *err) {
    if (strlen(path) >= sizeof folder->path)
        return fail(err, STATUS_USAGE, "the folder name is %zu characters long; at most %zu fit", strlen(path),
                    sizeof folder->path - 1);
    memcpy(folder->path, path, strlen(path) + 1);
    for (size_t end = strlen(folder->path); end > 1 && folder->path[end - 1] == '/'; end--)
        folder->path[end - 1] = 0;
    return STATUS_OK;
}

// runs/20261120-161500-lenet, with -2, -3, ... behind it when two runs start in one second.
static Status create_dated(RunFolder *folder, const char *label, Error *err) {
    time_t now = time(NULL);
    struct tm local;
    char date[32];
    strftime(date, sizeof date, "%Y%m%d-%H%M%S", localtime_r(&now, &local));
    if (make_folders("runs") < 0)
        return fail_errno(err, STATUS_CANTCREATE, "cannot create the folder runs here; give --out a place to write");
    for (int number = 1; number < 1000; number++) {
        char suffix[16] = "";
        if (number > 1) snprintf(suffix, sizeof suffix, "-%d", number);
        snprintf(folder->path, sizeof folder->path, "runs/%s-%s%s", date, label, suffix);
        if (mkdir(folder->path, 0777) == 0) return STATUS_OK;
        if (errno != EEXIST) break;
    }
    return fail_errno(err, STATUS_CANTCREATE, "cannot create the run folder %s", folder->path);
}

static Status make_checkpoints(RunFolder *folder, Error *err) {
    char name[RUN_PATH_BYTES];
    if (mkdir(run_folder_path(name, folder, "checkpoints"), 0777) == 0 || errno == EEXIST) return STATUS_OK;
    run_folder_close(folder);
    return fail_errno(err, STATUS_CANTCREATE, "cannot create %s", name);
}

Status run_folder_create(RunFolder *folder, const char *path, const char *label, Error *err) {
    folder->lock_fd = -1;
    folder->made = true;
    if (path[0]) {
        TRY(set_path(folder, path, err));
        folder->made = access(folder->path, F_OK) != 0;
        if (make_folders(folder->path) < 0)
            return fail_errno(err, STATUS_CANTCREATE, "cannot create the run folder %s", folder->path);
    } else {
        TRY(create_dated(folder, label, err));
    }
    TRY(lock(folder, err));
    char name[RUN_PATH_BYTES];
    if (access(run_folder_path(name, folder, "config.yaml"), F_OK) == 0) {
        run_folder_close(folder);
        return fail(err, STATUS_USAGE, "%s already holds a run; continue it with --resume %s, or give another --out",
                    folder->path, folder->path);
    }
    return make_checkpoints(folder, err);
}

Status run_folder_open(RunFolder *folder, const char *path, Error *err) {
    folder->lock_fd = -1;
    folder->made = false;
    TRY(set_path(folder, path, err));
    char name[RUN_PATH_BYTES];
    if (access(run_folder_path(name, folder, "config.yaml"), R_OK) < 0)
        return fail(err, STATUS_NOINPUT, "--resume %s: there is no run in that folder (config.yaml cannot be read: %s)",
                    path, strerror(errno));
    TRY(lock(folder, err));
    return make_checkpoints(folder, err);
}

const char *run_folder_path(char path[RUN_PATH_BYTES], const RunFolder *folder, const char *name) {
    snprintf(path, RUN_PATH_BYTES, "%s/%s", folder->path, name);
    return path;
}

Status run_folder_link_live(const RunFolder *folder, int weights_fd, Error *err) {
    char live[RUN_PATH_BYTES], link[RUN_PATH_BYTES], target[64];
    run_folder_path(live, folder, "live");
    run_folder_path(link, folder, "live/global.safetensors");
    snprintf(target, sizeof target, "/proc/%d/fd/%d", (int)getpid(), weights_fd);
    if (mkdir(live, 0777) < 0 && errno != EEXIST) return fail_errno(err, STATUS_CANTCREATE, "cannot create %s", live);
    unlink(link); // of a run that was killed
    if (symlink(target, link) < 0) return fail_errno(err, STATUS_CANTCREATE, "cannot create the link %s", link);
    return STATUS_OK;
}

void run_folder_unlink_live(const RunFolder *folder) {
    char name[RUN_PATH_BYTES];
    unlink(run_folder_path(name, folder, "live/global.safetensors"));
    rmdir(run_folder_path(name, folder, "live"));
}

void run_folder_discard(const RunFolder *folder) {
    char name[RUN_PATH_BYTES];
    if (!folder->made) return;
    rmdir(run_folder_path(name, folder, "checkpoints"));
    rmdir(folder->path);
}

void run_folder_close(RunFolder *folder) {
    if (folder->lock_fd >= 0) close(folder->lock_fd);
    folder->lock_fd = -1;
}
