// Hogwild (Niu, Recht, Re, Wright 2011): all workers train one weight array at once, without locks.
//
// A worker reads the shared weights while others write them, computes a gradient, and writes its step: with plain
// vector loads and stores (another worker's write in between is lost) or with one compare-and-swap per weight. Momentum
// is private to a client and lives in its slot, so that it survives the worker and goes into checkpoints.
//
// Private steps (Downpour, Dean et al. 2012, on one memory): a worker copies the shared weights, takes so many steps on
// its copy, adds what they have changed to the shared weights, as one update, and copies them again.
//
// A bound (stale synchronous parallel, Ho et al. 2013): a worker that is more than so many updates ahead of the slowest
// waits for it before it reads. Every other worker then makes at most 2 bound + 1 updates between its read and its
// write. Nobody waits for who has ended its round, or is dead; a replacement joins where the slowest is.
//
// Staleness of an update: how many updates of others landed between its read and its write. Updates are counted
// exactly.
#ifndef SOUNDER_FEDAVG_WORKER_HOGWILD_H
#define SOUNDER_FEDAVG_WORKER_HOGWILD_H

#include "fedavg/worker/local_model.h"

// Trains job->client's samples for the local epochs on the shared weights and finishes the job. Steps whose gradient is
// not finite are not applied; they are counted in the tally.
void hogwild_train(LocalModel *model, Job *job, uint32_t round);

// Whether the worker waits for others that are still too far behind. One that they have reached and that does not go on
// hangs.
bool hogwild_waits(const Control *control, uint32_t rank);

#endif
