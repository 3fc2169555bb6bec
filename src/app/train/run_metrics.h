// Writes metrics.jsonl: one "client" object per client and round, one "round" object per round, a "summary" at the end.
// `sounder help metrics` explains the fields.
#ifndef SOUNDER_APP_TRAIN_RUN_METRICS_H
#define SOUNDER_APP_TRAIN_RUN_METRICS_H

#include <stdbool.h>

#include "app/train/round_test.h"
#include "fedavg/parent/rounds.h"
#include "io/metrics.h"

typedef struct RunSummary {
    uint32_t rounds;
    double seconds;            // of the run's processes, from start to end; NaN: unknown
    double cold_start_seconds; // from the process's start to the first sample of the first worker
    uint32_t workers_lost;     // in the run's processes
    const RoundTest *last;     // results of the last tests
    const RoundTest *final;    // results of the final model, and of the best one if it was tested, on the test set
    const RoundTest *best_final;
    double *f1;      // owned (classes): F1 of each class there; NULL: unknown
    double *recalls; // owned (classes): accuracy of the final model on the test samples of each class; NULL: unknown
    const Options *options;
    const RunFigure *figure;  // that the run is about
    const char *model_sha256; // of model.safetensors
    const char *device;       // name of the device
    uint64_t worker_bytes;    // worker_private_bytes while the workers lived; 0: unknown
    uint64_t trainer_bytes;   // trainer_private_bytes, then; 0: unknown
    bool forks;               // trainers were forks of one program
    double measured_joules;   // of this machine during the run's processes; NaN: not measured, or unknown
} RunSummary;

// Adds {"name": value, ...} of a trainer, if there are metrics; NULL: there are none.
void put_metrics(JsonObject *line, const char *key, const MetricSums *metrics);

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

Status report_summary(Metrics *metrics, const RunMemory *memory, const RunSummary *summary, Error *err);

#endif
