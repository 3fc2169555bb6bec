// Curves with bands over an x axis, drawn as SVG: axes with ticks, a grid, a legend below.
//
//   Curve curve = {.label = "alpha 0.1", .points = points, .count = 200};
//   Chart chart = {.title = "Loss by round", .x_title = "round", .y_title = "loss", .logarithmic = true,
//                  .curves = &curve, .count = 1, .reference = NAN};
//   chart_draw(file, &chart);
//
// Everything is borrowed. Colours are Okabe and Ito's, and lines also differ in their dashes, as on the page
// (page/figure.js).
#ifndef SOUNDER_APP_LOOK_CHART_H
#define SOUNDER_APP_LOOK_CHART_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "app/look/axis.h"

typedef struct CurvePoint {
    double x, y;      // NaN y: the curve has no point at x
    double low, high; // of the band; NaN: no band at x
} CurvePoint;

typedef struct Curve {
    const char *label;
    const CurvePoint *points; // sorted by x
    size_t count;
} Curve;

typedef struct Chart {
    const char *title, *x_title, *y_title;
    const Curve *curves;
    size_t count;
    bool fractions;   // the x axis may have ticks between whole numbers
    bool logarithmic; // logarithmic y axis, if all points are above 0
    double most;      // the y axis is from 0 to at most this; 0: no limits
    double reference; // y of a thin horizontal line, such as a target; NaN: none
    const char *reference_label;
} Chart;

// Computes the axes that chart_draw will use. Bands widen the y axis; below a logarithmic axis, a band is cut at half
// the lowest point.
void chart_axes(Axis *x, Axis *y, const Chart *chart);

// The colour of a curve by its number.
const char *chart_colour(size_t curve);

// A chart without points draws nothing: chart_has_points tells.
bool chart_has_points(const Chart *chart);
void chart_draw(FILE *file, const Chart *chart);

#endif
