// Prints the output of the ranks line by line on the launcher's own stdout and stderr:
//
//   [2] epoch 1 loss 0.31
//
// A RankStream reads one pipe and cuts its bytes into lines; a Console holds lines that are yet to be written. Neither
// ever blocks: pipes are read only while the console has room, and the console is written only when poll reports it
// writable. A reader that stops reading (a pager) slows the ranks down, but the launcher still receives signals.
//
//   struct pollfd from = {.fd = console_has_room(&console) ? stream.fd : -1, .events = POLLIN};
//   struct pollfd to = {.fd = console_is_empty(&console) ? -1 : console.fd, .events = POLLOUT};
//   poll ...
//   if (from.revents) rank_stream_read(&stream);
//   if (to.revents) console_write(&console);
#ifndef SOUNDER_APP_LAUNCH_LAUNCH_OUTPUT_H
#define SOUNDER_APP_LAUNCH_LAUNCH_OUTPUT_H

#include "base/err.h"
#include "io/durable.h"
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

enum {
    LAUNCH_LINE_BYTES = 64 << 10, // a longer line is cut into several
    LAUNCH_READ_BYTES = 4096,
    LAUNCH_PREFIX_BYTES = 16,
    CONSOLE_BYTES = 512 << 10,
    CONSOLE_MESSAGE_BYTES = 64 << 10, // kept free of lines, for messages of the launcher itself
};

// All zeros but fd at first.
typedef struct Console {
    int fd;            // borrowed
    int write_error;   // errno of the failed write, after which all output is dropped; 0: none failed
    bool is_mid_line;  // the bytes written so far end within a line
    size_t start, end; // bytes[start] to bytes[end - 1] are yet to be written
    char bytes[CONSOLE_BYTES];
} Console;

// Whether the output of one rank_stream_read is certain to fit.
bool console_has_room(const Console *console);
bool console_is_empty(const Console *console);

// Appends prefix, line (length) and a line end. The line is dropped if it does not fit; check console_has_room first.
void console_add_line(Console *console, const char *prefix, const char *line, size_t length);

// Writes as much as a descriptor that poll calls writable takes without blocking (PIPE_BUF), whole lines if they fit.
void console_write(Console *console);

// Whether both write to one terminal, pipe or file: then one must wait while the other is within a line.
bool console_is_same(const Console *console, const Console *other);

typedef struct RankStream {
    int fd;                           // owned; read end of the rank's pipe, non-blocking; -1: none, or at its end
    int log_fd;                       // owned; the log file, which gets every byte as it arrives; -1: none
    Console *console;                 // borrowed
    char prefix[LAUNCH_PREFIX_BYTES]; // "[2] "
    bool after_return;                // the last line ended in '\r'
    // also shows the beginning of an unfinished line, such as a prompt; false after init
    bool shows_parts;
    bool is_mid_line; // the console already has the beginning of the line, which `line` no longer holds
    size_t used;      // bytes of `line`: the part of an unfinished line that has arrived
    char line[LAUNCH_LINE_BYTES];
} RankStream;

// Takes ownership of fd and log_fd.
void rank_stream_init(RankStream *stream, int fd, int log_fd, Console *console, int rank);

// Reads once, at most LAUNCH_READ_BYTES. Lines end with '\n' or '\r' (progress bars; empty lines between two '\r' are
// left out). Does nothing if the pipe is empty. At the end of the pipe: rank_stream_close.
void rank_stream_read(RankStream *stream);

// Hands the last line to the console, even if it has no line end, and closes both descriptors.
void rank_stream_close(RankStream *stream);

// The log files of `sounder launch`, laid out as torchrun's:
//   FOLDER/<run id>_<random>/attempt_<restart>/<local rank>/stdout.log and stderr.log

enum { LAUNCH_FOLDER_BYTES = FOLDER_PATH_BYTES - 128 }; // leaves room for the names below it

// Creates a folder for this run below `parent`, which is created as well ("": $TMPDIR or /tmp), and writes its name to
// path (LAUNCH_FOLDER_BYTES). CANTCREATE names the folder; USAGE for a run id that is no name of a folder.
Status launch_logs_create(char *path, const char *parent, const char *run_id, Error *err);

// Opens the log file of one stream ("stdout") of a rank, for writing and close-on-exec; the caller owns *fd.
Status launch_log_open(int *fd, const char *path, int attempt, int local_rank, const char *stream, Error *err);

#endif
