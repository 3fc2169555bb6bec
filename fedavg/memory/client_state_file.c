#include "client_state_file.h"

#include <assert.h>
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

// Rows begin on pages, so that a row is written without touching its neighbour's page, and a hole is a whole row.
ClientStatePlan client_state_plan(uint32_t rows, uint64_t floats) {
    assert(rows == 0 || floats > 0);
    const uint64_t bytes = floats * sizeof(float);
    return (ClientStatePlan){
        .rows = rows, .floats = floats, .row_bytes = (bytes + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES};
}

static uint64_t file_bytes(const ClientStatePlan *plan) {
    assert(plan->rows > 0 && plan->row_bytes % PAGE_BYTES == 0 && plan->row_bytes >= plan->floats * sizeof(float));
    return plan->rows * plan->row_bytes;
}

// The mapping reserves no memory: the file may have a row for each of millions of clients, most of which are holes.
static Status map(ClientStateFile *file, const char *name, Error *err) {
    const size_t bytes = file_bytes(&file->plan);
    file->mapping = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file->fd, 0);
    if (file->mapping != MAP_FAILED) return STATUS_OK;
    file->mapping = NULL;
    Status status = fail_errno(err, STATUS_OS, "mapping %zu bytes of %s", bytes, name);
    client_state_file_free(file);
    return status;
}

// The folder may come from elsewhere and have a link by this name; writing through a link is refused.
static Status open_in_folder(ClientStateFile *file, const Folder *folder, Error *err) {
    char path[FOLDER_PATH_BYTES];
    snprintf(path, sizeof path, "%s/" CLIENT_STATE_FILE_NAME, folder->path);
    file->fd = openat(folder->fd, CLIENT_STATE_FILE_NAME, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
    if (file->fd < 0 && errno == ELOOP)
        return fail(err, STATUS_USAGE, "%s is a link, which is not followed; put the file itself there", path);
    if (file->fd < 0) return fail_errno(err, STATUS_IO, "creating %s", path);
    return file_check_own(file->fd, path, err);
}

// The length that is found is remembered: a resume that is refused cuts the file back to it.
static Status make_long(ClientStateFile *file, Error *err) {
    struct stat about;
    const uint64_t bytes = file_bytes(&file->plan);
    const bool found = fstat(file->fd, &about) == 0;
    if (found) file->found_bytes = (uint64_t)about.st_size;
    if (found && (file->found_bytes >= bytes || ftruncate(file->fd, (off_t)bytes) == 0)) return STATUS_OK;
    return fail_errno(err, STATUS_IO, "making " CLIENT_STATE_FILE_NAME " %llu bytes long", (unsigned long long)bytes);
}

// Without a folder (a run that keeps no files) the rows are in memory without a name, which ends with the last process.
Status client_state_file_create(ClientStateFile *file, const ClientStatePlan *plan, const Folder *folder, Error *err) {
    *file = (ClientStateFile){.plan = *plan, .fd = -1};
    Status status = STATUS_OK;
    if (folder)
        status = open_in_folder(file, folder, err);
    else if ((file->fd = memfd_create(CLIENT_STATE_FILE_NAME, MFD_CLOEXEC)) < 0)
        status = fail_errno(err, STATUS_OS, "creating memory/" CLIENT_STATE_FILE_NAME);
    if (status == STATUS_OK) status = make_long(file, err);
    if (status == STATUS_OK) return map(file, CLIENT_STATE_FILE_NAME, err);
    client_state_file_free(file);
    return status;
}

Status client_state_file_map(ClientStateFile *file, const ClientStatePlan *plan, int fd, Error *err) {
    *file = (ClientStateFile){.plan = *plan, .fd = fd};
    return map(file, "what clients keep", err);
}

void client_state_file_free(ClientStateFile *file) {
    if (file->mapping) munmap(file->mapping, file_bytes(&file->plan));
    if (file->fd >= 0) close(file->fd);
    *file = (ClientStateFile){.fd = -1};
}

float *client_state_row(const ClientStateFile *file, uint32_t row) {
    assert(row < file->plan.rows || row == NO_CLIENT_STATE);
    assert(file->mapping || row == NO_CLIENT_STATE);
    return row == NO_CLIENT_STATE ? NULL : (float *)(void *)((uint8_t *)file->mapping + row * file->plan.row_bytes);
}

// A write that fails or ends early is repeated as a store, so that callers have no error to handle.
void client_state_row_write_bytes(const ClientStateFile *file, uint32_t row, size_t first, const void *values,
                                  size_t bytes) {
    const uint64_t at = row * file->plan.row_bytes + first;
    assert(row != NO_CLIENT_STATE && row < file->plan.rows); // row 0 reads as zeros for every client without state
    assert(first + bytes <= file->plan.row_bytes);
    if (pwrite(file->fd, values, bytes, (off_t)at) != (ssize_t)bytes)
        memcpy((uint8_t *)file->mapping + at, values, bytes);
}

void client_state_row_write(const ClientStateFile *file, uint32_t row, const float *values, size_t count) {
    assert(count <= file->plan.floats);
    client_state_row_write_bytes(file, row, 0, values, count * sizeof *values);
}

// Never 0. Unmaps the file's pages afterwards: a process that hashes all rows would otherwise end up with all of them
// in memory. Since the kernel maps more pages than are read, the whole file is unmapped, not only this row. The content
// stays in the file.
static uint32_t row_hash(const ClientStateFile *file, uint32_t row) {
    assert(row != NO_CLIENT_STATE);
    const uint32_t hash = (uint32_t)XXH3_64bits(client_state_row(file, row), file->plan.floats * sizeof(float));
    madvise(file->mapping, file_bytes(&file->plan), MADV_DONTNEED);
    return hash ? hash : 1;
}

// A table comes from a file, which may be damaged. Two clients with one row would overwrite each other's state in
// silence.
Status client_state_table_check(const uint32_t *table, const ClientStatePlan *plan, uint32_t clients, Error *err) {
    const uint32_t used = table[0], *rows = table + 1;
    if (used == 0 || used > plan->rows)
        return fail(err, STATUS_DATA, "it says that %u rows are in use, of the %u that this run has", used, plan->rows);
    bool *is_taken = calloc(used, sizeof *is_taken);
    if (!is_taken) return fail(err, STATUS_OS, "no memory for a list of %u rows", used);
    Status status = STATUS_OK;
    for (uint32_t client = 0; client < clients && status == STATUS_OK; client++) {
        const uint32_t row = rows[client];
        if (row == NO_CLIENT_STATE) continue;
        if (row >= used || is_taken[row])
            status = fail(err, STATUS_DATA, "it gives client %u the row %u, which %s", client, row,
                          row >= used ? "is none of those in use" : "another client has");
        else
            is_taken[row] = true;
    }
    free(is_taken);
    return status;
}

// A hash of 0 says that the row is new. Rows of a client change only with a new row, so that old hashes stay valid.
void client_state_file_hash(uint32_t *table, const ClientStateFile *file, uint32_t clients) {
    const uint32_t *rows = table + 1;
    uint32_t *hashes = table + 1 + clients;
    for (uint32_t client = 0; client < clients; client++)
        if (rows[client] != NO_CLIENT_STATE && hashes[client] == 0) hashes[client] = row_hash(file, rows[client]);
}

// Rows of clients without a turn have no hash: nothing was written that could differ.
bool client_state_file_is_as_hashed(uint32_t *client, const uint32_t *table, const ClientStateFile *file,
                                    uint32_t clients) {
    const uint32_t *rows = table + 1, *hashes = table + 1 + clients;
    for (*client = 0; *client < clients; ++*client)
        if (rows[*client] != NO_CLIENT_STATE && hashes[*client] != row_hash(file, rows[*client])) return false;
    return true;
}

// A store into a hole of a mapped file on a full disk is a SIGBUS, for which a worker has no answer.
Status client_state_file_reserve(const ClientStateFile *file, uint32_t row, Error *err) {
    assert(file->fd >= 0 && row != NO_CLIENT_STATE && row < file->plan.rows);
    int error = posix_fallocate(file->fd, (off_t)(row * file->plan.row_bytes), (off_t)file->plan.row_bytes);
    if (error == 0) return STATUS_OK;
    errno = error;
    return fail_errno(err, STATUS_IO, "%llu bytes for what a client keeps, in " CLIENT_STATE_FILE_NAME,
                      (unsigned long long)file->plan.row_bytes);
}

// A failure is only a warning: the holes at the end of a file that is too long cost nothing.
void client_state_file_leave(const ClientStateFile *file) {
    if (ftruncate(file->fd, (off_t)file->found_bytes) != 0)
        log_warning(CLIENT_STATE_FILE_NAME " cannot be made %llu bytes long again",
                    (unsigned long long)file->found_bytes);
}

Status client_state_file_sync(const ClientStateFile *file, Error *err) {
    if (file->fd < 0 || fdatasync(file->fd) == 0) return STATUS_OK;
    return fail_errno(err, STATUS_IO, "writing what clients keep to the disk");
}
