#include "progress.h"

#include <math.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/clock.h"

enum { BAR_WIDTH = 20 };

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

void progress_init(Progress *progress, const Rounds *rounds, uint32_t round_count, bool quiet) {
    // mpirun makes everything look like a terminal.
    bool terminal = rounds->nodes->size == 1 && isatty(STDOUT_FILENO);
    *progress = (Progress){.rounds = rounds, .round_count = round_count, .quiet = quiet, .moving = !quiet && terminal};
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

static int terminal_columns(void) {
    struct winsize size;
    return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

void progress_tick(void *context) {
    Progress *progress = context;
    if (!progress->moving || progress->round == 0) return;
    uint64_t done = rounds_progress(progress->rounds) - progress->start_progress;
    double seconds = clock_seconds_since(progress->start_nanoseconds);
    double share = (double)done / (double)progress->round_samples;
    if (share > 1) share = 1; // jobs that were done twice
    char bar[BAR_WIDTH + 1] = "", speed[28], eta[32] = "", ranks[MAX_WORKERS + 1] = "", line[512];
    for (int i = 0; i < BAR_WIDTH; i++)
        bar[i] = i < (int)(share * BAR_WIDTH) ? '#' : '.';
    for (uint32_t rank = 0; rank < progress->rounds->memory->control->config.workers; rank++)
        ranks[rank] = rank_letter(progress->rounds, rank);
    if (share > 0) {
        double round_seconds = seconds / share;
        double left = round_seconds - seconds + round_seconds * (progress->round_count - progress->round);
        snprintf(eta, sizeof eta, "  ETA %.0f s", left);
    }
    snprintf(line, sizeof line, "Round %u/%u  [%s] %3.0f%%  %s samples/s%s  ranks %s", progress->round,
             progress->round_count, bar, 100 * share, with_commas(speed, (uint64_t)((double)done / seconds)), eta,
             ranks);
    // Cut to one row, and the cursor back at its start: whatever is written next, also by another process, takes its
    // place.
    printf("%.*s\033[K\r", terminal_columns() - 1, line);
    fflush(stdout);
}

// A NaN has a sign, which printf shows and nobody wants to see.
static double without_sign(double value) {
    return isnan(value) ? (double)NAN : value;
}

static const char *plural(uint32_t count) {
    return count == 1 ? "" : "s";
}

void progress_end(Progress *progress, const RoundReport *report, bool evaluated) {
    if (progress->quiet) return;
    char speed[28];
    if (progress->moving) printf("\r\033[K");
    printf("Round %u/%u  train loss %.4f", report->round, progress->round_count, without_sign(report->train_loss));
    if (evaluated)
        printf("  test loss %.4f  accuracy %u/%u (%.2f%%)", without_sign(report->test_loss), report->test_hits,
               report->test_count, 100.0 * report->test_hits / report->test_count);
    printf("  %.2f s  %s samples/s", report->seconds,
           with_commas(speed, (uint64_t)((double)report->samples / report->seconds)));
    if (report->synchronising_seconds > 0)
        printf("  sync %.2f s (%.2f hidden)", report->synchronising_seconds, report->hidden_seconds);
    if (report->workers_lost > 0) printf("  %u worker%s lost", report->workers_lost, plural(report->workers_lost));
    if (report->refused > 0) printf("  %u update%s refused", report->refused, plural(report->refused));
    if (report->refused_steps > 0) printf("  %llu steps refused", (unsigned long long)report->refused_steps);
    printf("\n");
    fflush(stdout);
    progress->round = 0;
}
