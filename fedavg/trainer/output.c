#include "output.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"

enum {
    KEPT_BYTES = 32 << 10, // of each source's last text
    LINE_BYTES = 4096,     // a longer line is written in pieces
    PREFIX_BYTES = 24,
    SHOWN_LINES = 20,
    SAID_BYTES = 200, // of a line that is looked for in a sentence
    FIRST_RANK = 2,   // the source of rank 0
};

// A pipe per process, and not the file itself, because a trainer prints before the run's folder exists, because lines
// of several processes must not be mixed within a line, and because a full disk is the run's concern: a program that
// printed to the file would see its print() fail.
struct OutputSource {
    int read_fd, write_fd; // owned
    char prefix[PREFIX_BYTES];
    char line[LINE_BYTES]; // the line that has no end yet
    size_t used;
    bool returned;         // a carriage return was its last sign: other text than the end of the line takes its place
    char kept[KEPT_BYTES]; // the last complete lines, without prefix
    size_t kept_bytes;
    size_t unwritten; // bytes of lines that the file has not got; `kept` has the last ones
};

static Status add_source(TrainerOutput *output, const char *prefix, Error *err) {
    OutputSource *source = &output->source[output->sources];
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return fail_errno(err, STATUS_OS, "no pipe for the output of a trainer");
    fcntl(ends[0], F_SETFL, O_NONBLOCK); // a trainer waits while its pipe is full
    source->read_fd = ends[0];
    // The write end stays open here, too. Trainers die and are started again; without it the pipe would end with the
    // first of them, and poll would return at once for ever.
    source->write_fd = ends[1];
    snprintf(source->prefix, sizeof source->prefix, "%s", prefix);
    output->sources++;
    return STATUS_OK;
}

Status trainer_output_open(TrainerOutput *output, Error *err) {
    *output = (TrainerOutput){.file = -1};
    output->source = calloc(FIRST_RANK, sizeof *output->source);
    if (!output->source) return fail(err, STATUS_OS, "no memory for the output of trainers");
    Status status = add_source(output, "aggregator: ", err);
    if (status == STATUS_OK) status = add_source(output, "nursery: ", err);
    if (status != STATUS_OK) trainer_output_close(output);
    return status;
}

int trainer_output_fd(const TrainerOutput *output, int rank) {
    return output->source[FIRST_RANK + rank].write_fd;
}

// Later than the first two, since how many workers there are follows from the device, and the device is opened after
// the program has told its net.
Status trainer_output_add_workers(TrainerOutput *output, uint32_t workers, Error *err) {
    OutputSource *sources = realloc(output->source, (FIRST_RANK + workers) * sizeof *sources);
    if (sources) output->source = sources;
    output->write_fds = calloc(workers, sizeof *output->write_fds);
    if (!sources || !output->write_fds) return fail(err, STATUS_OS, "no memory for the output of %u trainers", workers);
    memset(sources + FIRST_RANK, 0, workers * sizeof *sources);
    for (uint32_t rank = 0; rank < workers; rank++) {
        char prefix[PREFIX_BYTES];
        snprintf(prefix, sizeof prefix, "rank %u: ", rank);
        TRY(add_source(output, prefix, err));
        output->write_fds[rank] = trainer_output_fd(output, (int)rank);
    }
    return STATUS_OK;
}

// A line enters the file whole or not at all.
static void write_line(TrainerOutput *output, const char *prefix, const char *line, size_t bytes) {
    char text[PREFIX_BYTES + LINE_BYTES + 1];
    struct stat before;
    const size_t used = (size_t)snprintf(text, sizeof text, "%s", prefix);
    memcpy(text + used, line, bytes);
    const size_t all = used + bytes;
    const bool is_file = fstat(output->file, &before) == 0 && S_ISREG(before.st_mode);
    const ssize_t written = write(output->file, text, all);
    if (written == (ssize_t)all) return;
    const int error = written < 0 ? errno : ENOSPC;
    if (!output->warned && output->path[0])
        log_warning("%s cannot be written: %s; the run continues, without what its trainers print", output->path,
                    strerror(error));
    output->warned = true;
    if (written <= 0 || !is_file) return;
    // A full disk has taken a part of the line. It is cut off, since the next line that fits would continue it.
    if (ftruncate(output->file, before.st_size) != 0) log_debug("%s ends in a part of a line", output->path);
}

// A program that prints in each step would fill the disk. The file that is full gets one line more here, and the last
// lines of each source at the end.
static bool has_room(TrainerOutput *output, size_t bytes) {
    static const char full[] = "sounder: the file is full; the last lines of each trainer follow when the run ends\n";
    if (output->file < 0) return false;
    if (!output->path[0] || (!output->full && output->room >= bytes)) return true;
    if (!output->full) {
        log_warning("%s has %d MiB; of what trainers print from here on it gets the last lines", output->path,
                    TRAINER_LOG_MIB);
        write_line(output, "", full, sizeof full - 1);
    }
    output->full = true;
    return false;
}

static const char *next_line(const char *text, const char *end) {
    const char *stop = memchr(text, '\n', (size_t)(end - text));
    return stop ? stop + 1 : end;
}

// Keeps the line, and writes it if the file has begun and has room. The last lines are kept in memory so that a run
// that ends by a trainer's exception can show it, even if the file could not be written.
static void take_line(TrainerOutput *output, OutputSource *source, const char *line, size_t bytes) {
    if (source->kept_bytes + bytes > KEPT_BYTES) {
        const char *end = source->kept + source->kept_bytes;
        const char *next = next_line(source->kept + (source->kept_bytes + bytes - KEPT_BYTES - 1), end); // whole lines
        source->kept_bytes = (size_t)(end - next);
        memmove(source->kept, next, source->kept_bytes);
    }
    memcpy(source->kept + source->kept_bytes, line, bytes);
    source->kept_bytes += bytes;
    const size_t all = strlen(source->prefix) + bytes;
    if (!has_room(output, all)) {
        source->unwritten += bytes;
        return;
    }
    output->room -= output->path[0] ? all : 0;
    write_line(output, source->prefix, line, bytes);
}

static void end_line(TrainerOutput *output, OutputSource *source) {
    source->line[source->used++] = '\n';
    take_line(output, source, source->line, source->used);
    source->used = 0;
    source->returned = false;
}

// A line without an end must not grow without bound: it is cut where the buffer is full. A progress bar returns to
// the line's begin for each of its texts: its last text is the line.
static void take_text(TrainerOutput *output, OutputSource *source, const char *text, size_t bytes) {
    for (size_t i = 0; i < bytes; i++) {
        const bool returns = text[i] == '\r';
        if (text[i] == '\n' || source->used == LINE_BYTES - 1) end_line(output, source);
        if (text[i] != '\n' && !returns) {
            if (source->returned) source->used = 0;
            source->line[source->used++] = text[i];
        }
        source->returned = returns;
    }
}

// Reads a bounded number of bytes: a trainer that prints without end would keep the parent here, which also has to
// serve the barrier. Such a trainer waits at its full pipe.
static void read_source(TrainerOutput *output, OutputSource *source) {
    char text[16 << 10];
    for (int i = 0; i < 4; i++) {
        const ssize_t bytes = read(source->read_fd, text, sizeof text);
        if (bytes <= 0) return;
        take_text(output, source, text, (size_t)bytes);
    }
}

void trainer_output_poll(const TrainerOutput *output, struct pollfd *polls) {
    for (uint32_t i = 0; i < output->sources; i++)
        polls[i] = (struct pollfd){.fd = output->source[i].read_fd, .events = POLLIN};
}

void trainer_output_serve(TrainerOutput *output) {
    for (uint32_t i = 0; i < output->sources; i++)
        read_source(output, &output->source[i]);
}

static void open_file(TrainerOutput *output, const Folder *folder) {
    if (folder) {
        snprintf(output->path, sizeof output->path, "%.4000s/%s", folder->path, TRAINER_LOG_NAME);
        // The run's folder may be one that others write to: a link under this name would make the run write elsewhere,
        // and opening a pipe under it would wait for a reader.
        // A second name of it is another file of the user's, to which the run would append.
        Error why;
        output->file = openat(folder->fd, TRAINER_LOG_NAME,
                              O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0666);
        const Status status = output->file < 0 ? fail_errno(&why, STATUS_IO, "%s cannot be written", output->path)
                                               : file_check_own(output->file, output->path, &why);
        if (status == STATUS_OK) return;
        log_warning("%s; trainers print here", why.message);
        if (output->file >= 0) close(output->file);
        output->path[0] = '\0';
    }
    // A copy, so that closing the output does not close the run's own stderr.
    output->file = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
}

// Writes the lines that the file has not got: those of before the folder existed, as the program that told its net
// prints, or of after the file was full. `kept` has them, unless there were more than it holds.
static void write_waiting(TrainerOutput *output, OutputSource *source) {
    const size_t waits = source->unwritten < source->kept_bytes ? source->unwritten : source->kept_bytes;
    const char *next = source->kept + source->kept_bytes - waits, *end = source->kept + source->kept_bytes;
    if (source->unwritten > waits) {
        char text[LINE_BYTES];
        const int bytes =
            snprintf(text, sizeof text, "sounder: %zu bytes are left out here\n", source->unwritten - waits);
        write_line(output, source->prefix, text, (size_t)bytes);
    }
    while (next < end) {
        const char *stop = memchr(next, '\n', (size_t)(end - next));
        const size_t bytes = stop ? (size_t)(stop - next) + 1 : (size_t)(end - next);
        write_line(output, source->prefix, next, bytes < LINE_BYTES ? bytes : LINE_BYTES);
        next += bytes;
    }
    source->unwritten = 0;
}

void trainer_output_begin(TrainerOutput *output, const Folder *folder) {
    open_file(output, folder);
    output->room = (size_t)TRAINER_LOG_MIB << 20;
    for (uint32_t i = 0; i < output->sources; i++)
        write_waiting(output, &output->source[i]);
}

// Whether the sentence has what the line says, but for the name of an exception in front.
static bool says(const char *why, const char *line, const char *end) {
    char text[SAID_BYTES];
    snprintf(text, sizeof text, "%.*s", (int)(next_line(line, end) - line), line);
    text[strcspn(text, "\n")] = '\0';
    const char *named = strstr(text, ": ");
    return text[0] && (strstr(why, text) || (named && strstr(why, named + 2)));
}

// [*start, the returned end) of the exception by which a program has failed, as Python prints it, or of the last lines
// that it has printed. It is the last exception that `why` has, since a program may print others that it handles; and
// it is not the end of the text, since libraries say farewell in dozens of lines.
static const char *last_exception(const char **start, const char *text, size_t bytes, const char *why) {
    static const char words[] = "Traceback (most recent call last)";
    const char *end = text + bytes, *first = text, *last = end;
    for (const char *next = text; (next = memmem(next, (size_t)(end - next), words, sizeof words - 1));) {
        const char *found = next;
        for (next = next_line(next, end); next < end && (*next == ' ' || *next == '\t');)
            next = next_line(next, end);
        if (next == end || !says(why, next, end)) continue;
        first = found;
        for (last = next_line(next, end); last < end && says(why, last, end);) // a message may have several lines
            last = next_line(last, end);
    }
    int lines = 0;
    for (*start = last; *start > first && ((*start)[-1] != '\n' || lines++ < SHOWN_LINES);)
        --*start;
    return last;
}

void trainer_output_print_last(TrainerOutput *output, int rank, const char *why) {
    if (output->sources <= (uint32_t)(FIRST_RANK + rank)) return;
    trainer_output_serve(output);
    OutputSource *source = &output->source[FIRST_RANK + rank];
    if (source->used > 0) end_line(output, source);
    if (output->file >= 0 && !output->path[0]) return; // it was printed
    const char *next, *end = last_exception(&next, source->kept, source->kept_bytes, why);
    while (next < end) {
        char line[LINE_BYTES];
        snprintf(line, sizeof line, "%.*s", (int)(next_line(next, end) - next), next);
        line[strcspn(line, "\n")] = '\0';
        // Control characters that a program prints are for trainer.log and not for a terminal.
        disarm_text(line);
        fprintf(stderr, "%s%s\n", rank < 0 ? "" : source->prefix, line);
        next = next_line(next, end);
    }
}

void trainer_output_close(TrainerOutput *output) {
    if (!output->source) return;
    trainer_output_serve(output);
    for (uint32_t i = 0; i < output->sources; i++) {
        if (output->source[i].used > 0) end_line(output, &output->source[i]);
        if (output->file >= 0) write_waiting(output, &output->source[i]);
        close(output->source[i].read_fd);
        close(output->source[i].write_fd);
    }
    if (output->file >= 0) close(output->file);
    free(output->source);
    free(output->write_fds);
    *output = (TrainerOutput){.file = -1};
}
