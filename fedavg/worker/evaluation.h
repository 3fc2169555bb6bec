// A worker evaluates for the parent, by the task of a job: the global model on the test set, or on a client's own
// samples, before and after training; and, for rules that trust the server, trains its own model.
#ifndef SOUNDER_FEDAVG_WORKER_EVALUATION_H
#define SOUNDER_FEDAVG_WORKER_EVALUATION_H

#include "fedavg/worker/local_model.h"

// Does what job->task says and finishes the job with loss_sum, hits and samples. Every worker makes the sums in the
// one order, so that no bit depends on it.
void evaluation_run(LocalModel *model, Job *job, uint32_t round);

// The round whose shuffles and dropout a training before a test draws: no round has this number (personal_round).
static inline uint32_t evaluation_round(uint32_t round) {
    return round | 1u << 31;
}

#endif
