// Results of a model's tests on the clients' own samples (rounds_evaluate_clients), over all clients that have such
// samples. Every client counts the same.
//
//   TRY(rounds_evaluate_clients(&rounds, round, EVALUATE_PERSONAL, false, err));
//   TRY(client_tests_measure(&tests, &memory, err));
#ifndef SOUNDER_APP_TRAIN_CLIENT_TESTS_H
#define SOUNDER_APP_TRAIN_CLIENT_TESTS_H

#include "base/err.h"
#include "fedavg/memory/run_memory.h"
#include "fedavg/rules/combine/fairness.h"

typedef struct ClientTests {
    uint32_t clients;       // clients with samples; 0: none has any, or none was tested
    uint32_t untested;      // clients without samples
    uint32_t never_trained; // of the clients: with personal models, those that have never trained
    uint32_t clusters;      // models that the clients have taken (personal clusters); 1: there is one
    int64_t clients_of[PERSONAL_MOST_CLUSTERS]; // of the clients: those of each of several models
    uint64_t samples, hits;                     // sums over all clients
    double loss_sum;                            // sum over the samples
    bool judged;                                // whether the tests count hits; otherwise the accuracy's mean is NaN
    MetricSums metrics;                         // of a trainer, over the samples of all clients
    // Over the clients, by the size of the figure: the best tenth has the largest losses. The means are NaN without
    // clients.
    Fairness accuracy, loss;
} ClientTests;

ClientTests client_tests_none(void);

// The jobs in the memory's queue are the clients' tests. Only jobs of personal models tell whether a client has
// trained. OS; DATA for more metrics than there may be.
Status client_tests_measure(ClientTests *tests, const RunMemory *memory, Error *err);

#endif
