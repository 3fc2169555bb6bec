#include "pending.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "fedavg/parent/engine.h"
#include "fedavg/rules/world/stale_rules.h"

// A run that is resumed finds its pending updates in the checkpoint; schedule_resume finds out which of them wait.
Status pending_init(Pending *pending, RunMemory *memory, uint32_t rounds_done, Error *err) {
    *pending = (Pending){.memory = memory};
    if (memory->schedule.count == 0) return STATUS_OK;
    pending->due = malloc((memory->config->slots.pending + 1) * sizeof *pending->due);
    if (!pending->due) return fail(err, STATUS_OS, "no memory for a list of %u updates", memory->config->slots.pending);
    schedule_resume(&memory->schedule, rounds_done);
    assert(memory->schedule.waiting_count <= memory->schedule.most_pending);
    return STATUS_OK;
}

void pending_free(Pending *pending) {
    free(pending->due);
    *pending = (Pending){0};
}

// Copies a pending update from the node that trained it to all others: the others' sums are zeros, so that a sum over
// nodes is a copy. The weights that it began with are this round's, on all nodes.
static Status share(const RunMemory *memory, const Job *job, Nodes *nodes, Error *err) {
    const size_t parameters = memory->config->parameters;
    assert(job->pending >= 1 && job->pending <= memory->config->slots.pending);
    int64_t *waiting = run_memory_pending(memory, job->pending - 1);
    if (job->node != nodes->rank || job->state == JOB_REFUSED) memset(waiting, 0, parameters * sizeof *waiting);
    if (nodes->size > 1) TRY(nodes_sum(nodes, waiting, parameters, err));
    float *begun = run_memory_begun(memory, job->pending - 1);
    if (begun) memcpy(begun, memory->weights, parameters * sizeof *begun);
    return STATUS_OK;
}

void pending_count(Pending *pending, uint32_t staleness) {
    pending->updates++;
    pending->staleness[staleness < STALENESS_BUCKETS ? staleness : STALENESS_BUCKETS - 1]++;
    pending->staleness_mean += staleness;
    if (staleness > pending->staleness_most) pending->staleness_most = staleness;
}

static void count(Pending *pending, const ScheduledJob *job) {
    assert(job->applied != NEVER_APPLIED &&
           job->applied >= job->start); // none joins a step before the one it began from
    pending_count(pending, job->applied - job->start);
    pending->client = job->client;
    if (job->refused)
        pending->refused++;
    else
        pending->arrived += job->weight;
}

// Corrects a late update towards the current weights, by the learning rate that it was trained with. An update that
// becomes too long is refused.
static Status compensate(ScheduledJob *job, const RunMemory *memory, const float *begun, Nodes *nodes, Error *err) {
    const RunConfig *config = memory->config;
    float lr;
    TRY(engine_lr(&lr, memory, nodes, job->start + 1, err));
    job->refused = !stale_compensate(run_memory_pending(memory, job->pending), begun, memory->weights,
                                     &config->recipe.stale, (double)lr, config->parameters);
    if (job->refused) log_warning(PENDING_REFUSED, job->client);
    return STATUS_OK;
}

static Status catch_up(ScheduledJob *job, const RunMemory *memory, Nodes *nodes, Error *err) {
    const float *begun = run_memory_begun(memory, job->pending);
    if (!begun || job->refused) return STATUS_OK;
    if (memory->config->recipe.schedule.number[BUFFERED_MIXES] != MIXES_MODELS)
        return compensate(job, memory, begun, nodes, err);
    job->refused = !stale_mix(run_memory_pending(memory, job->pending), begun, memory->weights,
                              job->weight * job->trust, memory->config->parameters);
    if (job->refused) log_warning(PENDING_MOVED, job->client);
    return STATUS_OK;
}

// The list is in the order of the jobs, and sums of integers have no order anyway: what joins a step does not depend on
// which worker or node has trained it. Replicas (no place is planned for them) are counted alone.
static Status find_due(Pending *pending, uint32_t version, Nodes *nodes, Error *err) {
    const RunMemory *memory = pending->memory;
    const Schedule *schedule = &memory->schedule;
    for (uint32_t i = 0; i < schedule->waiting_count; i++) {
        ScheduledJob *job = &schedule->jobs[schedule->waiting[i]];
        if (job->applied != version) continue;
        assert(job->start < version && job->pending != NO_PENDING); // others have joined the step of their own round
        TRY(catch_up(job, memory, nodes, err));
        count(pending, job);
        if (job->refused || memory->config->slots.pending == 0) continue;
        assert(pending->due_count < memory->config->slots.pending);
        pending->due[pending->due_count++] = run_memory_pending(memory, job->pending);
    }
    return STATUS_OK;
}

// On nodes after the first nothing is due, since the sum over nodes would count it once per node.
Status pending_collect(Pending *pending, const Member *members, uint32_t round, Nodes *nodes, Error *err) {
    RunMemory *memory = pending->memory;
    *pending = (Pending){.memory = memory, .due = pending->due};
    for (uint32_t i = 0; i < memory->queue->count; i++) {
        const Job *job = &memory->queue->jobs[i];
        ScheduledJob *scheduled = &memory->schedule.jobs[members[job->place].flight];
        assert(scheduled->client == job->client && scheduled->start == round - 1);
        scheduled->refused = job->state == JOB_REFUSED;
        if (scheduled->pending == NO_PENDING)
            count(pending, scheduled);
        else if (job->pending > 0)
            TRY(share(memory, job, nodes, err));
    }
    TRY(find_due(pending, round - 1, nodes, err));
    if (pending->refused == 0) pending->arrived = 1; // whatever the rounding of the weights' sum
    pending->staleness_mean /= pending->updates;
    if (nodes->rank > 0) pending->due_count = 0;
    return STATUS_OK;
}

// The places of the updates that were applied are free from here on; schedule.c has given them out again already.
void pending_conclude(Pending *pending, uint32_t round) {
    schedule_advance(&pending->memory->schedule, round);
}
