// A heat map as SVG: one cell per number, coloured from 0 to the largest, with a scale beside it.
#ifndef SOUNDER_APP_LOOK_HEAT_H
#define SOUNDER_APP_LOOK_HEAT_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

// All borrowed.
typedef struct Heat {
    const char *title, *x_title, *y_title, *value_title;
    const double *values;            // (rows, columns), none below 0
    size_t rows, columns;            // at least 1
    const char *const *row_names;    // (rows), from the top
    const char *const *column_names; // (columns), from the left; NULL: numbers from 0
} Heat;

void heat_draw(FILE *file, const Heat *heat);

#endif
