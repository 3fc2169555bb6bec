// Part of rounds.h: the counts of workers and jobs go into the report of a round.
#include <assert.h>
#include <math.h>
#include <string.h>

#include "fedavg/memory/state.h"
#include "fedavg/parent/rounds.h"

// A worker's wait at the barrier is its distance from the last arrival: the time that a better distribution of the work
// could save. A dead worker's times are left out: it has not arrived at this barrier. Staleness is Hogwild's, whose
// workers count for themselves; a buffered run takes it from its schedule (rounds.pending).
static void collect_workers(const Rounds *rounds, RoundReport *report) {
    const Control *control = rounds->memory->control;
    uint32_t workers = rounds->memory->config->workers;
    uint64_t last = 0, updates = 0, staleness = 0;
    for (uint32_t rank = 0; rank < workers; rank++) {
        uint64_t arrived = control->pulses[rank].arrived_nanoseconds;
        if (arrived > last) last = arrived;
    }
    for (uint32_t rank = 0; rank < workers; rank++) {
        bool alive = rounds->phases.supervisor.workers[rank].state != WORKER_DEAD;
        uint64_t arrived = control->pulses[rank].arrived_nanoseconds;
        const WorkerTally *tally = &control->tallies[rank];
        report->barrier_wait_seconds[rank] = alive ? (double)(last - arrived) * 1e-9 : 0;
        report->worker_sync_seconds[rank] = (double)tally->synchronising_nanoseconds * 1e-9;
        report->worker_hidden_seconds[rank] = (double)tally->hidden_nanoseconds * 1e-9;
        report->synchronising_seconds += report->worker_sync_seconds[rank] / workers;
        report->hidden_seconds += report->worker_hidden_seconds[rank] / workers;
        report->refused_steps += tally->refused_steps;
        for (int bucket = 0; bucket < STALENESS_BUCKETS; bucket++) {
            report->staleness[bucket] += (int64_t)tally->staleness[bucket];
            updates += tally->staleness[bucket];
        }
        staleness += tally->staleness_sum;
    }
    report->staleness_mean = updates > 0 ? (double)staleness / (double)updates : NAN;
}

// Means over the updates that arrived, added in the order of the jobs, which does not depend on the number of workers
// and nodes.
static void collect_lengths(const Rounds *rounds, RoundReport *report) {
    const Queue *queue = rounds->memory->queue;
    double lengths = 0, most = 0, squares = 0, shares = 0;
    uint32_t count = 0;
    for (uint32_t i = 0; i < queue->count; i++) {
        const Job *job = &queue->jobs[i];
        if (job->state == JOB_REFUSED) continue;
        double length = sqrt(job->squared_length);
        assert(!(job->squared_length < 0)); // NaN where it is not measured
        lengths += length;
        most = most < length ? length : most;
        squares += job->share * job->squared_length;
        shares += job->share;
        count++;
    }
    report->length_mean = count > 0 ? lengths / count : NAN;
    report->length_most = isnan(report->length_mean) ? NAN : most;
    report->mean_square = shares > 0 ? squares / shares : NAN;
    report->square_of_mean = count > 0 ? rounds->parent.squared_length : NAN;
}

// A cluster that lost all its clients has a model that none of them would use.
static void note_largest_cluster(const RunMemory *memory, const int64_t *trained_of) {
    uint32_t largest = 0;
    for (uint32_t m = 1; m < state_models(memory->config); m++)
        if (trained_of[m] > trained_of[largest]) largest = m;
    if (trained_of[largest] > 0) memory->control->cluster = largest;
}

// Refused clients count in samples and loss: they have trained, and only their update is left out.
Status rounds_collect_training(const Rounds *rounds, RoundReport *report, Error *err) {
    const RunMemory *memory = rounds->memory;
    double loss_sum = 0;
    report->samples = report->tokens = 0;
    report->refused = 0;
    memset(report->trained_of, 0, sizeof report->trained_of);
    for (uint32_t i = 0; i < memory->queue->count; i++) {
        const Job *job = &memory->queue->jobs[i];
        assert(job->state == JOB_DONE || job->state == JOB_REFUSED);
        assert(job->cluster < state_models(memory->config) && job->attacks <= 1 && job->clipped <= 1);
        if (job->state == JOB_REFUSED) report->refused++;
        report->attackers += job->attacks;
        report->trained_of[job->cluster] += job->state == JOB_DONE;
        report->clipped += job->clipped;
        report->samples += job->samples;
        report->tokens += job->tokens;
        loss_sum += job->loss_sum;
    }
    note_largest_cluster(memory, report->trained_of);
    report->cohort = &rounds->cohort;
    report->combine = &rounds->combine;
    report->pending = memory->algorithm.engine->buffers ? &rounds->pending : NULL;
    collect_lengths(rounds, report);
    report->train_loss = loss_sum / (double)report->samples;
    collect_workers(rounds, report);
    report->exchange_seconds = (double)rounds->exchange.exchange_nanoseconds * 1e-9;
    report->exchange_hidden_seconds = (double)rounds->exchange.hidden_nanoseconds * 1e-9;
    return run_memory_join_metrics(&report->train_metrics, memory, err);
}
