// What a worker evaluates: the global model on the test set, or on a client's own samples.
#ifndef SOUNDER_FEDAVG_WORKER_EVALUATION_H
#define SOUNDER_FEDAVG_WORKER_EVALUATION_H

#include "fedavg/worker/client.h"

// Does what job->task says and finishes the job with loss_sum, hits and samples. The sums are made in the same order by
// whichever worker, so that the same bits come out.
void evaluation_run(LocalModel *model, Job *job);

#endif
