// A row for each client and a dot for each group of runs, with a line of one deviation to both sides, as SVG.
#ifndef SOUNDER_APP_LOOK_DOTS_H
#define SOUNDER_APP_LOOK_DOTS_H

#include <stddef.h>
#include <stdio.h>

enum { DOTS_MOST_ROWS = 40, DOTS_MOST_GROUPS = 8 };

// All borrowed.
typedef struct Dots {
    const char *title, *x_title, *y_title;
    const double *means, *deviations; // (rows, groups); NaN: no dot, no line
    size_t rows, groups;              // from 1 to the most
    const char *const *row_names;     // (rows), from the top
    const char *const *group_names;   // (groups)
} Dots;

// The axis is of percent: from 0 to at most 100. There is at least one dot.
void dots_draw(FILE *file, const Dots *dots);

#endif
