// A client as a replica that trains on while a fragment of its weights is away (rules/local/fragments.h). Its row keeps
// its weights and, in one more float, the round of its last turn.
#ifndef SOUNDER_FEDAVG_WORKER_STREAMING_H
#define SOUNDER_FEDAVG_WORKER_STREAMING_H

#include "fedavg/worker/local_step.h"

// Floats of a replica in a client's row.
uint64_t streaming_floats(const RunConfig *config);

// model->weights, the global ones, become the replica's. The fragment that it gave in the round before is mixed with
// the server's values here, or late in the turn, as `step` then says. A replica that has missed rounds takes the
// fragments that were stepped meanwhile as the server has them.
void streaming_begin(LocalModel *model, LocalStep *step, const Job *job, uint32_t round);

// In the middle of a turn whose step says so.
void streaming_mix(LocalModel *model, const LocalStep *step);

// The replica goes into the client's new row, and all but this round's fragment becomes global in model->weights. A
// replica with a weight that no update may have keeps its weights, which the run then refuses.
void streaming_conclude(LocalModel *model, const Job *job, uint32_t round);

// All but this round's fragment becomes global in weights (parameters).
void streaming_withhold(float *weights, const RunMemory *memory, uint32_t round);

#endif
