// An axis of a figure: where it begins and ends, and ticks at nice numbers (1, 2 or 5 times a power of ten).
//
//   Axis axis;
//   axis_around(&axis, 12.3, 97.8, 0, 100, 6);   // 0, 20, ... 100; never beyond 0 and 100
//   y = bottom - height * axis_share(&axis, value);
#ifndef SOUNDER_APP_INSPECT_AXIS_H
#define SOUNDER_APP_INSPECT_AXIS_H

#include <stdbool.h>

enum { AXIS_MOST_TICKS = 32, AXIS_LABEL_BYTES = 32 };

typedef struct Axis {
    double low, high; // low < high; both above 0 where it is logarithmic
    bool logarithmic;
    double ticks[AXIS_MOST_TICKS]; // ascending, from low to high
    int count;
    double step; // between ticks; 0: several
} Axis;

// From low to high exactly; ticks within, about `wanted` of them. whole: only at whole numbers.
void axis_between(Axis *axis, double low, double high, int wanted, bool whole);

// From the tick below low to the tick above high, but not beyond least and most.
void axis_around(Axis *axis, double low, double high, double least, double most, int wanted);

// low, high: above 0. Ticks at 1, 2 and 5 times powers of ten, or at every so many powers; within one power as above.
void axis_logarithmic(Axis *axis, double low, double high, int wanted);

// 0 at low, 1 at high, linear or logarithmic between; less or more outside, at most by some lengths.
double axis_share(const Axis *axis, double value);

// The i-th tick as text, with the decimals that tell it from its neighbours.
void axis_label(char text[AXIS_LABEL_BYTES], const Axis *axis, int i);

#endif
