#include "run_folder.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#include "app/train/run_schedule.h"
#include "base/log.h"
#include "base/text.h"
#include "fedavg/memory/client_state_file.h"
#include "fedavg/trainer/output.h"
#include "io/durable.h"

static const char CONFIG[] = "config.yaml", CHECKPOINTS[] = "checkpoints", LIVE[] = "live";
static const char WEIGHTS_LINK[] = "global.safetensors", CONTROL_LINK[] = "control"; // in live/

// Another user's folder may contain links that lead files of this run elsewhere, and that user can change it at any
// time.
static Status check_owner(const RunFolder *folder, Error *err) {
    struct stat about;
    if (fstat(folder->lock_fd, &about) != 0) return fail_errno(err, STATUS_IO, "the run folder %s", folder->path);
    if (about.st_uid == geteuid()) return STATUS_OK;
    return fail(err, STATUS_USAGE, "%s belongs to another user (uid %u); give a folder of your own", folder->path,
                (unsigned)about.st_uid);
}

// Returns the process that has locked the folder, from the kernel's table; 0: unknown (it is on another machine or in
// another PID namespace, or the file system reports other numbers there).
static int lock_holder(int fd) {
    struct stat about;
    char line[256];
    int holder = 0;
    FILE *locks = fopen("/proc/locks", "re");
    while (locks && holder == 0 && fstat(fd, &about) == 0 && fgets(line, sizeof line, locks)) {
        int pid;
        unsigned device[2];
        unsigned long inode;
        const int fields = sscanf(line, "%*d: FLOCK %*s WRITE %d %x:%x:%lu", &pid, &device[0], &device[1], &inode);
        if (fields == 4 && inode == about.st_ino && makedev(device[0], device[1]) == about.st_dev) holder = pid;
    }
    if (locks) fclose(locks);
    return holder;
}

// way_out: what a user can do about a folder in use besides waiting.
static Status lock(RunFolder *folder, const char *way_out, Error *err) {
    folder->lock_fd = open(folder->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder->lock_fd < 0) return fail_errno(err, STATUS_NOINPUT, "cannot open the run folder %s", folder->path);
    // A process that checks whether a run is active (look/past_run.c) holds the lock for microseconds.
    enum { TRIES = 5, MILLISECONDS = 10 };
    bool locked = flock(folder->lock_fd, LOCK_EX | LOCK_NB) == 0;
    for (int i = 1; i < TRIES && !locked && errno == EWOULDBLOCK; i++) {
        nanosleep(&(struct timespec){.tv_nsec = MILLISECONDS * 1000000L}, NULL);
        locked = flock(folder->lock_fd, LOCK_EX | LOCK_NB) == 0;
    }
    if (locked) return check_owner(folder, err);
    if (errno != EWOULDBLOCK) return fail_errno(err, STATUS_IO, "cannot lock the run folder %s", folder->path);
    char process[32] = "";
    const int holder = lock_holder(folder->lock_fd);
    if (holder > 0) snprintf(process, sizeof process, " (process %d)", holder);
    return fail(err, STATUS_USAGE, "%s is in use by another run%s; wait for it to end%s", folder->path, process,
                way_out);
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

// Creates runs/20261120-161500-lenet, or a name with -2, -3, ... if two runs start in one second.
static Status create_dated(RunFolder *folder, const char *label, Error *err) {
    time_t now = time(NULL);
    struct tm local;
    char date[32];
    strftime(date, sizeof date, "%Y%m%d-%H%M%S", localtime_r(&now, &local));
    if (make_folders("runs", 0777) < 0)
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

static Status open_checkpoints(RunFolder *folder, Error *err) {
    folder->made_checkpoints = mkdirat(folder->lock_fd, CHECKPOINTS, 0777) == 0;
    if (folder->made_checkpoints || errno == EEXIST)
        folder->checkpoints_fd = openat(folder->lock_fd, CHECKPOINTS, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (folder->checkpoints_fd >= 0) return STATUS_OK;
    return fail_errno(err, STATUS_CANTCREATE, "cannot create %s/%s", folder->path, CHECKPOINTS);
}

bool run_folder_has(const RunFolder *folder, const char *name) {
    struct stat about;
    return fstatat(folder->lock_fd, name, &about, AT_SYMLINK_NOFOLLOW) == 0;
}

// A run that is killed before its config.yaml is written leaves an empty checkpoints/, and a client state file that has
// its length but no rows yet.
static bool remove_empty(const RunFolder *folder, const char *name) {
    struct stat about;
    if (strcmp(name, CHECKPOINTS) == 0) return unlinkat(folder->lock_fd, CHECKPOINTS, AT_REMOVEDIR) == 0;
    return strcmp(name, CLIENT_STATE_FILE_NAME) == 0 &&
           fstatat(folder->lock_fd, name, &about, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(about.st_mode) &&
           about.st_blocks == 0 && unlinkat(folder->lock_fd, name, 0) == 0;
}

// A run deletes nothing that another program has written, so none of its names may exist. trainer.log may: a failed try
// leaves one, to which the next try appends.
static Status check_names(const RunFolder *folder, Error *err) {
    static const char *const names[] = {
        "metrics.jsonl",    MODEL_NAME, "cluster-0.safetensors", BEST_MODEL_NAME, CLIENT_STATE_FILE_NAME,
        SCHEDULE_FILE_NAME, "live",     "tensorboard",           "checkpoints"};
    char word[SHELL_WORD_BYTES];
    if (run_folder_has(folder, CONFIG))
        return fail(err, STATUS_USAGE, "%s already holds a run; continue it with --resume %s, or give another --out",
                    folder->path, shell_path(word, folder->path));
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (!run_folder_has(folder, names[i]) || remove_empty(folder, names[i])) continue;
        return fail(err, STATUS_USAGE,
                    "%s holds %s, which a new run would write over; give another --out, or take it away", folder->path,
                    names[i]);
    }
    return STATUS_OK;
}

static Status begin_new(RunFolder *folder, Error *err) {
    TRY(lock(folder, ", or give another --out", err));
    TRY(check_names(folder, err));
    return open_checkpoints(folder, err);
}

static Status make_folder(RunFolder *folder, const char *path, const char *label, Error *err) {
    folder->made = true;
    if (!path[0]) return create_dated(folder, label, err);
    TRY(set_path(folder, path, err));
    folder->made = access(folder->path, F_OK) != 0;
    if (make_folders(folder->path, 0777) == 0) return STATUS_OK;
    return fail_errno(err, STATUS_CANTCREATE, "cannot create the run folder %s", folder->path);
}

Status run_folder_create(RunFolder *folder, const char *path, const char *label, Error *err) {
    *folder = (RunFolder){.lock_fd = -1, .checkpoints_fd = -1};
    TRY(make_folder(folder, path, label, err));
    Status status = begin_new(folder, err);
    if (status == STATUS_OK) return STATUS_OK;
    if (folder->made) rmdir(folder->path);
    run_folder_close(folder);
    return status;
}

Status run_folder_open(RunFolder *folder, const char *path, Error *err) {
    *folder = (RunFolder){.lock_fd = -1, .checkpoints_fd = -1};
    TRY(set_path(folder, path, err));
    char name[RUN_PATH_BYTES];
    snprintf(name, sizeof name, "%s/%s", folder->path, CONFIG);
    if (access(name, R_OK) < 0)
        return fail_errno(err, STATUS_NOINPUT,
                          "--resume %s: there is no run in that folder (config.yaml cannot be read)", path);
    Status status = lock(folder, "", err);
    if (status == STATUS_OK) status = open_checkpoints(folder, err);
    if (status != STATUS_OK) run_folder_close(folder);
    return status;
}

Folder run_folder_at(const RunFolder *folder) {
    return (Folder){.fd = folder->lock_fd, .path = folder->path};
}

Status run_folder_check(const RunFolder *folder, Error *err) {
    struct stat ours, found;
    char link[64], place[RUN_PATH_BYTES], word[SHELL_WORD_BYTES];
    if (fstat(folder->lock_fd, &ours) != 0) return fail_errno(err, STATUS_IO, "the run folder %s", folder->path);
    if (stat(folder->path, &found) == 0 && found.st_dev == ours.st_dev && found.st_ino == ours.st_ino) return STATUS_OK;
    snprintf(link, sizeof link, "/proc/self/fd/%d", folder->lock_fd);
    ssize_t length = ours.st_nlink > 0 ? readlink(link, place, sizeof place - 1) : -1;
    if (length < 0)
        return fail(err, STATUS_IO, "the run folder %s was removed while the run was using it; nothing is left of it",
                    folder->path);
    place[length] = '\0';
    return fail(
        err, STATUS_IO,
        "the run folder %s was moved to %s while the run was using it; continue with: sounder train --resume %s",
        folder->path, place, shell_path(word, place));
}

static Status link_descriptor(int live_fd, const char *name, int fd, const RunFolder *folder, Error *err) {
    char target[64];
    snprintf(target, sizeof target, "/proc/%d/fd/%d", (int)getpid(), fd);
    unlinkat(live_fd, name, 0); // left over from a killed run
    if (symlinkat(target, live_fd, name) == 0) return STATUS_OK;
    return fail_errno(err, STATUS_CANTCREATE, "cannot create the link %s/%s/%s", folder->path, LIVE, name);
}

// Follows no link, which may lead to files of these names in another user's folder.
static int open_live(const RunFolder *folder) {
    return openat(folder->lock_fd, LIVE, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

Status run_folder_link_live(const RunFolder *folder, int weights_fd, int control_fd, Error *err) {
    const int made = mkdirat(folder->lock_fd, LIVE, 0777);
    const int live_fd = made == 0 || errno == EEXIST ? open_live(folder) : -1;
    if (live_fd < 0) return fail_errno(err, STATUS_CANTCREATE, "cannot create %s/%s", folder->path, LIVE);
    Status status = link_descriptor(live_fd, WEIGHTS_LINK, weights_fd, folder, err);
    if (status == STATUS_OK) status = link_descriptor(live_fd, CONTROL_LINK, control_fd, folder, err);
    close(live_fd);
    return status;
}

// A file system of another machine may be interrupted.
static bool remove_name(int folder, const char *name, int flags) {
    int status;
    do
        status = unlinkat(folder, name, flags);
    while (status != 0 && errno == EINTR);
    return status == 0 || errno == ENOENT;
}

void run_folder_unlink_live(const RunFolder *folder) {
    const int live_fd = open_live(folder);
    if (live_fd < 0) return;
    remove_name(live_fd, WEIGHTS_LINK, 0); // if one of them stays, so does the folder
    remove_name(live_fd, CONTROL_LINK, 0);
    if (!remove_name(folder->lock_fd, LIVE, AT_REMOVEDIR))
        log_warning("%s/%s stays, with links that lead nowhere: %s", folder->path, LIVE, strerror(errno));
    close(live_fd);
}

// Another program may have made the file, as a shell does with the output of this process.
static void remove_log(const RunFolder *folder, bool keep) {
    struct stat about;
    if (!folder->made_log) return;
    if (!keep || (fstatat(folder->lock_fd, TRAINER_LOG_NAME, &about, AT_SYMLINK_NOFOLLOW) == 0 && about.st_size == 0))
        unlinkat(folder->lock_fd, TRAINER_LOG_NAME, 0);
}

void run_folder_discard(const RunFolder *folder, bool keep_log) {
    run_folder_unlink_live(folder);
    unlinkat(folder->lock_fd, CONFIG, 0);
    unlinkat(folder->lock_fd, "metrics.jsonl", 0);
    unlinkat(folder->lock_fd, CLIENT_STATE_FILE_NAME, 0);
    unlinkat(folder->lock_fd, SCHEDULE_FILE_NAME, 0);
    remove_log(folder, keep_log);
    if (folder->made_checkpoints) unlinkat(folder->lock_fd, CHECKPOINTS, AT_REMOVEDIR);
    if (folder->made && run_folder_check(folder, NULL) == STATUS_OK) rmdir(folder->path);
}

void run_folder_close(RunFolder *folder) {
    if (folder->checkpoints_fd >= 0) close(folder->checkpoints_fd);
    if (folder->lock_fd >= 0) close(folder->lock_fd);
    folder->lock_fd = folder->checkpoints_fd = -1;
}
