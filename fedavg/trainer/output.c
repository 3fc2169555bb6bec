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
    FIRST_RANK = 2, // the source of rank 0
};

// A pipe per process, and not the file itself, because a trainer prints before the run's folder exists, because lines
// of several processes must not be mixed within a line, and because a full disk is the run's concern: a program that
// printed to the file would see its print() fail.
struct OutputSource {
    int read_fd, write_fd; // owned
    char prefix[PREFIX_BYTES];
    char line[LINE_BYTES]; // the line that has no end yet
    size_t used;
    char kept[KEPT_BYTES]; // the last complete lines, without prefix
    size_t kept_bytes;
    size_t unwritten; // the last bytes of `kept` that wait for the file
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

// Keeps the line, and writes it if the file has begun. The last lines are kept in memory so that a run that ends by a
// trainer's exception can show it, even if the file could not be written.
static void take_line(TrainerOutput *output, OutputSource *source, const char *line, size_t bytes) {
    if (source->kept_bytes + bytes > KEPT_BYTES) {
        const size_t gone = source->kept_bytes + bytes - KEPT_BYTES;
        memmove(source->kept, source->kept + gone, source->kept_bytes - gone);
        source->kept_bytes -= gone;
    }
    memcpy(source->kept + source->kept_bytes, line, bytes);
    source->kept_bytes += bytes;
    if (output->file >= 0)
        write_line(output, source->prefix, line, bytes);
    else
        source->unwritten = source->unwritten + bytes < KEPT_BYTES ? source->unwritten + bytes : KEPT_BYTES;
}

static void end_line(TrainerOutput *output, OutputSource *source) {
    source->line[source->used++] = '\n';
    take_line(output, source, source->line, source->used);
    source->used = 0;
}

// A line without an end must not grow without bound: it is cut where the buffer is full.
static void take_text(TrainerOutput *output, OutputSource *source, const char *text, size_t bytes) {
    for (size_t i = 0; i < bytes; i++) {
        if (text[i] == '\n' || source->used == LINE_BYTES - 1) end_line(output, source);
        if (text[i] != '\n') source->line[source->used++] = text[i];
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
        output->file = openat(folder->fd, TRAINER_LOG_NAME,
                              O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0666);
        if (output->file >= 0) return;
        log_warning("%s cannot be written: %s; trainers print here", output->path, strerror(errno));
        output->path[0] = '\0';
    }
    // A copy, so that closing the output does not close the run's own stderr.
    output->file = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
}

void trainer_output_begin(TrainerOutput *output, const Folder *folder) {
    open_file(output, folder);
    for (uint32_t i = 0; i < output->sources; i++) {
        OutputSource *source = &output->source[i];
        // Lines from before the folder existed: those of the program that told its net. They are still in `kept`,
        // unless there were more than it holds.
        const size_t waits = source->unwritten < source->kept_bytes ? source->unwritten : source->kept_bytes;
        const char *next = source->kept + source->kept_bytes - waits, *end = source->kept + source->kept_bytes;
        while (next < end) {
            const char *stop = memchr(next, '\n', (size_t)(end - next));
            const size_t bytes = stop ? (size_t)(stop - next) + 1 : (size_t)(end - next);
            write_line(output, source->prefix, next, bytes < LINE_BYTES ? bytes : LINE_BYTES);
            next += bytes;
        }
        source->unwritten = 0;
    }
}

// Where the last exception begins, in Python's words, or the last lines begin. An exception that was handled may be
// followed by hundreds of ordinary lines: those would hide why the program has ended.
static const char *last_exception(const char *text, size_t bytes) {
    static const char words[] = "Traceback (most recent call last)";
    const char *found = NULL, *end = text + bytes, *start = end;
    for (const char *next = text; (next = memmem(next, (size_t)(end - next), words, sizeof words - 1)); next++)
        found = next;
    int lines = 0;
    while (start > text && (start[-1] != '\n' || lines++ < SHOWN_LINES))
        start--;
    return found && found > start ? found : start;
}

void trainer_output_print_last(TrainerOutput *output, int rank) {
    if (output->sources <= (uint32_t)(FIRST_RANK + rank)) return;
    trainer_output_serve(output);
    OutputSource *source = &output->source[FIRST_RANK + rank];
    if (source->used > 0) end_line(output, source);
    if (output->file >= 0 && !output->path[0]) return; // it was printed
    const char *end = source->kept + source->kept_bytes;
    for (const char *next = last_exception(source->kept, source->kept_bytes); next < end;) {
        const char *stop = memchr(next, '\n', (size_t)(end - next));
        char line[LINE_BYTES];
        snprintf(line, sizeof line, "%.*s", (int)(stop ? stop - next : end - next), next);
        // Control characters that a program prints are for trainer.log and not for a terminal.
        disarm_text(line);
        fprintf(stderr, "%s%s\n", rank < 0 ? "" : source->prefix, line);
        next = stop ? stop + 1 : end;
    }
}

void trainer_output_close(TrainerOutput *output) {
    if (!output->source) return;
    trainer_output_serve(output);
    for (uint32_t i = 0; i < output->sources; i++) {
        if (output->source[i].used > 0) end_line(output, &output->source[i]);
        close(output->source[i].read_fd);
        close(output->source[i].write_fd);
    }
    if (output->file >= 0) close(output->file);
    free(output->source);
    free(output->write_fds);
    *output = (TrainerOutput){.file = -1};
}
