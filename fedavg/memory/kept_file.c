#include "kept_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "fedavg/memory/fingerprint.h"

enum { PAGE_BYTES = 4096 };

KeptPlan kept_plan(uint32_t rows, uint64_t floats) {
    const uint64_t bytes = floats * sizeof(float);
    return (KeptPlan){.rows = rows, .floats = floats, .row_bytes = (bytes + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES};
}

static uint64_t file_bytes(const KeptPlan *plan) {
    return plan->rows * plan->row_bytes;
}

static Status map(KeptFile *file, const char *name, Error *err) {
    const size_t bytes = file_bytes(&file->plan);
    file->mapping = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file->fd, 0);
    if (file->mapping != MAP_FAILED) return STATUS_OK;
    file->mapping = NULL;
    Status status = fail_errno(err, STATUS_OS, "mapping %zu bytes of %s", bytes, name);
    kept_file_free(file);
    return status;
}

static Status open_file(KeptFile *file, const Folder *folder, Error *err) {
    file->fd = folder ? openat(folder->fd, KEPT_FILE_NAME, O_RDWR | O_CREAT | O_CLOEXEC, 0600)
                      : memfd_create(KEPT_FILE_NAME, MFD_CLOEXEC);
    if (file->fd >= 0) return STATUS_OK;
    return fail_errno(err, folder ? STATUS_IO : STATUS_OS, "creating %s/" KEPT_FILE_NAME,
                      folder ? folder->path : "memory");
}

Status kept_file_create(KeptFile *file, const KeptPlan *plan, const Folder *folder, Error *err) {
    *file = (KeptFile){.plan = *plan, .fd = -1};
    struct stat about;
    TRY(open_file(file, folder, err));
    const bool found = fstat(file->fd, &about) == 0;
    if (found) file->found_bytes = (uint64_t)about.st_size;
    if (found && ((uint64_t)about.st_size >= file_bytes(plan) || ftruncate(file->fd, (off_t)file_bytes(plan)) == 0))
        return map(file, KEPT_FILE_NAME, err);
    Status status =
        fail_errno(err, STATUS_IO, "making " KEPT_FILE_NAME " %llu bytes long", (unsigned long long)file_bytes(plan));
    kept_file_free(file);
    return status;
}

Status kept_file_map(KeptFile *file, const KeptPlan *plan, int fd, Error *err) {
    *file = (KeptFile){.plan = *plan, .fd = fd};
    return map(file, "what clients keep", err);
}

void kept_file_free(KeptFile *file) {
    if (file->mapping) munmap(file->mapping, file_bytes(&file->plan));
    if (file->fd >= 0) close(file->fd);
    *file = (KeptFile){.fd = -1};
}

float *kept_row(const KeptFile *file, uint32_t row) {
    return row == KEPT_NO_ROW ? NULL : (float *)(void *)((uint8_t *)file->mapping + row * file->plan.row_bytes);
}

void kept_row_write(const KeptFile *file, uint32_t row, const float *values, size_t count) {
    const size_t bytes = count * sizeof *values;
    if (pwrite(file->fd, values, bytes, (off_t)(row * file->plan.row_bytes)) != (ssize_t)bytes)
        memcpy(kept_row(file, row), values, bytes);
}

// Never 0. A process that hashes all rows of a run would otherwise have them all in its memory; and as the kernel maps
// more of a file than is read, all of it is taken out again, not this row alone. Nothing is lost: it is a file's.
static uint32_t row_hash(const KeptFile *file, uint32_t row) {
    const uint32_t hash = (uint32_t)XXH3_64bits(kept_row(file, row), file->plan.floats * sizeof(float));
    madvise(file->mapping, file_bytes(&file->plan), MADV_DONTNEED);
    return hash ? hash : 1;
}

void kept_file_hash(uint32_t *table, const KeptFile *file, uint32_t clients) {
    const uint32_t *rows = table + 1;
    uint32_t *hashes = table + 1 + clients;
    for (uint32_t client = 0; client < clients; client++)
        if (rows[client] != KEPT_NO_ROW && hashes[client] == 0) hashes[client] = row_hash(file, rows[client]);
}

bool kept_file_is_as_hashed(uint32_t *client, const uint32_t *table, const KeptFile *file, uint32_t clients) {
    const uint32_t *rows = table + 1, *hashes = table + 1 + clients;
    for (*client = 0; *client < clients; ++*client)
        if (rows[*client] != KEPT_NO_ROW && hashes[*client] != row_hash(file, rows[*client])) return false;
    return true;
}

Status kept_file_reserve(const KeptFile *file, uint32_t row, Error *err) {
    int error = posix_fallocate(file->fd, (off_t)(row * file->plan.row_bytes), (off_t)file->plan.row_bytes);
    if (error == 0) return STATUS_OK;
    errno = error;
    return fail_errno(err, STATUS_IO, "%llu bytes for what a client keeps, in " KEPT_FILE_NAME,
                      (unsigned long long)file->plan.row_bytes);
}

void kept_file_leave(const KeptFile *file) {
    if (ftruncate(file->fd, (off_t)file->found_bytes) != 0)
        log_warning(KEPT_FILE_NAME " cannot be made %llu bytes long again", (unsigned long long)file->found_bytes);
}

Status kept_file_sync(const KeptFile *file, Error *err) {
    if (file->fd < 0 || fdatasync(file->fd) == 0) return STATUS_OK;
    return fail_errno(err, STATUS_IO, "writing what clients keep to the disk");
}
