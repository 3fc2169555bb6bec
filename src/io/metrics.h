// RUN/metrics.jsonl: one JSON object a line, appended as the run goes, each line one write(2).
//
//   JsonObject round;
//   metrics_begin(&round, "round");                // "type" and "time", with which every line begins
//   put_real(&round, "seconds", 0.5);
//   TRY(metrics_append(&metrics, &round, err));    // a field that could not be added shows here
//   metrics.on_line = look; metrics.context = &eyes;   // who wants every line that was written from here on
//
// A new run creates the file and never finds one. A run that goes on reopens its own, which removes a torn last line,
// every line of a round after `rounds_done`, and the summary.
//
// A line that no run can have written is left out by all readers, with one warning for a file that names the first.
#ifndef SOUNDER_IO_METRICS_H
#define SOUNDER_IO_METRICS_H

#include <stdint.h>

#include "base/err.h"
#include "io/durable.h"
#include "io/json.h"

// Significant digits of a real number in a line.
enum { METRICS_DIGITS = 10 };

typedef struct Metrics {
    int fd; // owned
    char path[4096];
    void (*on_line)(void *context, const json_t *line); // NULL: unused
    void *context;
} Metrics;

// CANTCREATE when there is one already, or it cannot be made; what file_check_own says.
Status metrics_create(Metrics *metrics, const Folder *folder, Error *err);
Status metrics_reopen(Metrics *metrics, const Folder *folder, uint32_t rounds_done, Error *err);

// The run so far, as the file tells it.
typedef struct MetricsPast {
    json_t *start;   // its last "start" line, owned; NULL: none
    json_t *summary; // its last line if that is a "summary", owned; NULL: it is none
    uint32_t round;  // the last that has a "round" line; 0: none
} MetricsPast;

// A file that is not there tells nothing. Nothing to free on failure.
Status metrics_past(MetricsPast *past, const Folder *folder, Error *err);
void metrics_past_free(MetricsPast *past);

// All whole lines of the file in folder, as an array that is the caller's to json_decref. NOINPUT without a file, or
// with one that has no line.
Status metrics_read(json_t **lines, const Folder *folder, Error *err);

// Calls visit for every whole line whose type is one of `types` (which end with NULL), in order; others are not even
// parsed, nor are lines that come meanwhile seen. Ends with the first failure of visit. A file that is not there has no
// lines.
Status metrics_visit(const Folder *folder, const char *const *types,
                     Status (*visit)(void *context, json_t *line, Error *err), void *context, Error *err);

// A line's first fields: its type, and the time of the day as 2026-11-22T01:18:15.123Z.
void metrics_begin(JsonObject *line, const char *type);

// Appends the object and a newline; the object is gone, also on failure. IO with the path and the reason; what
// json_text says.
Status metrics_append(Metrics *metrics, JsonObject *line, Error *err);
void metrics_close(Metrics *metrics);

#endif
