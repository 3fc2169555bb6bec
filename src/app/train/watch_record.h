// The record as another watcher reads it.
#ifndef SOUNDER_APP_TRAIN_WATCH_RECORD_H
#define SOUNDER_APP_TRAIN_WATCH_RECORD_H

#include <jansson.h>

struct Run;

// From now on on_line is called with each line that is written to metrics.jsonl. After MOMENT_START of the record.
void record_follow(const struct Run *run, void (*on_line)(void *context, const json_t *line), void *context);

#endif
