// What goes into metrics.jsonl: one "client" object a client and round, one "round" object a round, a last "summary".
// `sounder help metrics` says what their fields mean.
#ifndef SOUNDER_APP_TRAIN_RUN_METRICS_H
#define SOUNDER_APP_TRAIN_RUN_METRICS_H

#include <stdbool.h>

#include "app/train/round_test.h"
#include "fedavg/parent/rounds.h"
#include "io/metrics.h"
#include "shm/supervisor.h"

typedef struct RunSummary {
    uint32_t rounds;
    double seconds;            // of this process, start to end
    double cold_start_seconds; // from its start to the first sample of the first worker
    uint32_t workers_lost;
    const RoundTest *last;    // the last tests
    const char *model_sha256; // of model.safetensors
    const char *device;       // its name
    int64_t worker_bytes;     // report_worker_bytes while they lived; 0: unknown
} RunSummary;

// The largest private memory of a living worker: what one more of them costs. Pages that all share, of the data set and
// the program, are not in it.
int64_t report_worker_bytes(const Supervisor *supervisor);

// The clients of the round just trained, from the queue: call before evaluation reuses it.
Status report_clients(Metrics *metrics, const RunMemory *memory, uint32_t round, Error *err);

// The tests of a model on the clients' own samples: a line over all clients, before it, with `each`, one a client from
// the queue. model: which one was tested ("global", "personal", "fine-tuned").
Status report_client_tests(Metrics *metrics, const RunMemory *memory, uint32_t round, const char *model,
                           const ClientTests *tests, bool each, Error *err);

// test: what the round's tests have found, nulls where it had none. figure: the run's. device: its name.
Status report_round(Metrics *metrics, const RunMemory *memory, const RoundReport *report, const RoundTest *test,
                    RunFigure figure, const char *device, Error *err);

Status report_summary(Metrics *metrics, const RunMemory *memory, const RunSummary *summary, Error *err);

#endif
