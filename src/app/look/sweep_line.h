// The moving line of a sweep on a terminal (stderr): "2 of 6 done, 3 run: 40% 38% 12%  ETA 3 min".
//
//   SweepLine line;
//   sweep_line_begin(&line, jobs, count, quiet);
//   sweep_line_show(&line, jobs, count);      // as often as the caller likes: at most twice a second
//   sweep_line_clear(&line);                  // before anything else is printed
#ifndef SOUNDER_APP_LOOK_SWEEP_LINE_H
#define SOUNDER_APP_LOOK_SWEEP_LINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "app/look/sweep_jobs.h"

typedef struct SweepLine {
    bool moves; // whether stderr is a terminal that obeys escapes, and the sweep is not quiet
    bool is_shown;
    uint64_t begin_nanoseconds, shown_nanoseconds;
    double work_before; // runs, and parts of runs, that were done when it began
} SweepLine;

void sweep_line_begin(SweepLine *line, const Job *jobs, size_t count, bool quiet);
void sweep_line_show(SweepLine *line, const Job *jobs, size_t count);
void sweep_line_clear(SweepLine *line);

#endif
