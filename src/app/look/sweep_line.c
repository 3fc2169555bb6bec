#include "app/look/sweep_line.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"

enum { TAIL_BYTES = 1 << 16, LINE_BYTES = 512, MOST_SHARES = 16 };
static const double seconds_between = 0.5;

// The last round that the record of a run has; 0: none.
static int rounds_done(const char *folder) {
    char path[JOB_FOLDER_BYTES + 16], tail[TAIL_BYTES + 1];
    struct stat about;
    snprintf(path, sizeof path, "%s/metrics.jsonl", folder);
    const int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) return 0;
    const off_t from = fstat(fd, &about) == 0 && about.st_size > TAIL_BYTES ? about.st_size - TAIL_BYTES : 0;
    const ssize_t bytes = pread(fd, tail, TAIL_BYTES, from);
    close(fd);
    int round = 0;
    tail[bytes > 0 ? bytes : 0] = '\0';
    for (const char *at = tail; (at = strstr(at, "\"round\":")); at++)
        round = atoi(at + sizeof "\"round\":" - 1);
    return round;
}

static double share_of(const Job *job) {
    const double share = job->aim > 0 ? (double)rounds_done(job->folder) / job->aim : 0;
    return share < 1 ? share : 1;
}

typedef struct Work {
    size_t done, runs, all;
    double sum; // of the shares of all
    char shares[256];
} Work;

static Work work_of(const Job *jobs, size_t count) {
    Work work = {.done = 0};
    for (size_t i = 0; i < count; i++) {
        const JobState state = jobs[i].state;
        if (state == JOB_LEFT || state == JOB_ELSEWHERE) continue;
        const bool runs = state == JOB_RUNS, has_ended = state == JOB_IS_DONE || state == JOB_HAS_FAILED;
        const double share = has_ended ? 1 : runs ? share_of(&jobs[i]) : 0;
        work.all++;
        work.done += has_ended;
        work.sum += share;
        if (runs && work.runs++ < MOST_SHARES) text_add(work.shares, sizeof work.shares, " %.0f%%", 100 * share);
    }
    return work;
}

static void add_time(char text[LINE_BYTES], double seconds) {
    if (seconds < 100)
        text_add(text, LINE_BYTES, "  ETA %.0f s", seconds);
    else if (seconds < 100 * 60)
        text_add(text, LINE_BYTES, "  ETA %.0f min", seconds / 60);
    else
        text_add(text, LINE_BYTES, "  ETA %.1f h", seconds / 3600);
}

void sweep_line_begin(SweepLine *line, const Job *jobs, size_t count, bool quiet) {
    *line = (SweepLine){.moves = log_on_terminal() && !quiet, .begin_nanoseconds = clock_nanoseconds()};
    if (line->moves) line->work_before = work_of(jobs, count).sum;
}

void sweep_line_show(SweepLine *line, const Job *jobs, size_t count) {
    if (!line->moves || (line->shown_nanoseconds && clock_seconds_since(line->shown_nanoseconds) < seconds_between))
        return;
    char text[LINE_BYTES];
    struct winsize size;
    const Work work = work_of(jobs, count);
    const double done = work.sum - line->work_before, left = (double)work.all - work.sum;
    line->shown_nanoseconds = clock_nanoseconds();
    if (work.runs == 0) return;
    snprintf(text, sizeof text, "%zu of %zu done, %zu run%s:%s", work.done, work.all, work.runs,
             work.runs == 1 ? "s" : "", work.shares);
    if (done > 0) add_time(text, clock_seconds_since(line->begin_nanoseconds) / done * left);
    const bool has_size = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
    fprintf(stderr, "%.*s\033[K\r", (has_size ? size.ws_col : 80) - 1, text);
    line->is_shown = true;
}

void sweep_line_clear(SweepLine *line) {
    if (line->is_shown) fputs("\r\033[K", stderr);
    line->is_shown = false;
}
