// What a person sees: a heading, one line a round, an ending; on a terminal also a line that moves while a round runs:
//
//   Round 2/3  [#########...........]  45%  71,234 samples/s  ETA 3 s  ranks TTBT
//
// T trains, B stands at the barrier, S is starting, D is dead. All of it goes to stdout; --quiet leaves it out.
#ifndef SOUNDER_APP_RUN_PROGRESS_H
#define SOUNDER_APP_RUN_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

#include "fedavg/parent/rounds.h"

typedef struct Progress {
    const Rounds *rounds; // borrowed
    uint32_t round_count;
    bool quiet, moving;      // moving: stdout is a terminal
    uint32_t round;          // running now
    uint64_t round_samples;  // what it will train and evaluate
    uint64_t start_progress; // rounds_progress when it began
    uint64_t start_nanoseconds;
} Progress;

void progress_init(Progress *progress, const Rounds *rounds, uint32_t round_count, bool quiet);

// A round begins in which `samples` samples will be worked through.
void progress_begin(Progress *progress, uint32_t round, uint64_t samples);

// Redraws the moving line; for RoundsConfig.on_tick (context: the Progress).
void progress_tick(void *progress);

// The line of a finished round; evaluated: whether the report holds a test result.
void progress_end(Progress *progress, const RoundReport *report, bool evaluated);

// 1234567 as "1,234,567" into text (at least 28 bytes), which is returned.
const char *with_commas(char *text, uint64_t number);

#endif
