// Lines of metrics.jsonl as former versions wrote them.
//
// The line "start" names the run's loss since the squared loss of targets is the mean square, as PyTorch's MSELoss is.
// Before that it was half of it. Readers (metrics.h) see such losses doubled, so that runs of both kinds compare.
#ifndef SOUNDER_IO_METRICS_FORMER_H
#define SOUNDER_IO_METRICS_FORMER_H

#include <stdbool.h>
#include <stdio.h>

#include "io/json.h"

// Whether this text is a line "start" at all; whether its process wrote mean squares.
bool metrics_text_starts(const char *text);
bool metrics_text_names_loss(const char *text);

// Whether a line, or some line of a record, tells of targets: it has a root of the mean square. Reads the file to its
// end.
bool metrics_text_tells_of_targets(const char *text);
bool metrics_tells_of_targets(FILE *file);

// Doubles the losses of a line.
void metrics_double_losses(json_t *line);

#endif
