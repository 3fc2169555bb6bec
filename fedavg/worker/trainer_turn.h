// Trains and tests by the run's trainer, a program of the user's, in place of the engine.
#ifndef SOUNDER_FEDAVG_WORKER_TRAINER_TURN_H
#define SOUNDER_FEDAVG_WORKER_TRAINER_TURN_H

#include "fedavg/worker/local_step.h"

// After a fault, which model->by.fault says, the result is NAN or zeros, and the job has to be done again.
double trainer_turn_train(LocalModel *model, const LocalStep *step, const uint32_t *indices, uint32_t count,
                          uint32_t client, uint32_t epochs, uint32_t round);
void trainer_turn_evaluate(LocalModel *model, BatchResult *result, const float *weights, const Batch *batch,
                           const char *part, uint32_t client);

// After the training of a job: the rule's turn, and the job, get the steps that the trainer made in place of those that
// were planned; the vectors get the mean of its gradients, if it has told them.
void trainer_turn_count_steps(LocalModel *model, Job *job, LocalTurn *turn, LocalVectors *at, uint32_t round);

// begin clears what the trainer has told before a job's first turn; end copies it into the job before queue_finish.
// Both do nothing without a trainer.
void trainer_turn_begin_job(LocalModel *model);
void trainer_turn_end_job(const LocalModel *model, Job *job);

#endif
