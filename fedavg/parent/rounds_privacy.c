// Part of rounds.h: the privacy that a run has spent, of its clients and of their samples.
#include <math.h>
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
Status rounds_note_steps(Rounds *rounds, RoundReport *report, Error *err) {
    const RunMemory *memory = rounds->memory;
    const RunConfig *config = memory->config;
    const uint32_t size = config->training.batch_size, *samples = rounds->cohort.samples;
    report->sample_epsilon = INFINITY;
    if (!memory->client_steps) return STATUS_OK;
    for (uint32_t i = 0; i < memory->queue->count; i++) {
        const Job *job = &memory->queue->jobs[i];
        const Walk walk = walk_of(&config->recipe.schedule, report->round, job->epochs);
        const uint32_t n = samples[job->client];
        memory->client_steps[job->client] += walk_steps(&walk, n / size + (n % size != 0));
    }
    return sample_budget_spent(&report->sample_epsilon, &rounds->budget, &config->training.privacy, size,
                               memory->client_steps, samples, config->clients, err);
}
