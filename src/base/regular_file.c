#include "regular_file.h"

#include <fcntl.h>
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
