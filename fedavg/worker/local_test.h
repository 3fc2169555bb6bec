// A model is tested on some samples, by the engine or by the run's trainer.
#ifndef SOUNDER_FEDAVG_WORKER_LOCAL_TEST_H
#define SOUNDER_FEDAVG_WORKER_LOCAL_TEST_H

#include "fedavg/worker/local_model.h"

// The samples that a job about a client is to be evaluated on: indices (count), borrowed, of the test set or of the
// training set.
typedef struct ClientSamples {
    const uint32_t *indices;
    uint32_t count;
    bool of_test_set;
} ClientSamples;

ClientSamples local_test_samples(const RunMemory *memory, const Job *job, uint32_t round);

// Returns the name of these samples in the metrics.
const char *local_test_data_name(const Partition *partition);

// Tests the weights (parameters) on samples of the client (VIEW_TEST_SET: of none), in parts of EVALUATION_CHUNK.
BatchResult local_test(LocalModel *model, const float *weights, const ClientSamples *samples, uint32_t client);

// The same on one batch as the data set has it: the model sees it by the view that has begun. part: what a trainer is
// told that it is.
void local_test_batch(LocalModel *model, BatchResult *result, const float *weights, const Batch *batch,
                      const char *part, uint32_t client);

#endif
