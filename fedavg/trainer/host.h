// The parent's service for the trainers of its workers, beside its own loop: it reads their output (output.h)
// and watches the nursery that forks them (nursery.h).
//
//   TRY(trainer_host_open(&host, err));                     // before any trainer starts
//   TRY(trainer_host_add_workers(&host, workers, err));     // the supervisor watches host.polls
//   TRY(trainer_host_rehearse(&host, memory, first, err));  // opens the nursery, if there is one
//   TRY(trainer_host_serve(&host, err));                    // in the parent's loop
//   trainer_host_close(&host);
#ifndef SOUNDER_FEDAVG_TRAINER_HOST_H
#define SOUNDER_FEDAVG_TRAINER_HOST_H

#include "base/err.h"
#include "fedavg/trainer/nursery.h"
#include "fedavg/trainer/output.h"

typedef struct TrainerHost {
    TrainerOutput output;
    Nursery nursery;
    struct pollfd *polls; // owned (poll_count): what the parent's loop waits for
    uint32_t poll_count;
    bool failed; // a trainer has ended the run: that of failed_rank
    int failed_rank;
} TrainerHost;

Status trainer_host_open(TrainerHost *host, Error *err);
Status trainer_host_add_workers(TrainerHost *host, uint32_t workers, Error *err);

// Waits until the nursery forks, or cannot. first: as for nursery_begin. Fails with the program's sentence.
Status trainer_host_rehearse(TrainerHost *host, const RunMemory *memory, const float *first, Error *err);

Status trainer_host_serve(TrainerHost *host, Error *err);

// Ends the nursery; workers and their trainers have ended.
void trainer_host_end(TrainerHost *host);
// The trainer of this rank has ended the run.
void trainer_host_blame(TrainerHost *host, int rank);

void trainer_host_close(TrainerHost *host);

#endif
