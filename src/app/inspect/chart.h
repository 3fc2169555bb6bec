// Curves with bands over an x axis, drawn as SVG: axes with ticks, a grid, a legend below.
//
//   Curve curve = {.label = "alpha 0.1", .points = points, .count = 200};
//   Chart chart = {.title = "Loss by round", .x_title = "round", .y_title = "loss", .logarithmic = true,
//                  .curves = &curve, .count = 1, .reference = NAN};
//   chart_draw(file, &chart);
//
// Everything is borrowed. Colours are Okabe and Ito's, and lines differ in their dashes, too: the same as on the page
// (page/figure.js).
#ifndef SOUNDER_APP_INSPECT_CHART_H
#define SOUNDER_APP_INSPECT_CHART_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "app/inspect/axis.h"

typedef struct CurvePoint {
    double x, y;      // NaN y: the curve has no point there
    double low, high; // of the band; NaN: none there
} CurvePoint;

typedef struct Curve {
    const char *label;
    const CurvePoint *points; // by ascending x
    size_t count;
} Curve;

typedef struct Chart {
    const char *title, *x_title, *y_title;
    const Curve *curves;
    size_t count;
    bool logarithmic;   // y, if all points are above 0
    double least, most; // y never shows less or more; both 0: it shows any
    double reference;   // a thin level line, such as the target; NaN: none
    const char *reference_label;
} Chart;

// The axes that chart_draw will give the chart. Bands widen the y axis, but a logarithmic one by no more than a half
// below the lowest point: the rest of such a band is cut.
void chart_axes(Axis *x, Axis *y, const Chart *chart);

// Nothing is drawn of a chart without points (chart_has_points).
bool chart_has_points(const Chart *chart);
void chart_draw(FILE *file, const Chart *chart);

#endif
