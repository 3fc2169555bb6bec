#include "progress.h"

#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"

enum { BAR_WIDTH = 20, MAX_RANKS_SHOWN = 32 };

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
    *progress = (Progress){
        .rounds = rounds, .round_count = round_count, .quiet = quiet, .moving = !quiet && isatty(STDOUT_FILENO)};
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

void progress_tick(void *context) {
    Progress *progress = context;
    if (!progress->moving || progress->round == 0) return;
    uint64_t done = rounds_progress(progress->rounds) - progress->start_progress;
    double seconds = clock_seconds_since(progress->start_nanoseconds);
    double share = (double)done / (double)progress->round_samples;
    if (share > 1) share = 1; // jobs that were done twice
    char bar[BAR_WIDTH + 1] = "", speed[28], ranks[MAX_RANKS_SHOWN + 4] = "";
    for (int i = 0; i < BAR_WIDTH; i++)
        bar[i] = i < (int)(share * BAR_WIDTH) ? '#' : '.';
    uint32_t workers = progress->rounds->memory->control->config.workers;
    for (uint32_t rank = 0; rank < workers && rank < MAX_RANKS_SHOWN; rank++)
        ranks[rank] = rank_letter(progress->rounds, rank);
    with_commas(speed, (uint64_t)((double)done / seconds));
    printf("\r\033[KRound %u/%u  [%s] %3.0f%%  %s samples/s", progress->round, progress->round_count, bar, 100 * share,
           speed);
    if (share > 0) {
        double round_seconds = seconds / share;
        double left = round_seconds - seconds + round_seconds * (progress->round_count - progress->round);
        printf("  ETA %.0f s", left);
    }
    printf("  ranks %s%s", ranks, workers > MAX_RANKS_SHOWN ? "..." : "");
    fflush(stdout);
}

void progress_end(Progress *progress, const RoundReport *report, bool evaluated) {
    if (progress->quiet) return;
    char speed[28];
    if (progress->moving) printf("\r\033[K");
    printf("Round %u/%u  train loss %.4f", report->round, progress->round_count, report->train_loss);
    if (evaluated)
        printf("  test loss %.4f  accuracy %u/%u (%.2f%%)", report->test_loss, report->test_hits, report->test_count,
               100.0 * report->test_hits / report->test_count);
    printf("  %.2f s  %s samples/s", report->seconds,
           with_commas(speed, (uint64_t)((double)report->samples / report->seconds)));
    if (report->workers_lost > 0) printf("  %u workers lost", report->workers_lost);
    if (report->refused > 0) printf("  %u updates refused", report->refused);
    if (report->refused_steps > 0) printf("  %llu steps refused", (unsigned long long)report->refused_steps);
    printf("\n");
    fflush(stdout);
    progress->round = 0;
}
