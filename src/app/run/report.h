// What goes into metrics.jsonl: one "client" object a client and round, one "round" object a round, a last "summary".
// `sounder help metrics` says what their fields mean.
#ifndef SOUNDER_APP_RUN_REPORT_H
#define SOUNDER_APP_RUN_REPORT_H

#include <stdbool.h>

#include "fedavg/parent/rounds.h"
#include "io/metrics.h"
#include "shm/supervisor.h"

typedef struct RunSummary {
    uint32_t rounds;
    double seconds;            // of this process, start to end
    double cold_start_seconds; // from its start to the first sample of the first worker
    uint32_t workers_lost;
    const RoundReport *last;  // the last evaluated round
    const char *model_sha256; // of model.safetensors
    const char *device;       // its name
    int64_t worker_bytes;     // report_worker_bytes while they lived; 0: unknown
} RunSummary;

// The largest private memory of a living worker: what one more of them costs. Pages that all share, of the data set and
// the program, are not in it.
int64_t report_worker_bytes(const Supervisor *supervisor);

// The clients of the round just trained, from the queue: call before evaluation reuses it.
Status report_clients(Metrics *metrics, const RunMemory *memory, uint32_t round, Error *err);

// The evaluation of the clients' own samples, from the queue: a line a client, and one over all of them. model: which
// one was evaluated ("global", "fine-tuned").
Status report_client_evaluation(Metrics *metrics, const RunMemory *memory, uint32_t round, const char *model,
                                Error *err);

// evaluated: whether the report holds a test result (null otherwise). device: its name.
Status report_round(Metrics *metrics, const RunMemory *memory, const RoundReport *report, bool evaluated,
                    const char *device, Error *err);

Status report_summary(Metrics *metrics, const RunMemory *memory, const RunSummary *summary, Error *err);

#endif
