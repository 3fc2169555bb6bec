// Runs with several models, one for each cluster of clients (IFCA).
#ifndef SOUNDER_FEDAVG_WORKER_CLUSTERS_H
#define SOUNDER_FEDAVG_WORKER_CLUSTERS_H

#include "fedavg/worker/local_model.h"

// Where a run has several models: the one with the least loss on what the job's client trains on becomes the model of
// model->memory, and job->cluster. Its view has begun. Otherwise nothing changes.
void cluster_choose(LocalModel *model, Job *job, uint32_t round);

#endif
