// The parent's service for the trainers of its workers, beside its own loop: it reads their output (output.h).
//
//   TRY(trainer_host_open(&host, err));                     // before any trainer starts
//   TRY(trainer_host_add_workers(&host, workers, err));     // the supervisor watches host.polls
//   trainer_host_serve(&host);                              // in the parent's loop
//   trainer_host_close(&host);
#ifndef SOUNDER_FEDAVG_TRAINER_HOST_H
#define SOUNDER_FEDAVG_TRAINER_HOST_H

#include "base/err.h"
#include "fedavg/trainer/output.h"

typedef struct TrainerHost {
    TrainerOutput output;
    struct pollfd *polls; // owned (poll_count): what the parent's loop waits for
    uint32_t poll_count;
    bool failed; // a trainer has ended the run: that of failed_rank
    int failed_rank;
} TrainerHost;

Status trainer_host_open(TrainerHost *host, Error *err);
Status trainer_host_add_workers(TrainerHost *host, uint32_t workers, Error *err);
void trainer_host_serve(TrainerHost *host);
// The trainer of this rank has ended the run.
void trainer_host_blame(TrainerHost *host, int rank);

void trainer_host_close(TrainerHost *host);

#endif
