#include "client_tests.h"

#include <math.h>
#include <stdlib.h>

#include "fedavg/memory/client_state_file.h"
#include "fedavg/memory/state.h"

ClientTests client_tests_none(void) {
    return (ClientTests){.loss_sum = NAN, .accuracy = {.mean = NAN}, .loss = {.mean = NAN}};
}

Status client_tests_measure(ClientTests *tests, const RunMemory *memory, Error *err) {
    const Queue *queue = memory->queue;
    *tests = client_tests_none();
    double *accuracies = calloc(queue->count + 1, 2 * sizeof *accuracies), *losses = accuracies + queue->count;
    if (!accuracies) return fail(err, STATUS_OS, "no memory for the tests of %u clients", queue->count);
    tests->loss_sum = 0;
    tests->clusters = state_models(memory->config);
    const bool keeps = memory->config->client_state.rows > 0;
    tests->judged = !dataset_has_numbers(&memory->data.items);
    for (uint32_t i = 0; i < queue->count; i++) {
        const Job *job = &queue->jobs[i];
        if (job->samples == 0) continue;
        accuracies[tests->clients] = (double)job->hits / (double)job->samples;
        losses[tests->clients++] = job->loss_sum / (double)job->samples;
        tests->never_trained += keeps && job->task == EVALUATE_PERSONAL && job->state_from == NO_CLIENT_STATE;
        tests->clients_of[job->cluster]++;
        tests->samples += job->samples;
        tests->hits += job->hits;
        tests->judged &= job->unjudged == 0;
        tests->loss_sum += job->loss_sum;
    }
    tests->untested = queue->count - tests->clients;
    if (tests->clients > 0) {
        if (tests->judged) fairness_measure(&tests->accuracy, accuracies, tests->clients);
        fairness_measure(&tests->loss, losses, tests->clients);
    }
    free(accuracies);
    return run_memory_join_metrics(&tests->metrics, memory, err);
}
