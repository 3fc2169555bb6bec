// Part of check.h: whether a run's aggregator repeats.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "fedavg/trainer/aggregator.h"
#include "fedavg/trainer/check.h"

enum { MOST_UPDATES = 4 };

static const double DEVIATION = 0.01; // of the updates that are made up

// The round is decided by its number: updates, losses and seed follow from it. turn.state begins with zeros each time,
// so that only what the program remembers elsewhere can make a difference.
static Status combine(double *result, Aggregator *aggregator, uint32_t round, Error *err) {
    const RunMemory *memory = aggregator->memory;
    const RunConfig *config = memory->config;
    const size_t parameters = config->parameters;
    const uint32_t count = config->cohort < MOST_UPDATES ? config->cohort : MOST_UPDATES;
    for (uint32_t k = 0; k < count; k++) {
        const RngKey key = rng_key(config->seed, RNG_AGGREGATOR, round, k + 1, 0);
        float *row = run_memory_row(memory, k);
        for (size_t i = 0; i < parameters; i++)
            row[i] = (float)(DEVIATION * rng_normal(key, (uint32_t)i));
        aggregator->clients[k] = k;
        aggregator->shares[k] = 1.0 / count;
        aggregator->losses[k] = 1.0 / (round + k);
        aggregator->samples[k] = 10 * (k + 1);
        aggregator->steps[k] = 1;
    }
    if (aggregator->state) memset(aggregator->state, 0, config->aggregator_keeps * parameters * sizeof(float));
    TRY(aggregator_ask(aggregator, "combine", round, count, err));
    if (aggregator->has_server) TRY(aggregator_ask(aggregator, "server", round, count, err));
    memcpy(result, aggregator->answer, parameters * sizeof *result);
    return STATUS_OK;
}

static const char *differs(const double *one, const double *other, const RunMemory *memory) {
    for (size_t i = 0; i < memory->config->parameters; i++)
        if (memcmp(&one[i], &other[i], sizeof *one) != 0) return tensors_at(&memory->tensors, i)->name;
    return NULL;
}

// One round, another one, the first again; then the first in a fresh process.
static Status compare(TrainerCheck *check, double *first, double *later, Aggregator *aggregator, Error *err) {
    const RunMemory *memory = aggregator->memory;
    TRY(combine(first, aggregator, 1, err));
    TRY(combine(later, aggregator, 2, err));
    TRY(combine(later, aggregator, 1, err));
    const char *again = differs(first, later, memory);
    TRY(aggregator_restart(aggregator, err));
    TRY(combine(later, aggregator, 1, err));
    const char *fresh = differs(first, later, memory), *tensor = fresh ? fresh : again;
    check->repeats = !tensor;
    if (tensor)
        snprintf(check->finding, sizeof check->finding, "the aggregator makes another %s of the same updates %s: %s",
                 tensor, fresh ? "in a fresh process" : "after another round",
                 fresh ? "its random numbers do not come from the turn's seed"
                       : "it remembers something that --resume loses; keep it in turn.state (--aggregator-keeps)");
    return STATUS_OK;
}

Status aggregator_check(TrainerCheck *check, const RunMemory *memory, Error *err) {
    const size_t parameters = memory->config->parameters;
    const TrainerWait wait = {.silence_seconds = memory->config->aggregator.hang_seconds};
    Aggregator aggregator;
    *check = (TrainerCheck){0};
    double *first = malloc(2 * parameters * sizeof *first);
    if (!first) return fail(err, STATUS_OS, "no memory for two vectors of %zu parameters", parameters);
    Status status = aggregator_open(&aggregator, memory, -1, &wait, err);
    if (status == STATUS_OK) {
        status = compare(check, first, first + parameters, &aggregator, err);
        aggregator_close(&aggregator);
    }
    for (uint32_t k = 0; k < MOST_UPDATES && k < memory->config->cohort; k++)
        memset(run_memory_row(memory, k), 0, parameters * sizeof(float));
    free(first);
    return status;
}
