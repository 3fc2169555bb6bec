#include "launch_output.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

// The most bytes that one read can add: the end of a waiting line, and at most one line per byte, each with prefix and
// line end.
enum { READ_MAKES_BYTES = LAUNCH_LINE_BYTES + LAUNCH_READ_BYTES * (LAUNCH_PREFIX_BYTES + 2) };

static_assert(READ_MAKES_BYTES + CONSOLE_MESSAGE_BYTES < CONSOLE_BYTES, "an empty console must have room");

bool console_has_room(const Console *console) {
    return CONSOLE_BYTES - (console->end - console->start) >= READ_MAKES_BYTES + CONSOLE_MESSAGE_BYTES;
}

bool console_is_empty(const Console *console) {
    return console->start == console->end;
}

static void add(Console *console, const char *prefix, const char *text, size_t length, const char *end) {
    const size_t prefix_length = strlen(prefix), end_length = strlen(end), needed = prefix_length + length + end_length;
    const size_t waiting = console->end - console->start;
    if (console->write_error || waiting + needed > CONSOLE_BYTES) return;
    if (console->end + needed > CONSOLE_BYTES) {
        memmove(console->bytes, console->bytes + console->start, waiting);
        console->start = 0;
        console->end = waiting;
    }
    char *to = console->bytes + console->end;
    memcpy(to, prefix, prefix_length);
    memcpy(to + prefix_length, text, length);
    memcpy(to + prefix_length + length, end, end_length);
    console->end += needed;
}

void console_add_line(Console *console, const char *prefix, const char *line, size_t length) {
    add(console, prefix, line, length, "\n");
}

void console_write(Console *console) {
    const char *first = console->bytes + console->start;
    size_t bytes = console->end - console->start;
    if (bytes > PIPE_BUF) {
        const char *line_end = memrchr(first, '\n', PIPE_BUF);
        bytes = line_end ? (size_t)(line_end + 1 - first) : PIPE_BUF;
    }
    ssize_t written = write(console->fd, first, bytes);
    if (written > 0) {
        console->start += (size_t)written;
        console->is_mid_line = first[written - 1] != '\n';
    } else if (written < 0 && errno != EAGAIN && errno != EINTR) {
        console->write_error = errno;
        console->is_mid_line = false;
        console->start = console->end;
    }
}

bool console_is_same(const Console *console, const Console *other) {
    struct stat one, two;
    return fstat(console->fd, &one) == 0 && fstat(other->fd, &two) == 0 && one.st_dev == two.st_dev &&
           one.st_ino == two.st_ino;
}

void rank_stream_init(RankStream *stream, int fd, int log_fd, Console *console, int rank) {
    stream->fd = fd;
    stream->log_fd = log_fd;
    stream->console = console;
    snprintf(stream->prefix, sizeof stream->prefix, "[%d] ", rank);
    stream->after_return = stream->shows_parts = stream->is_mid_line = false;
    stream->used = 0;
}

static void hand_on(RankStream *stream, const char *end) {
    add(stream->console, stream->is_mid_line ? "" : stream->prefix, stream->line, stream->used, end);
    stream->is_mid_line = !*end;
    stream->used = 0;
}

static void add_to_line(RankStream *stream, const char *bytes, size_t count) {
    for (size_t i = 0; i < count; i++) {
        bool is_return = bytes[i] == '\r', is_end = is_return || bytes[i] == '\n';
        // "\r\n" is one line end, and "\r\r" has no line in between.
        const bool is_empty = stream->used == 0 && !stream->is_mid_line;
        if (is_end && !(is_empty && (is_return || stream->after_return))) hand_on(stream, "\n");
        stream->after_return = is_return;
        if (is_end) continue;
        if (stream->used == LAUNCH_LINE_BYTES) hand_on(stream, "\n");
        stream->line[stream->used++] = bytes[i];
    }
    if (stream->shows_parts && stream->used > 0) hand_on(stream, "");
}

// A full disk ends the log, not the run.
static void add_to_log(RankStream *stream, const char *bytes, size_t count) {
    while (count > 0 && stream->log_fd >= 0) {
        ssize_t written = write(stream->log_fd, bytes, count);
        if (written < 0 && errno == EINTR) continue;
        if (written < 0) {
            char text[128];
            int length = snprintf(text, sizeof text, "this log file ends here: %s", strerror(errno));
            console_add_line(stream->console, stream->prefix, text, (size_t)length);
            close(stream->log_fd);
            stream->log_fd = -1;
            return;
        }
        bytes += written;
        count -= (size_t)written;
    }
}

void rank_stream_read(RankStream *stream) {
    char bytes[LAUNCH_READ_BYTES];
    ssize_t count = read(stream->fd, bytes, sizeof bytes);
    if (count > 0) {
        add_to_log(stream, bytes, (size_t)count);
        add_to_line(stream, bytes, (size_t)count);
    } else if (count == 0 || (errno != EAGAIN && errno != EINTR)) {
        rank_stream_close(stream);
    }
}

void rank_stream_close(RankStream *stream) {
    if (stream->used > 0 || stream->is_mid_line) hand_on(stream, "\n");
    if (stream->fd >= 0) close(stream->fd);
    if (stream->log_fd >= 0) close(stream->log_fd);
    stream->fd = stream->log_fd = -1;
}

Status launch_logs_create(char *path, const char *parent, const char *run_id, Error *err) {
    const char *temporary = getenv("TMPDIR");
    if (strchr(run_id, '/'))
        return fail(err, STATUS_USAGE, "--rdzv-id %.60s: names the folder of the log files, too; give it without /",
                    run_id);
    if (!parent[0]) parent = temporary && temporary[0] ? temporary : "/tmp";
    int length = snprintf(path, LAUNCH_FOLDER_BYTES, "%s/%s_XXXXXX", parent, run_id);
    if (length >= LAUNCH_FOLDER_BYTES)
        return fail(err, STATUS_CANTCREATE, "--log-dir: a folder name of %d characters; at most %d fit", length,
                    LAUNCH_FOLDER_BYTES - 1);
    if (make_folders(parent, 0777) < 0)
        return fail_errno(err, STATUS_CANTCREATE, "--log-dir %.400s: cannot be made", parent);
    if (!mkdtemp(path))
        return fail_errno(err, STATUS_CANTCREATE, "--log-dir %.400s: no folder can be made in it", parent);
    return STATUS_OK;
}

Status launch_log_open(int *fd, const char *path, int attempt, int local_rank, const char *stream, Error *err) {
    char folder[FOLDER_PATH_BYTES - 32], file[FOLDER_PATH_BYTES];
    snprintf(folder, sizeof folder, "%s/attempt_%d/%d", path, attempt, local_rank);
    if (make_folders(folder, 0777) < 0)
        return fail_errno(err, STATUS_CANTCREATE, "the log folder %.400s: cannot be made", folder);
    snprintf(file, sizeof file, "%s/%s.log", folder, stream);
    *fd = open(file, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0666);
    if (*fd < 0) return fail_errno(err, STATUS_CANTCREATE, "the log file %.400s: cannot be made", file);
    return STATUS_OK;
}
