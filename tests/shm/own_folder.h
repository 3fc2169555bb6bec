// A /dev/shm of the process's own, which holds nothing of others: in namespaces of its own, where that is allowed.
#ifndef SOUNDER_TESTS_SHM_OWN_FOLDER_H
#define SOUNDER_TESTS_SHM_OWN_FOLDER_H

#include <fcntl.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>

static inline bool own_folder_write(const char *path, const char *text) {
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    bool ok = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
    if (fd >= 0) close(fd);
    return ok;
}

// Who is not root may mount in a namespace of users, and make files there if the namespace knows him.
static inline bool own_folder_namespace(void) {
    char uid[64], gid[64];
    snprintf(uid, sizeof uid, "%u %u 1", getuid(), getuid());
    snprintf(gid, sizeof gid, "%u %u 1", getgid(), getgid());
    if (unshare(CLONE_NEWNS) == 0) return true;
    return unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0 && own_folder_write("/proc/self/setgroups", "deny") &&
           own_folder_write("/proc/self/uid_map", uid) && own_folder_write("/proc/self/gid_map", gid);
}

// Any other folder likewise. options: of the tmpfs, "size=1m"; NULL: none.
static inline bool own_folder_at(const char *path, const char *options) {
    return own_folder_namespace() && mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
           mount("tmpfs", path, "tmpfs", 0, options) == 0;
}

static inline bool own_folder(const char *options) {
    return own_folder_at("/dev/shm", options);
}

#endif
