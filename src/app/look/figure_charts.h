// The charts that the figures of runs may have: of each figure that a run may be about, and of a trainer's metrics. The
// drawings of `report --svg` and the report's page are made of one list.
#ifndef SOUNDER_APP_LOOK_FIGURE_CHARTS_H
#define SOUNDER_APP_LOOK_FIGURE_CHARTS_H

#include "app/options/run_figure.h"
#include "io/json.h"

enum { FIGURE_CHARTS_MOST = 48, CHART_TEXT_BYTES = 128 };

typedef struct FigureChart {
    RunFigure figure;
    char key[FIGURE_KEY_BYTES];   // of a round's line
    char file[CHART_TEXT_BYTES];  // "validation-macro-f1", without an ending
    char title[CHART_TEXT_BYTES]; // "Macro F1 on the validation samples"
    char axis[CHART_TEXT_BYTES];  // "macro F1 on the validation samples, %"
} FigureChart;

typedef struct FigureCharts {
    FigureChart all[FIGURE_CHARTS_MOST];
    size_t count;
} FigureCharts;

// Lists the charts, that of the loss on the test set last: it is beside the others.
void figure_charts_list(FigureCharts *list);

// Adds them as an array to the report, for page/report.js.
void figure_charts_put(JsonObject *report);

// Whether curves show the figure: those that runs may be about, and the success of an attack.
static inline bool figure_is_drawn(const Figure *row) {
    return figure_is_goal(row) || row->of == FIGURE_OF_ATTACK;
}

#endif
