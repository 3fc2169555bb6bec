// The figures of a report that have a row for each client: who has which data, and how good each is by algorithm.
#ifndef SOUNDER_APP_LOOK_FIGURE_CLIENTS_H
#define SOUNDER_APP_LOOK_FIGURE_CLIENTS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

#include "base/err.h"

// runs: the list of the report. Write an SVG file of the classes that clients of the first run have, and of the
// accuracy of each client, a dot for each group of runs. *drawn: whether there was something to draw.
Status figure_of_classes(FILE *file, bool *drawn, const json_t *runs, Error *err);
Status figure_of_clients(FILE *file, bool *drawn, const json_t *runs, Error *err);

#endif
