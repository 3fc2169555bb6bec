// Results of a model's tests on the clients' own samples (rounds_evaluate_clients), over all clients that have such
// samples. Every client counts the same.
//
//   TRY(rounds_evaluate_clients(&rounds, round, EVALUATE_PERSONAL, false, err));
//   TRY(client_tests_measure(&tests, &memory, err));
#ifndef SOUNDER_APP_TRAIN_CLIENT_TESTS_H
#define SOUNDER_APP_TRAIN_CLIENT_TESTS_H

#include "base/err.h"
#include "fedavg/figures/round_facts.h"
#include "fedavg/memory/run_memory.h"

ClientTests client_tests_none(void);

// The jobs in the memory's queue are the clients' tests. Only jobs of personal models tell whether a client has
// trained. OS; DATA for more metrics than there may be.
Status client_tests_measure(ClientTests *tests, const RunMemory *memory, Error *err);

#endif
