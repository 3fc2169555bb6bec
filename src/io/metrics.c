#include "io/metrics.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "io/durable.h"
#include "io/json.h"

// Does a run that goes on after `rounds_done` rounds keep this line? Not if it is torn, tells of a later round or sums
// the run up.
static bool is_kept(const char *line, size_t bytes, uint32_t rounds_done, const char *path, uint64_t first_byte) {
    Error err;
    json_t *object;
    if (line[bytes - 1] != '\n') return false;
    if (json_read_object(&object, line, bytes, path, first_byte, &err) != STATUS_OK) {
        log_warning("%s; the line is removed", err.message);
        return false;
    }
    const json_t *round = json_object_get(object, "round");
    const char *type = json_string_value(json_object_get(object, "type"));
    bool later = json_is_integer(round) && json_integer_value(round) > (json_int_t)rounds_done;
    bool summary = type && strcmp(type, "summary") == 0;
    json_decref(object);
    return !later && !summary;
}

// Copies the lines to keep from file to a malloc'ed text; false without memory or when reading fails, with errno.
static bool filter_lines(char **kept, size_t *kept_bytes, uint64_t *file_bytes, FILE *file, uint32_t rounds_done,
                         const char *path) {
    char *line = NULL;
    size_t capacity = 0;
    ssize_t bytes;
    *kept = NULL;
    *file_bytes = 0;
    FILE *out = open_memstream(kept, kept_bytes);
    if (!out) return false;
    while ((bytes = getline(&line, &capacity, file)) > 0) {
        if (is_kept(line, (size_t)bytes, rounds_done, path, *file_bytes)) fwrite(line, 1, (size_t)bytes, out);
        *file_bytes += (uint64_t)bytes;
    }
    bool good = feof(file) && !ferror(out);
    free(line);
    return fclose(out) == 0 && good;
}

static Status remove_undone(const char *path, uint32_t rounds_done, Error *err) {
    char *kept = NULL;
    size_t kept_bytes = 0;
    uint64_t file_bytes;
    FILE *file = fopen(path, "re");
    if (!file && errno == ENOENT) return STATUS_OK;
    if (!file) return fail_errno(err, STATUS_IO, "%s", path);
    Status status = STATUS_OK;
    if (!filter_lines(&kept, &kept_bytes, &file_bytes, file, rounds_done, path))
        status = fail_errno(err, STATUS_IO, "%s cannot be read", path);
    else if (kept_bytes < file_bytes)
        status = durable_write(path, &(FilePart){kept, kept_bytes}, 1, err);
    free(kept);
    fclose(file);
    return status;
}

Status metrics_open(Metrics *metrics, const char *path, uint32_t rounds_done, Error *err) {
    if ((size_t)snprintf(metrics->path, sizeof metrics->path, "%s", path) >= sizeof metrics->path)
        return fail(err, STATUS_CANTCREATE, "a path of more than %zu bytes: %s", sizeof metrics->path - 1, path);
    TRY(remove_undone(path, rounds_done, err));
    metrics->fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (metrics->fd < 0) return fail_errno(err, STATUS_CANTCREATE, "%s", path);
    return STATUS_OK;
}

json_t *metrics_real(double value) {
    return isfinite(value) ? json_real(value) : json_null();
}

Status metrics_append(Metrics *metrics, json_t *object, Error *err) {
    char *text = object ? json_dumps(object, JSON_COMPACT | JSON_REAL_PRECISION(10)) : NULL;
    json_decref(object);
    if (!text) return fail(err, STATUS_SOFTWARE, "%s: a line that is no JSON object", metrics->path);
    size_t length = strlen(text);
    text[length] = '\n'; // in the place of the terminator
    off_t before = lseek(metrics->fd, 0, SEEK_END);
    ssize_t written;
    do {
        errno = ENOSPC; // the reason for a write that stops short without an error
        written = write(metrics->fd, text, length + 1);
    } while (written < 0 && errno == EINTR);
    free(text);
    if (written == (ssize_t)(length + 1)) return STATUS_OK;
    Status status = fail_errno(err, STATUS_IO, "%s: a line cannot be written", metrics->path);
    if (before >= 0 && written > 0 && ftruncate(metrics->fd, before) != 0)
        log_warning("%s: its last line stays torn", metrics->path);
    return status;
}

void metrics_close(Metrics *metrics) {
    close(metrics->fd);
    metrics->fd = -1;
}
