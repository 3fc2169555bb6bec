#include "kept_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
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

// A folder from elsewhere may hold a link by this name: nothing is written through one.
static Status open_in_folder(KeptFile *file, const Folder *folder, Error *err) {
    char path[FOLDER_PATH_BYTES];
    snprintf(path, sizeof path, "%s/" KEPT_FILE_NAME, folder->path);
    file->fd = openat(folder->fd, KEPT_FILE_NAME, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
    if (file->fd < 0 && errno == ELOOP)
        return fail(err, STATUS_USAGE, "%s is a link, which is not followed; put the file itself there", path);
    if (file->fd < 0) return fail_errno(err, STATUS_IO, "creating %s", path);
    return file_check_own(file->fd, path, err);
}

static Status open_file(KeptFile *file, const Folder *folder, Error *err) {
    if (folder) return open_in_folder(file, folder, err);
    file->fd = memfd_create(KEPT_FILE_NAME, MFD_CLOEXEC);
    return file->fd >= 0 ? STATUS_OK : fail_errno(err, STATUS_OS, "creating memory/" KEPT_FILE_NAME);
}

static Status make_long(KeptFile *file, Error *err) {
    struct stat about;
    const uint64_t bytes = file_bytes(&file->plan);
    const bool found = fstat(file->fd, &about) == 0;
    if (found) file->found_bytes = (uint64_t)about.st_size;
    if (found && (file->found_bytes >= bytes || ftruncate(file->fd, (off_t)bytes) == 0)) return STATUS_OK;
    return fail_errno(err, STATUS_IO, "making " KEPT_FILE_NAME " %llu bytes long", (unsigned long long)bytes);
}

Status kept_file_create(KeptFile *file, const KeptPlan *plan, const Folder *folder, Error *err) {
    *file = (KeptFile){.plan = *plan, .fd = -1};
    Status status = open_file(file, folder, err);
    if (status == STATUS_OK) status = make_long(file, err);
    if (status == STATUS_OK) return map(file, KEPT_FILE_NAME, err);
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

Status kept_table_check(const uint32_t *table, const KeptPlan *plan, uint32_t clients, Error *err) {
    const uint32_t used = table[0], *rows = table + 1;
    if (used == 0 || used > plan->rows)
        return fail(err, STATUS_DATA, "it says that %u rows are in use, of the %u that this run has", used, plan->rows);
    bool *is_taken = calloc(used, sizeof *is_taken);
    if (!is_taken) return fail(err, STATUS_OS, "no memory for a list of %u rows", used);
    Status status = STATUS_OK;
    for (uint32_t client = 0; client < clients && status == STATUS_OK; client++) {
        const uint32_t row = rows[client];
        if (row == KEPT_NO_ROW) continue;
        if (row >= used || is_taken[row])
            status = fail(err, STATUS_DATA, "it gives client %u the row %u, which %s", client, row,
                          row >= used ? "is none of those in use" : "another client has");
        else
            is_taken[row] = true;
    }
    free(is_taken);
    return status;
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
