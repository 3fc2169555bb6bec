#include "progress.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"

enum { BAR_WIDTH = 20, MOST_LETTERS = 16, LINE_BYTES = 512 };

// duration of a set-up step, or of the workers' start, before a line names it
static const double start_seconds = 2;
static const double seconds_of_a_line = 600; // between permanent lines

// Numbers -------------------------------------------------------------------------------------------------------------

const char *with_commas(char *text, uint64_t number) {
    char digits[24];
    int count = snprintf(digits, sizeof digits, "%llu", (unsigned long long)number);
    char *out = text;
    for (int i = 0; i < count; i++) {
        if (i > 0 && (count - i) % 3 == 0) *out++ = ',';
        *out++ = digits[i];
    }
    *out = 0;
    return text;
}

const char *duration_text(char *text, double seconds) {
    enum { LONG = 100 }; // above this many seconds, minutes and hours are easier to read
    unsigned whole = seconds < 1e9 ? (unsigned)(seconds + 0.5) : (unsigned)1e9;
    if (whole < LONG)
        snprintf(text, PROGRESS_NUMBER_BYTES, "%u s", whole);
    else
        snprintf(text, PROGRESS_NUMBER_BYTES, "%u:%02u:%02u", whole / 3600, whole / 60 % 60, whole % 60);
    return text;
}

const char *plural(uint64_t count) {
    return count == 1 ? "" : "s";
}

// Output --------------------------------------------------------------------------------------------------------------

void progress_say(Progress *progress, const char *format, ...) {
    if (progress->quiet) return;
    if (progress->moving) fputs("\r\033[K", stderr);
    va_list arguments;
    va_start(arguments, format);
    bool written = vprintf(format, arguments) >= 0 && fflush(stdout) == 0;
    va_end(arguments);
    if (written) return;
    log_warning("standard output cannot be written any more (%s); the run goes on, what it does stands in its folder",
                strerror(errno));
    progress->quiet = true;
    if (!freopen("/dev/null", "w", stdout)) clearerr(stdout); // drops the unwritten bytes
}

void progress_init(Progress *progress, const Options *options, const Nodes *nodes) {
    bool first = nodes->rank == 0, silent = options->quiet || !first;
    // mpirun gives every process a terminal.
    bool moving = !silent && nodes->size == 1 && log_on_terminal();
    *progress = (Progress){
        .round_count = (uint32_t)options->rounds, .quiet = silent, .silent = silent, .first = first, .moving = moving};
    progress->hides_cohorts = options_hide_cohorts(options);
    progress->hides_batches = options_hide_batches(options);
}

// Before the rounds ---------------------------------------------------------------------------------------------------

static void *speak_of_step(void *context) {
    const Progress *progress = context;
    struct pollfd over = {.fd = progress->step_pipe[0], .events = POLLIN};
    if (poll(&over, 1, (int)(start_seconds * 1000)) == 0)
        fprintf(stderr, progress->moving ? "%s ...\033[K\r" : "%s ...\n", progress->step);
    return NULL;
}

void progress_step_begin(Progress *progress, const char *what) {
    if (progress->silent || pipe2(progress->step_pipe, O_CLOEXEC) != 0) return;
    progress->step = what;
    if (pthread_create(&progress->step_thread, NULL, speak_of_step, progress) == 0) return;
    progress->step = NULL;
    close(progress->step_pipe[0]);
    close(progress->step_pipe[1]);
}

void progress_step_end(Progress *progress) {
    if (!progress->step) return;
    close(progress->step_pipe[1]);
    pthread_join(progress->step_thread, NULL);
    close(progress->step_pipe[0]);
    progress->step = NULL;
}

// While a round runs --------------------------------------------------------------------------------------------------

void progress_watch(Progress *progress, const Rounds *rounds) {
    progress->rounds = rounds;
    progress->start_nanoseconds = progress->spoken_nanoseconds = clock_nanoseconds();
}

void progress_begin(Progress *progress, uint32_t round, uint64_t samples) {
    progress->round = round;
    progress->round_samples = samples;
    progress->start_progress = rounds_progress(progress->rounds);
    progress->start_nanoseconds = clock_nanoseconds();
}

static char rank_letter(const Rounds *rounds, uint32_t rank) {
    switch (rounds->phases.supervisor.workers[rank].state) {
    case WORKER_STARTING:
        return 'S';
    case WORKER_RUNNING:
        return barrier_has_arrived(&rounds->memory->control->phase, rank) ? 'B' : 'T';
    default:
        return 'D';
    }
}

// Writes one letter per rank, or, for many ranks, counts: "28 T 3 B 1 D".
static void describe_ranks(char *text, size_t bytes, const Rounds *rounds) {
    static const char letters[] = "TBSD";
    uint32_t workers = rounds->memory->config->workers, counts[sizeof letters] = {0};
    char row[MAX_WORKERS + 1] = "";
    for (uint32_t rank = 0; rank < workers; rank++) {
        row[rank] = rank_letter(rounds, rank);
        counts[strchr(letters, row[rank]) - letters]++;
    }
    snprintf(text, bytes, "%s", workers <= MOST_LETTERS ? row : "");
    for (size_t i = 0; workers > MOST_LETTERS && letters[i]; i++)
        if (counts[i]) text_add(text, bytes, "%s%u %c", *text ? " " : "", counts[i], letters[i]);
}

static int terminal_columns(void) {
    struct winsize size;
    return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

// A trainer counts signs of life, not samples: its turns are what can be counted.
static double share_of_turns(const Queue *queue) {
    return queue->count > 0 ? 1 - (double)queue_unfinished(queue) / queue->count : 0;
}

// Returns the finished share of the round, and the seconds that remain by the last rounds, or by that share; -1:
// unknown so far. *speed: samples per second; 0: unknown.
static double share_done(double *seconds_left, double *speed, const Progress *progress) {
    const RunMemory *memory = progress->rounds->memory;
    const bool has_trainer = memory->config->trainer.command[0];
    const uint64_t done = rounds_progress(progress->rounds) - progress->start_progress;
    const double seconds = clock_seconds_since(progress->start_nanoseconds), usual = progress->usual_seconds,
                 all = (double)progress->round_samples;
    double share = has_trainer ? share_of_turns(memory->queue) : all > 0 ? (double)done / all : 0;
    if (share > 1) share = 1; // some jobs were done twice
    *seconds_left = usual > seconds ? usual - seconds : share > 0 ? seconds / share - seconds : -1;
    *speed = !has_trainer ? (double)done / seconds : usual > 0 ? all / usual : 0;
    return share;
}

static void describe_round(char line[LINE_BYTES], const Progress *progress) {
    double left, speed, share = share_done(&left, &speed, progress);
    char bar[BAR_WIDTH + 5] = "", number[PROGRESS_NUMBER_BYTES], rate[PROGRESS_NUMBER_BYTES + 16] = "",
                         time[PROGRESS_NUMBER_BYTES], eta[40] = "", ranks[300];
    if (progress->moving) {
        for (int i = 0; i < BAR_WIDTH; i++)
            bar[i + 1] = i < (int)(share * BAR_WIDTH) ? '#' : '.';
        bar[0] = '[', strcpy(bar + BAR_WIDTH + 1, "]  ");
    }
    if (left >= 0) {
        const double round_seconds = progress->usual_seconds > 0
                                         ? progress->usual_seconds
                                         : clock_seconds_since(progress->start_nanoseconds) + left;
        left += round_seconds * (progress->round_count - progress->round);
        snprintf(eta, sizeof eta, "  ETA %s", duration_text(time, left));
    }
    describe_ranks(ranks, sizeof ranks, progress->rounds);
    if (speed > 0) snprintf(rate, sizeof rate, "  %s samples/s", with_commas(number, (uint64_t)speed));
    snprintf(line, LINE_BYTES, "round %u/%u  %s%3.0f%%%s%s  ranks %s", progress->round, progress->round_count, bar,
             100 * share, rate, eta, ranks);
}

// A user who presses Ctrl-C wants to know at once that it was noticed, and what pressing it again would do.
static void answer_signal(Progress *progress) {
    const Supervisor *supervisor = &progress->rounds->phases.supervisor;
    if (progress->answered || !progress->first || supervisor->interrupts == 0) return;
    progress->answered = true;
    char name[32], time[PROGRESS_NUMBER_BYTES], about[48] = "";
    const char *clear = log_on_terminal() ? "\r\033[K" : "";
    snprintf(name, sizeof name, "SIG%s", sigabbrev_np(supervisor->last_signal));
    const char *cause = supervisor->last_signal == SIGINT ? "Ctrl-C" : name;
    if (progress->round == 0) {
        fprintf(stderr, "%s%s: ending as soon as the workers have started; again: stop now\n", clear, cause);
        return;
    }
    double left, speed;
    share_done(&left, &speed, progress);
    if (left >= 0) snprintf(about, sizeof about, ", about %s", duration_text(time, left));
    fprintf(stderr, "%s%s: finishing round %u%s; again: stop now and lose it\n", clear, cause, progress->round, about);
}

// The workers of a large model need some time to start.
static void describe_start(char line[LINE_BYTES], const Progress *progress) {
    char time[PROGRESS_NUMBER_BYTES];
    duration_text(time, clock_seconds_since(progress->start_nanoseconds));
    snprintf(line, LINE_BYTES, "starting the workers: %s", time);
}

void progress_tick(void *context) {
    Progress *progress = context;
    if (!progress->rounds) return;
    answer_signal(progress);
    if (progress->silent) return;
    bool starting = progress->round == 0;
    if (starting && clock_seconds_since(progress->start_nanoseconds) < start_seconds) return;
    bool due = clock_seconds_since(progress->spoken_nanoseconds) >= (starting ? start_seconds : seconds_of_a_line);
    if (!progress->moving && !due) return;
    char line[LINE_BYTES];
    (starting ? describe_start : describe_round)(line, progress);
    // Cuts the line to one row and puts the cursor back at its start: the next output, also of another process,
    // overwrites it.
    if (progress->moving)
        fprintf(stderr, "%.*s\033[K\r", terminal_columns() - 1, line);
    else
        fprintf(stderr, "%s\n", line);
    progress->spoken_nanoseconds = clock_nanoseconds();
}
