// A worker on the real clock (schedule buffered, --clock real) takes the client that the parent gives it, trains it
// from the newest version of the model, and lands. The parent (parent/real_clock.c) takes the update from the worker's
// row and gives it the next client, while the others train on.
//
//   rows (RunConfig.slots):  [0, workers) the weights that each worker has trained; [workers, 2 workers) those that it
//                            began with; then the two last versions of the model, the even and the odd one
//
// The parent writes a version over the last but one, so that a worker that copies the newest one reads memory that no
// process writes. A worker that was held up until the next but one has begun copies again.
#ifndef SOUNDER_FEDAVG_WORKER_FLIGHTS_H
#define SOUNDER_FEDAVG_WORKER_FLIGHTS_H

#include "fedavg/worker/local_model.h"

static inline uint32_t flights_rows(uint32_t workers) {
    return 2 * workers + 2;
}

static inline uint32_t flights_begun_row(uint32_t workers, uint32_t rank) {
    return workers + rank;
}

static inline uint32_t flights_version_row(uint32_t workers, uint32_t version) {
    return 2 * workers + version % 2;
}

// Trains clients until the parent has all land.
void flights_train(LocalModel *model);

#endif
