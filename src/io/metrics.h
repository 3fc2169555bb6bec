// RUN/metrics.jsonl: one JSON object per line, appended during the run, each line with one write(2).
//
//   JsonObject round;
//   metrics_begin(&round, "round");                // "type" and "time", the first fields of every line
//   put_real(&round, "seconds", 0.5);
//   TRY(metrics_append(&metrics, &round, err));    // also reports a field that could not be added
//   metrics.on_line = look; metrics.context = &eyes;   // look is called with every line written from here on
//
// A new run creates the file and refuses an existing one. A resumed run reopens its file, which removes a torn last
// line, every line of a round after `rounds_done`, and the summary. Call metrics_sync before each checkpoint, so that
// the disk has the lines of all rounds of that.
//
// All readers skip lines that no run can have written, with one warning per file that names the first of them.
#ifndef SOUNDER_IO_METRICS_H
#define SOUNDER_IO_METRICS_H

#include <stdint.h>

#include "base/err.h"
#include "io/durable.h"
#include "io/json.h"

// The format of a run's folder, which the first line tells ("schema") with the version that wrote it ("sounder"). Raise
// it when a change of config.yaml, metrics.jsonl or checkpoints keeps this program from reading runs made before.
enum { METRICS_SCHEMA = 1 };

// DATA, with the version that reads it, if the run in the folder with this path has another format. A run without a
// first line has none yet. NOINPUT if the folder cannot be opened.
Status metrics_check_format(const char *path, Error *err);

// Significant digits of a real number in a line.
enum { METRICS_DIGITS = 10 };

typedef struct Metrics {
    int fd; // owned
    char path[4096];
    void (*on_line)(void *context, const json_t *line); // NULL: unused
    void *context;
} Metrics;

// Fails with CANTCREATE if the file exists or cannot be created, and as file_check_own does.
Status metrics_create(Metrics *metrics, const Folder *folder, Error *err);
Status metrics_reopen(Metrics *metrics, const Folder *folder, uint32_t rounds_done, Error *err);

// The run's progress according to the file.
typedef struct MetricsPast {
    json_t *start;   // its last line "start", owned; NULL: there is none
    json_t *summary; // its last line if that is a "summary", owned; NULL: it is none
    uint32_t round;  // the highest round with a "round" line; 0: none
} MetricsPast;

// Without a file, the result is empty. On failure there is nothing to free.
Status metrics_past(MetricsPast *past, const Folder *folder, Error *err);
void metrics_past_free(MetricsPast *past);

// Calls visit for every whole line whose type is one of `types` (NULL-terminated; NULL: any type), in order. Lines of
// other types are not parsed, and lines that are appended during the visit are not read. Stops at the first failure of
// visit. No file counts as no lines.
Status metrics_visit(const Folder *folder, const char *const *types,
                     Status (*visit)(void *context, json_t *line, Error *err), void *context, Error *err);

// Does this for the run whose folder has this path. NOINPUT if the folder cannot be opened.
Status metrics_visit_run(const char *path, const char *const *types,
                         Status (*visit)(void *context, json_t *line, Error *err), void *context, Error *err);

// Whether a line has this type. Lines may be edited, so any key may have any type or lack.
bool metrics_is(const json_t *line, const char *type);

// Begins a line with its first fields: type and time of day, as 2026-11-22T01:18:15.123Z.
void metrics_begin(JsonObject *line, const char *type);

// Appends the object and a newline, and frees the object, also on failure. Fails with IO, the path and the reason, and
// as json_text does.
Status metrics_append(Metrics *metrics, JsonObject *line, Error *err);

// Has the disk take all lines so far. Fails with IO and the path.
Status metrics_sync(const Metrics *metrics, Error *err);
void metrics_close(Metrics *metrics);

#endif
