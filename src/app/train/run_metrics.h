// Writes metrics.jsonl: one "client" object per client and round, one "round" object per round (watch_record.c: a
// "start" before them, a "summary" at the end).
// `sounder help metrics` explains the fields.
#ifndef SOUNDER_APP_TRAIN_RUN_METRICS_H
#define SOUNDER_APP_TRAIN_RUN_METRICS_H

#include <stdbool.h>

#include "app/train/round_test.h"
#include "fedavg/parent/rounds.h"
#include "io/metrics.h"

// Adds {"name": value, ...} of a trainer, if there are metrics; NULL: there are none.
void put_metrics(JsonObject *line, const char *key, const MetricSums *metrics);

// Adds the figures of one kind that the line lists, under their keys after the prefix.
void put_figures_of(JsonObject *line, FigureOf of, const RoundFacts *facts, const char *prefix);

// Adds all figures of a round's test, nulls if there was none. figure: the run's.
void put_test(JsonObject *line, const RoundTest *test, const RunFigure *figure);

// Writes the clients of the round just trained, from the queue: call it before evaluation reuses the queue.
Status report_clients(Metrics *metrics, const RunMemory *memory, uint32_t round, Error *err);

// Writes the tests of a model on the clients' own samples: one line over all clients, preceded, with `each`, by one
// line per client from the queue. model: the tested one ("global", "personal", "fine-tuned").
Status report_client_tests(Metrics *metrics, const RunMemory *memory, uint32_t round, const char *model,
                           const ClientTests *tests, bool each, Error *err);

// The costs of all processes of the run so far. NaN: unknown.
typedef struct RunCosts {
    double seconds, joules; // of wall time; measured
} RunCosts;

// test: results of the round's tests, nulls if there were none. figure: the run's. device: its name.
Status report_round(Metrics *metrics, const RunMemory *memory, const RoundReport *report, const RoundTest *test,
                    const RunFigure *figure, const char *device, RunCosts costs, Error *err);

#endif
