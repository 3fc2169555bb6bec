// RUN/metrics.jsonl: one JSON object a line, appended as the run goes, each line one write(2).
//
//   json_t *round = json_pack("{s:i, s:f}", "round", 1, "seconds", 0.5);
//   TRY(metrics_append(&metrics, round, err));     // steals the reference
//
// Opening a file that exists (resume) removes a torn last line and every line of a round after `rounds_done`.
#ifndef SOUNDER_IO_METRICS_H
#define SOUNDER_IO_METRICS_H

#include <jansson.h>
#include <stdint.h>

#include "base/err.h"

typedef struct Metrics {
    int fd; // owned
    char path[4096];
} Metrics;

Status metrics_open(Metrics *metrics, const char *path, uint32_t rounds_done, Error *err);

// A JSON number, or null for a NaN or an infinity, which JSON does not have.
json_t *metrics_real(double value);

// Appends the object and a newline; takes over the reference, also on failure. IO with the path and the reason.
Status metrics_append(Metrics *metrics, json_t *object, Error *err);
void metrics_close(Metrics *metrics);

#endif
