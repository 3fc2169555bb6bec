// The measurements of a round, from which figures (figure.h) take their values.
#ifndef SOUNDER_FEDAVG_FIGURES_ROUND_FACTS_H
#define SOUNDER_FEDAVG_FIGURES_ROUND_FACTS_H

#include <stdbool.h>
#include <stdint.h>

#include "fedavg/rules/combine/fairness.h"
#include "fedavg/rules/local/personal_rules.h"
#include "fedavg/rules/metric_sums.h"
#include "nn/answers.h"

// Results of a model's tests on the clients' own samples, over all clients that have some. Each client counts once.
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

// Results of a round's tests; NaN if not tested, or if there is no such figure.
typedef struct RoundTest {
    bool tested, has_targets;
    bool validates;        // the global model was tested on the validation set
    bool judged;           // whether tests count hits: not with targets, and a trainer's need not
    double loss, accuracy; // of the global model; no accuracy if hits are not counted
    double rmse, r2;       // with targets only
    AnswerFigures figures; // of the global model's answers
    double attack_success; // success of a backdoor
    MetricSums metrics;    // of a trainer
    ClientTests personal;  // the clients' own models on the clients' own samples
    ClientTests clients;   // the global model on the clients' own samples
    // The global model on the samples of clients that never train, and after further training on those.
    ClientTests new_clients, new_tuned;
} RoundTest;

struct Figure;

// Plain data; all pointers are borrowed.
typedef struct RoundFacts {
    const RoundTest *test;      // nothing but NaN and zeros in a round without a test
    const struct Figure *about; // the figure that the run is about; NULL: none of this test
} RoundFacts;

#endif
