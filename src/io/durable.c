#include "io/durable.h"

#include <assert.h>
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

#include "base/log.h"

// Writes and syncs the temporary file. Returns 0, or -1 with errno.
static int write_temporary(int folder, const char *name, mode_t mode, const FilePart *parts, size_t part_count) {
    // An existing file of this name may have other names (hard links), so it is replaced, not written into.
    if (unlinkat(folder, name, 0) != 0 && errno != ENOENT) return -1;
    int file = openat(folder, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
    if (file < 0) return -1;
    bool good = true;
    for (size_t i = 0; i < part_count && good; i++)
        good = file_write_all(file, parts[i].bytes, parts[i].count) == parts[i].count;
    good = good && fsync(file) == 0;
    const int why = errno, closed = close(file);
    if (good) return closed;
    errno = why;
    return -1;
}

Status durable_write(const Folder *folder, const char *name, const FilePart *parts, size_t part_count, Error *err) {
    return durable_write_as(folder, name, 0666, parts, part_count, err);
}

Status durable_write_as(const Folder *folder, const char *name, mode_t mode, const FilePart *parts, size_t part_count,
                        Error *err) {
    char temporary[NAME_MAX + 1];
    assert(*name && !strchr(name, '/')); // a name in the folder, whose rename is atomic
    if ((size_t)snprintf(temporary, sizeof temporary, ".%s.partial", name) >= sizeof temporary)
        return fail(err, STATUS_IO, "%s/%s: the file's name is too long", folder->path, name);
    if (write_temporary(folder->fd, temporary, mode, parts, part_count) != 0 ||
        renameat(folder->fd, temporary, folder->fd, name) != 0) {
        Status status = fail_errno(err, STATUS_IO, "%s/%s cannot be written", folder->path, name);
        unlinkat(folder->fd, temporary, 0);
        return status;
    }
    if (fsync(folder->fd) == 0) return STATUS_OK;
    return fail_errno(err, STATUS_IO, "%s/%s is written, but its folder cannot be synced", folder->path, name);
}

static Status write_parts(const char *path, const char *mark, off_t at, const FilePart *parts, size_t part_count,
                          Error *err) {
    FILE *file;
    TRY(output_file_open(&file, path, mark, at, err));
    for (size_t i = 0; i < part_count; i++)
        fwrite(parts[i].bytes, 1, parts[i].count, file);
    return file_close(file, path, err);
}

Status file_write(const char *path, const FilePart *parts, size_t part_count, Error *err) {
    return write_parts(path, NULL, 0, parts, part_count, err);
}

// After the length of its header the JSON begins.
Status file_write_safetensors(const char *path, const FilePart *parts, size_t part_count, Error *err) {
    return write_parts(path, "{\"", sizeof(uint64_t), parts, part_count, err);
}

Status file_append(int fd, const char *path, const char *what, const void *bytes, size_t count, Error *err) {
    assert(fd >= 0 && count > 0);
    const off_t before = lseek(fd, 0, SEEK_END);
    const size_t written = file_write_all(fd, bytes, count);
    if (written == count) return STATUS_OK;
    Status status = fail_errno(err, STATUS_IO, "%s: %s cannot be written", path, what);
    if (before >= 0 && written > 0 && ftruncate(fd, before) != 0) log_warning("%s: its end stays torn", path);
    return status;
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
    assert(strlen(hex) == 64);
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
