#include "temporary_folder.h"

#include <errno.h>
#include <ftw.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static int remove_one(const char *path, const struct stat *about, int type, struct FTW *walk) {
    (void)about, (void)type, (void)walk;
    return remove(path);
}

// Body of the process that makes the folder, and removes it when the other end of fd is closed. It reports errno (0 for
// success) and the folder's name.
static _Noreturn void keep_folder(char *path, size_t bytes, int fd) {
    sigset_t all;
    char byte;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL); // a signal that ends the parent is sent to this process, too
    const int error = mkdtemp(path) ? 0 : errno;
    const bool told = write(fd, &error, sizeof error) == sizeof error && write(fd, path, bytes) == (ssize_t)bytes;
    while (told && read(fd, &byte, 1) < 0 && errno == EINTR)
        ;
    _exit(error == 0 && nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS) == 0 ? 0 : 1);
}

// Another process makes the folder and removes it however this one ends. If this process made it, a kill right after
// would leave the folder.
Status temporary_folder_make(TemporaryFolder *folder, const char *name, Error *err) {
    const char *place = getenv("TMPDIR");
    int ends[2], error = 0;
    *folder = (TemporaryFolder){0};
    snprintf(folder->path, sizeof folder->path, "%.900s/sounder-%s-XXXXXX", place && *place ? place : "/tmp", name);
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        return fail_errno(err, STATUS_OS, "no socket to the process that keeps a temporary folder");
    folder->remover = fork();
    if (folder->remover == 0) {
        close(ends[1]);
        keep_folder(folder->path, sizeof folder->path, ends[0]);
    }
    if (folder->remover < 0) error = errno, folder->remover = 0;
    close(ends[0]);
    folder->life_fd = ends[1];
    if (folder->remover > 0 && recv(ends[1], &error, sizeof error, MSG_WAITALL) == sizeof error && error == 0 &&
        recv(ends[1], folder->path, sizeof folder->path, MSG_WAITALL) == sizeof folder->path)
        return STATUS_OK;
    temporary_folder_remove(folder);
    errno = error;
    return fail_errno(err, STATUS_CANTCREATE, "no temporary folder can be made as %s", folder->path);
}

void temporary_folder_remove(TemporaryFolder *folder) {
    int status;
    if (folder->life_fd > 0) close(folder->life_fd);
    while (folder->remover > 0 && waitpid(folder->remover, &status, 0) < 0 && errno == EINTR)
        ;
    folder->life_fd = folder->remover = 0;
}
