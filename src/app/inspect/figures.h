// The figures of a report as SVG files for a paper: accuracy.svg and loss.svg by round, with bands over the seeds, and
// classes.svg, who has which data in the first run. They show what the page shows.
#ifndef SOUNDER_APP_INSPECT_FIGURES_H
#define SOUNDER_APP_INSPECT_FIGURES_H

#include <jansson.h>

#include "base/err.h"

// report: what the page shows (html_report.c). Makes the folder. Files that an earlier report made are replaced, or
// removed where these runs have nothing to draw; files of others are not (CANTCREATE). NOINPUT: there is nothing to
// draw.
Status figures_write(const char *folder, const json_t *report, Error *err);

#endif
