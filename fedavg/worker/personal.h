// A client's own part of the model, or its own model, around and beside its training (rules/personal_rules.h).
#ifndef SOUNDER_FEDAVG_WORKER_PERSONAL_H
#define SOUNDER_FEDAVG_WORKER_PERSONAL_H

#include "fedavg/worker/client.h"

// model->weights are the global ones: those that stay with the client become its own.
void personal_begin(LocalModel *model, const Job *job);

// The client has been trained: what stays goes into its new row, and nothing of it is sent. A second model is trained
// here, from the client's row.
void personal_conclude(LocalModel *model, const Job *job, uint32_t round);

// model->weights become the client's personal model: for evaluation.
void personal_load(LocalModel *model, const Job *job);

#endif
