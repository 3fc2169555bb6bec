// Trains a model on samples of a client, step by step, by the engine or by the run's trainer.
#ifndef SOUNDER_FEDAVG_WORKER_LOCAL_TRAIN_H
#define SOUNDER_FEDAVG_WORKER_LOCAL_TRAIN_H

#include "fedavg/worker/local_step.h"

// Trains the model on the samples of the client whose view has begun, with a fresh optimizer. Shuffles and dropout are
// those of `round`. Returns the sum of the losses.
double local_model_train(LocalModel *model, const LocalStep *step, uint32_t client, uint32_t epochs, uint32_t round);

// As local_model_train, on `indices` (count); shuffles and dropout are keyed by `client`.
double local_model_train_on(LocalModel *model, const LocalStep *step, const uint32_t *indices, uint32_t count,
                            uint32_t client, uint32_t epochs, uint32_t round);

#endif
