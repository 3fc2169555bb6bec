#include "base/file.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

Status regular_file_open(FILE **file, const char *path, Error *err) {
    struct stat about;
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0) return fail_errno(err, STATUS_NOINPUT, "%.500s cannot be opened", path);
    if (fstat(fd, &about) == 0 && S_ISREG(about.st_mode) && (*file = fdopen(fd, "r"))) return STATUS_OK;
    close(fd);
    return fail(err, STATUS_NOINPUT, "%.500s is no regular file; save what it gives in one, and name that", path);
}

static bool has_mark(int fd, const char *mark, off_t at) {
    char found[32];
    const size_t bytes = strlen(mark);
    return bytes <= sizeof found && pread(fd, found, bytes, at) == (ssize_t)bytes && memcmp(found, mark, bytes) == 0;
}

Status output_file_open(FILE **file, const char *path, const char *mark, off_t at, Error *err) {
    struct stat about;
    const bool is_there = stat(path, &about) == 0 && S_ISREG(about.st_mode) && about.st_size > 0;
    const int old = is_there && mark ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    const bool is_other = old >= 0 && !has_mark(old, mark, at);
    if (old >= 0) close(old);
    if (is_other)
        return fail(err, STATUS_CANTCREATE,
                    "%.500s is a file of another kind, which would be lost; name a new file, or remove that one", path);
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0666);
    if (fd < 0 && errno == ENXIO)
        return fail(err, STATUS_CANTCREATE, "%.500s is a pipe that no program reads; name a file, or start the reader",
                    path);
    if (fd < 0) return fail_errno(err, STATUS_CANTCREATE, "%.500s cannot be made", path);
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK); // the reader of a pipe may be slow
    *file = fdopen(fd, "w");
    if (*file) return STATUS_OK;
    close(fd);
    return fail_errno(err, STATUS_OS, "%.500s cannot be written", path);
}

bool file_number(uint64_t *number, const char *path, const char *key, int base) {
    char line[256];
    bool found = false;
    const size_t length = strlen(key);
    FILE *file = fopen(path, "re");
    while (file && !found && fgets(line, sizeof line, file))
        found = strncmp(line, key, length) == 0 && isblank((unsigned char)line[length]);
    if (found) *number = strtoull(line + length, NULL, base);
    if (file) fclose(file);
    return found;
}

Status file_close(FILE *file, const char *path, Error *err) {
    struct stat about;
    const bool is_regular = fstat(fileno(file), &about) == 0 && S_ISREG(about.st_mode);
    const bool failed = fflush(file) != 0 || ferror(file);
    if (fclose(file) == 0 && !failed) return STATUS_OK;
    const Status status = fail_errno(err, STATUS_IO, "%.500s cannot be written", path);
    if (is_regular) unlink(path);
    return status;
}

size_t file_write_all(int fd, const void *bytes, size_t count) {
    size_t done = 0;
    while (done < count) {
        const ssize_t written = write(fd, (const char *)bytes + done, count - done); // after a part: the next tells why
        if (written < 0 && errno == EINTR) continue;
        if (written <= 0) break;
        done += (size_t)written;
    }
    return done;
}

bool program_is_on_path(const char *program) {
    const char *folders = getenv("PATH");
    char path[FOLDER_PATH_BYTES];
    for (const char *folder = folders ? folders : "/usr/bin:/bin"; *folder;) {
        const size_t length = strcspn(folder, ":");
        snprintf(path, sizeof path, "%.*s/%s", (int)length, folder, program);
        if (access(path, X_OK) == 0) return true;
        folder += length + (folder[length] == ':');
    }
    return false;
}

int make_folders(const char *path, mode_t mode) {
    char partial[FOLDER_PATH_BYTES];
    snprintf(partial, sizeof partial, "%s", path);
    for (char *end = partial + 1; *end; end++) {
        if (*end != '/') continue;
        *end = 0;
        if (mkdir(partial, mode) < 0 && errno != EEXIST) return -1;
        *end = '/';
    }
    return mkdir(partial, mode) < 0 && errno != EEXIST ? -1 : 0;
}
