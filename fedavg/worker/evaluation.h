// What a worker evaluates: the global model on the test set, or on a client's own samples, before and after training.
#ifndef SOUNDER_FEDAVG_WORKER_EVALUATION_H
#define SOUNDER_FEDAVG_WORKER_EVALUATION_H

#include "fedavg/worker/client.h"

// Does what job->task says and finishes the job with loss_sum, hits and samples. The sums are made in the same order by
// whichever worker, so that the same bits come out.
void evaluation_run(LocalModel *model, Job *job, uint32_t round);

// The samples that a job about a client is to be evaluated on, and how they are called in the metrics.
const uint32_t *evaluation_samples(const Partition *partition, const Job *job, uint32_t *count);
const char *evaluation_data_name(const Partition *partition);

// The round whose shuffles and dropout a training draws that belongs to no round: no round has this number, and the keys
// of the round's own training stay untouched.
static inline uint32_t evaluation_round(uint32_t round) {
    return round | 1u << 31;
}

#endif
