#include "io/durable.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <nettle/base16.h>
#include <nettle/sha2.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static int write_all(int file, const FilePart *part) {
    const uint8_t *next = part->bytes;
    for (size_t left = part->count; left > 0;) {
        ssize_t written = write(file, next, left);
        if (written < 0 && errno == EINTR) continue;
        if (written < 0) return -1;
        next += written;
        left -= (size_t)written;
    }
    return 0;
}

// Writes and syncs the temporary file. Returns 0, or -1 with errno.
static int write_temporary(int folder, const char *name, const FilePart *parts, size_t part_count) {
    // An existing file of this name may have other names (hard links), so it is replaced, not written into.
    if (unlinkat(folder, name, 0) != 0 && errno != ENOENT) return -1;
    int file = openat(folder, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (file < 0) return -1;
    int result = 0;
    for (size_t i = 0; i < part_count && result == 0; i++)
        result = write_all(file, &parts[i]);
    if (result == 0) result = fsync(file);
    int saved_errno = errno;
    int closed = close(file);
    if (result != 0) errno = saved_errno;
    return result != 0 ? result : closed;
}

Status durable_write(const Folder *folder, const char *name, const FilePart *parts, size_t part_count, Error *err) {
    char temporary[NAME_MAX + 1];
    if ((size_t)snprintf(temporary, sizeof temporary, ".%s.partial", name) >= sizeof temporary)
        return fail(err, STATUS_IO, "%s/%s: the file's name is too long", folder->path, name);
    if (write_temporary(folder->fd, temporary, parts, part_count) != 0 ||
        renameat(folder->fd, temporary, folder->fd, name) != 0) {
        Status status = fail_errno(err, STATUS_IO, "%s/%s cannot be written", folder->path, name);
        unlinkat(folder->fd, temporary, 0);
        return status;
    }
    if (fsync(folder->fd) == 0) return STATUS_OK;
    return fail_errno(err, STATUS_IO, "%s/%s is written, but its folder cannot be synced", folder->path, name);
}

Status file_check_own(int fd, const char *path, Error *err) {
    struct stat about;
    if (fstat(fd, &about) != 0) return fail_errno(err, STATUS_IO, "%s cannot be read", path);
    const char *why = !S_ISREG(about.st_mode)     ? "is no regular file"
                      : about.st_uid != geteuid() ? "belongs to another user"
                      : about.st_nlink > 1        ? "has another name, under which it would change, too"
                                                  : NULL;
    if (!why) return STATUS_OK;
    return fail(err, STATUS_USAGE, "%s %s; put a copy of your own in its place (cp, then mv)", path, why);
}

void sha256_hex(char hex[65], const FilePart *parts, size_t part_count) {
    struct sha256_ctx context;
    uint8_t digest[SHA256_DIGEST_SIZE];
    sha256_init(&context);
    for (size_t i = 0; i < part_count; i++)
        sha256_update(&context, parts[i].count, parts[i].bytes);
    sha256_digest(&context, sizeof digest, digest);
    base16_encode_update(hex, sizeof digest, digest);
    hex[64] = '\0';
}

bool file_has_sha256(const Folder *folder, const char *name, const char *hex) {
    struct stat about;
    char found[65] = "";
    const int fd = openat(folder->fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) return false;
    const size_t bytes = fstat(fd, &about) == 0 && S_ISREG(about.st_mode) ? (size_t)about.st_size : 0;
    void *mapping = bytes > 0 ? mmap(NULL, bytes, PROT_READ, MAP_PRIVATE, fd, 0) : MAP_FAILED;
    if (mapping != MAP_FAILED) {
        sha256_hex(found, &(FilePart){mapping, bytes}, 1);
        munmap(mapping, bytes);
    }
    close(fd);
    return strcmp(found, hex) == 0;
}

int make_folders(const char *path) {
    char partial[FOLDER_PATH_BYTES];
    snprintf(partial, sizeof partial, "%s", path);
    for (char *end = partial + 1; *end; end++) {
        if (*end != '/') continue;
        *end = 0;
        if (mkdir(partial, 0777) < 0 && errno != EEXIST) return -1;
        *end = '/';
    }
    return mkdir(partial, 0777) < 0 && errno != EEXIST ? -1 : 0;
}
