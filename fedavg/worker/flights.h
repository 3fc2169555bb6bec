// What a worker does on the real clock (schedule buffered, --clock real): it takes the client that it is given, trains
// it from the newest version of the model there is, and lands; the parent (parent/real_clock.h) takes the update from
// its row and gives it the next client, while the others train on.
//
//   rows (RunConfig.slots):  [0, workers) what each worker has trained; [workers, 2 workers) what it began with;
//                            then the two last versions of the model, the even and the odd one
//
// The parent writes a version over the last but one, so that a worker that copies the newest one reads what nobody
// writes; one that was kept so long that the next but one has begun copies again.
#ifndef SOUNDER_FEDAVG_WORKER_FLIGHTS_H
#define SOUNDER_FEDAVG_WORKER_FLIGHTS_H

#include "fedavg/worker/client.h"

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
