// An axis of a figure: its two ends, and ticks at round numbers (1, 2 or 5 times a power of ten).
//
//   Axis axis;
//   axis_around(&axis, 12.3, 97.8, 0, 100, 6);   // 0, 20, ... 100; never beyond 0 and 100
//   y = bottom - height * axis_share(&axis, value);
#ifndef SOUNDER_APP_LOOK_AXIS_H
#define SOUNDER_APP_LOOK_AXIS_H

#include <stdbool.h>

enum { AXIS_MOST_TICKS = 32, AXIS_LABEL_BYTES = 32 };

typedef struct Axis {
    double low, high; // low < high; both above 0 if the axis is logarithmic
    bool logarithmic;
    double ticks[AXIS_MOST_TICKS]; // ascending, from low to high
    int count;
    double step; // distance between ticks; 0: it varies
} Axis;

// Spans low to high exactly, with about `wanted` ticks within. whole: ticks at whole numbers only.
void axis_between(Axis *axis, double low, double high, int wanted, bool whole);

// Spans from the tick below low to the tick above high, but not beyond least and most.
void axis_around(Axis *axis, double low, double high, double least, double most, int wanted);

// low and high must be above 0. Ticks are at 1, 2 and 5 times powers of ten, or at every N-th power if there are many;
// as axis_between where high is less than four times low, which needs finer ones.
void axis_logarithmic(Axis *axis, double low, double high, int wanted);

// Position of value on the axis: 0 at low, 1 at high, linear or logarithmic between. Values outside give less than 0 or
// more than 1, limited to a few lengths of the axis.
double axis_share(const Axis *axis, double value);

// Writes the i-th tick as text, with as many decimals as tell it from its neighbours.
void axis_label(char text[AXIS_LABEL_BYTES], const Axis *axis, int i);

#endif
