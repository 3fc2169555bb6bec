// The figures of a report as SVG files for a paper, drawn by gnuplot: accuracy and loss by round with bands over the
// seeds, and who has which data in the first run. FOLDER/figures.gp, which makes them, is left there with its data: who
// wants another look changes it and runs gnuplot again.
#ifndef SOUNDER_APP_LOOK_FIGURES_H
#define SOUNDER_APP_LOOK_FIGURES_H

#include <jansson.h>

#include "base/err.h"

// report: what the page shows (report.c). Makes the folder. UNAVAILABLE without gnuplot; files that are there already
// and that this has not made are not written over (CANTCREATE).
Status figures_write(const char *folder, const json_t *report, Error *err);

#endif
