// Writes the figures of a report as SVG files for a paper: accuracy.svg and loss.svg by round, or by what rounds cost,
// with bands over the seeds, classes.svg, the data of each client in the first run, and clients.svg, the accuracy of
// each client by algorithm. They show the data of the page.
#ifndef SOUNDER_APP_LOOK_FIGURES_H
#define SOUNDER_APP_LOOK_FIGURES_H

#include <jansson.h>

#include "base/err.h"
#include "io/durable.h"

// The x axis of curves. A round of several runs is drawn at the mean of their values.
typedef enum FigureAxis {
    AXIS_ROUND,
    AXIS_SECONDS,
    AXIS_SIMULATED,
    AXIS_MEGABYTES,
    AXIS_JOULES,
    AXIS_TOKENS
} FigureAxis;

// report: the data of the page (html_report.c). Creates the folder. Replaces files of an earlier report and removes
// those for which these runs have no data; any other file of that name is kept (CANTCREATE). NOINPUT if nothing can be
// drawn.
Status figures_write(const char *folder, const json_t *report, FigureAxis axis, Error *err);

// Whether no file of the folder has this name, or an earlier report wrote it: its beginning then has the mark.
bool report_may_write(const Folder *folder, const char *name, const char *mark);

#endif
