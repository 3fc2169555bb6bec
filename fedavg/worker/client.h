// A client's local training, on whichever worker it happens to run: virtual clients.
//
// The model is the worker's working memory, reused for one client after another. A client's result depends on
// the global weights, its samples and (seed, round, client) alone: any worker, any time, gives the same bits.
#ifndef SOUNDER_FEDAVG_WORKER_CLIENT_H
#define SOUNDER_FEDAVG_WORKER_CLIENT_H

#include "fedavg/worker/local_model.h"

// The slots of fedavg: a sum a worker, or a row a client where the combine rule wants them.
void client_plan(SlotPlan *slots, const RunConfig *config);

// FedAvg: trains job->client from the shared weights for the local epochs with a fresh optimizer, adds its exact
// weighted update to this rank's slot and finishes the job: as done, or as refused (said in the log, the slot as
// before) when the update is not finite or out of range.
void client_train(LocalModel *model, Job *job, uint32_t round);

#endif
