// Part of rounds.h: the privacy that a run has spent, of its clients and of their samples.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "fedavg/rules/world/walk.h"
#include "rounds.h"

// Every round's release costs as much privacy, except on a tree, where a release is part of several sums. The budget is
// computed from the number of rounds and not added up, so that a resumed run reports what it would have reported. How
// far one client moves an aggregator's update is unknown, and so is epsilon.
void rounds_note_release(const Rounds *rounds, RoundReport *report) {
    const RunConfig *config = rounds->memory->config;
    double rdp[ACCOUNTANT_ORDERS];
    if (rounds->memory->algorithm.traits.has[TRAIT_CLIPS]) report->clip = rounds->memory->control->clip;
    report->epsilon = INFINITY;
    if (!config->release.hides || config->aggregator.command[0]) return;
    const Mechanism *mechanism = &config->release.mechanism;
    memset(rdp, 0, sizeof rdp);
    if (mechanism->cohorts == COHORTS_TREE) accountant_add(rdp, mechanism, report->round);
    for (int i = 0; i < ACCOUNTANT_ORDERS; i++)
        rdp[i] += report->round * rounds->rdp[i];
    report->epsilon = accountant_spent(rdp, config->release.delta).epsilon;
}

// All jobs count, also those whose update is refused or late: it may have been seen. A resumed run has the steps in its
// checkpoint.
static void count_steps(const RunMemory *memory, const uint32_t *samples, uint32_t round) {
    const RunConfig *config = memory->config;
    const uint32_t size = config->training.batch_size;
    for (uint32_t i = 0; i < memory->queue->count; i++) {
        const Job *job = &memory->queue->jobs[i];
        const Walk walk = walk_of(&config->recipe.schedule, round, job->epochs);
        const uint32_t n = samples[job->client];
        memory->client_steps[job->client] += walk_steps(&walk, n / size + (n % size != 0));
    }
}

Status rounds_note_steps(Rounds *rounds, RoundReport *report, Error *err) {
    const RunMemory *memory = rounds->memory;
    const Training *training = &memory->config->training;
    const uint32_t clients = memory->config->clients;
    report->sample_epsilon = INFINITY;
    if (!memory->client_steps) return STATUS_OK;
    uint32_t *samples = malloc(clients * sizeof *samples);
    if (!samples) return fail(err, STATUS_OS, "no memory for a list of %u clients", clients);
    for (uint32_t client = 0; client < clients; client++)
        partition_client(&memory->partition, client, &samples[client]);
    count_steps(memory, samples, report->round);
    const Status status = sample_budget_spent(&report->sample_epsilon, &rounds->budget, &training->privacy,
                                              training->batch_size, memory->client_steps, samples, clients, err);
    free(samples);
    return status;
}
