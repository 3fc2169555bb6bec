// A client's own part of the model, or its own model, around and beside its training (rules/local/personal_rules.h).
#ifndef SOUNDER_FEDAVG_WORKER_PERSONAL_H
#define SOUNDER_FEDAVG_WORKER_PERSONAL_H

#include "fedavg/worker/local_model.h"

// model->weights are the global ones: those that stay with the client become its own. So does a second model that is
// trained at the same time.
void personal_begin(LocalModel *model, const Job *job);

// The client has been trained: what stays goes into its new row, and nothing of it is sent. A second model is trained
// here, from the client's row.
void personal_conclude(LocalModel *model, const Job *job, uint32_t round);

// A GPU has written the parameters that stay into the client's new row: one that is not finite stays as it was.
void personal_settle(const RunMemory *memory, const Job *job);

// The parameters that stay with the client become global again in its weights (parameters), and so do frozen ones.
void personal_withhold(float *weights, const RunMemory *memory);

// model->weights become the client's personal model: for evaluation.
void personal_load(LocalModel *model, const Job *job);

// The round whose shuffles and dropout the training of a second model or of a head alone draws: no round has this
// number, so that the keys of the round's own training stay untouched (evaluation_round: those of a test's).
static inline uint32_t personal_round(uint32_t round) {
    return round | 1u << 30;
}

#endif
