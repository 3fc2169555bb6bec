#include "rounds.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "fedavg/aggregate.h"
#include "fedavg/sampler.h"

enum {
    EVALUATION_CHUNK = 500,     // test samples a job; fixed, so that losses are summed in the same order in every run
    MAX_LOCKSTEP_ATTEMPTS = 100 // at one round
};

static const RunConfig *run_config(const Rounds *rounds) {
    return &rounds->memory->control->config;
}

// Training
// ---------------------------------------------------------------------------------------------------------------

static uint32_t client_samples(const Rounds *rounds, uint32_t client) {
    uint32_t count;
    partition_client(&rounds->memory->partition, client, &count);
    return count;
}

uint64_t rounds_samples(Rounds *rounds, uint32_t round) {
    const RunConfig *config = run_config(rounds);
    uint64_t samples = 0;
    sampler_draw(rounds->cohort, rounds->scratch, config->clients, rounds->clients_per_round, config->seed, round);
    for (uint32_t i = 0; i < rounds->clients_per_round; i++)
        samples += client_samples(rounds, rounds->cohort[i]);
    return samples * config->local_epochs;
}

static int largest_first(const void *a, const void *b, void *context) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    uint32_t x_samples = client_samples(context, x), y_samples = client_samples(context, y);
    return x_samples != y_samples ? (x_samples < y_samples) - (x_samples > y_samples) : (x > y) - (x < y);
}

// Draws the cohort and posts a job a client: the largest first, so that the last job to end is a small one; in lockstep
// in order, as job s is shard s.
static void post_clients(Rounds *rounds, uint32_t round) {
    const RunConfig *config = run_config(rounds);
    RunMemory *memory = rounds->memory;
    uint32_t size = rounds->clients_per_round;
    sampler_draw(rounds->cohort, rounds->scratch, config->clients, size, config->seed, round);
    bool lockstep = config->algorithm == TRAIN_SSGD;
    if (!lockstep) qsort_r(rounds->cohort, size, sizeof *rounds->cohort, largest_first, rounds);
    uint64_t total = 0;
    for (uint32_t i = 0; i < size; i++)
        total += client_samples(rounds, rounds->cohort[i]);
    queue_clear(memory->queue);
    for (uint32_t i = 0; i < size; i++) {
        uint32_t count = client_samples(rounds, rounds->cohort[i]);
        if (count == 0 && !lockstep) continue; // nothing to learn, no weight in the mean
        Job *job = queue_post(memory->queue);
        job->client = rounds->cohort[i];
        job->count = count;
        job->share = (double)count / (double)total;
    }
}

static void collect_training(const Rounds *rounds, RoundReport *report) {
    const RunMemory *memory = rounds->memory;
    double loss_sum = 0;
    report->samples = 0;
    report->refused = 0;
    for (uint32_t i = 0; i < memory->queue->count; i++) {
        const Job *job = &memory->queue->jobs[i];
        if (job->state == JOB_REFUSED) report->refused++;
        report->samples += job->samples;
        loss_sum += job->loss_sum;
    }
    report->train_loss = loss_sum / (double)report->samples;
    uint64_t last = 0;
    for (uint32_t rank = 0; rank < run_config(rounds)->workers; rank++) {
        uint64_t arrived = memory->control->pulses[rank].arrived_nanoseconds;
        if (arrived > last) last = arrived;
    }
    for (uint32_t rank = 0; rank < run_config(rounds)->workers; rank++) {
        bool alive = rounds->phases.supervisor.workers[rank].state != WORKER_DEAD;
        uint64_t arrived = memory->control->pulses[rank].arrived_nanoseconds;
        const WorkerTally *tally = &memory->control->tallies[rank];
        report->barrier_wait_seconds[rank] = alive ? (double)(last - arrived) * 1e-9 : 0;
        report->synchronising_seconds[rank] = (double)tally->synchronising_nanoseconds * 1e-9;
        report->refused_steps += tally->refused_steps;
    }
}

// Deaths since the last report.
static uint32_t take_deaths(Rounds *rounds) {
    uint32_t deaths = rounds->phases.lost;
    rounds->phases.lost = 0;
    return deaths;
}

static void clear_tallies(const Rounds *rounds) {
    atomic_store_explicit(&rounds->memory->control->updates, 0, memory_order_relaxed);
    for (uint32_t rank = 0; rank < run_config(rounds)->workers; rank++) {
        WorkerTally *tally = &rounds->memory->control->tallies[rank];
        *tally = (WorkerTally){.first_sample_nanoseconds = tally->first_sample_nanoseconds};
    }
}

// The exact mean over the slots of the workers that finished jobs.
static Status publish_mean(Rounds *rounds, uint32_t round, Error *err) {
    RunMemory *memory = rounds->memory;
    const RunConfig *config = run_config(rounds);
    bool used[MAX_WORKERS] = {false};
    double arrived = 0, refused = 0;
    for (uint32_t i = 0; i < memory->queue->count; i++) {
        const Job *job = &memory->queue->jobs[i];
        if (job->state == JOB_REFUSED)
            refused += job->share;
        else
            used[job->owner - 1] = true, arrived += job->share;
    }
    if (refused == 0) arrived = 1; // exactly, whatever the rounding of the shares' sum
    size_t sum_count = 0;
    for (uint32_t rank = 0; rank < config->workers; rank++)
        if (used[rank]) rounds->sums[sum_count++] = run_memory_sum(memory, rank);
    if (sum_count == 0)
        return fail(err, STATUS_SOFTWARE,
                    "round %u: the updates of all clients were refused as not finite; lower --lr (now %g)", round,
                    (double)config->lr);
    aggregate_apply(memory->weights, rounds->sums, sum_count, arrived, config->parameters);
    return STATUS_OK;
}

static bool weights_are_finite(const Rounds *rounds) {
    const float *weights = rounds->memory->weights;
    size_t infinite = 0;
    for (size_t i = 0; i < run_config(rounds)->parameters; i++)
        infinite += !isfinite(weights[i]) ? 1u : 0u;
    return infinite == 0;
}

static void keep(Rounds *rounds) {
    const RunConfig *config = run_config(rounds);
    size_t bytes = config->parameters * sizeof(float);
    memcpy(rounds->restore_weights, rounds->memory->weights, bytes);
    if (config->algorithm == TRAIN_SSGD)
        memcpy(rounds->restore_velocity, run_memory_floats(rounds->memory, config->clients), bytes);
}

static void restore(const Rounds *rounds) {
    const RunConfig *config = run_config(rounds);
    size_t bytes = config->parameters * sizeof(float);
    memcpy(rounds->memory->weights, rounds->restore_weights, bytes);
    if (config->algorithm == TRAIN_SSGD)
        memcpy(run_memory_floats(rounds->memory, config->clients), rounds->restore_velocity, bytes);
}

// The algorithms that train the shared weights in place have published them already: what is not finite is taken back.
static Status check_weights(const Rounds *rounds, uint32_t round, Error *err) {
    const RunConfig *config = run_config(rounds);
    const Control *control = rounds->memory->control;
    bool all_refused =
        config->algorithm == TRAIN_HOGWILD && atomic_load_explicit(&control->updates, memory_order_relaxed) == 0;
    if (weights_are_finite(rounds) && !all_refused) return STATUS_OK;
    restore(rounds);
    return fail(err, STATUS_SOFTWARE, "round %u: the %s no longer finite; lower --lr (now %g) or --momentum (now %g)",
                round, all_refused ? "gradients are" : "weights are", (double)config->lr, (double)config->momentum);
}

// A lockstep round is all or nothing: after a death, from the kept weights again.
static Status run_lockstep(Rounds *rounds, uint32_t round, Error *err) {
    for (int attempt = 0; attempt < MAX_LOCKSTEP_ATTEMPTS; attempt++) {
        post_clients(rounds, round);
        clear_tallies(rounds);
        TRY(phases_run(&rounds->phases, PHASE_TRAIN, round, err));
        if (queue_unfinished(rounds->memory->queue) == 0) return STATUS_OK;
        rounds->phases.fruitless_deaths = 0; // the number of attempts is the limit here
        log_info("round %u: a worker died in lockstep; the round starts over", round);
        restore(rounds);
    }
    return fail(err, STATUS_UNAVAILABLE,
                "round %u: a worker died in each of %d attempts; shorter rounds (more --rounds on "
                "less data) or another --algorithm may get through",
                round, MAX_LOCKSTEP_ATTEMPTS);
}

Status rounds_train(Rounds *rounds, uint32_t round, RoundReport *report, Error *err) {
    const RunConfig *config = run_config(rounds);
    *report = (RoundReport){.round = round};
    if (config->algorithm != TRAIN_FEDAVG) keep(rounds);
    uint64_t start = clock_nanoseconds();
    if (config->algorithm == TRAIN_SSGD) {
        TRY(run_lockstep(rounds, round, err));
    } else {
        post_clients(rounds, round);
        clear_tallies(rounds);
        TRY(phases_run_jobs(&rounds->phases, PHASE_TRAIN, round, err));
    }
    TRY(config->algorithm == TRAIN_FEDAVG ? publish_mean(rounds, round, err) : check_weights(rounds, round, err));
    report->seconds = clock_seconds_since(start);
    collect_training(rounds, report);
    if (report->refused_steps > 0)
        log_warning("round %u: %llu steps refused, their gradients were not finite", round,
                    (unsigned long long)report->refused_steps);
    report->workers_lost = take_deaths(rounds);
    return STATUS_OK;
}

// Evaluation
// -------------------------------------------------------------------------------------------------------------

Status rounds_evaluate(Rounds *rounds, uint32_t round, RoundReport *report, Error *err) {
    RunMemory *memory = rounds->memory;
    uint64_t start = clock_nanoseconds();
    queue_clear(memory->queue);
    for (uint32_t first = 0; first < memory->data.test.count; first += EVALUATION_CHUNK) {
        uint32_t left = memory->data.test.count - first;
        Job *job = queue_post(memory->queue);
        job->first = first;
        job->count = left < EVALUATION_CHUNK ? left : EVALUATION_CHUNK;
    }
    TRY(phases_run_jobs(&rounds->phases, PHASE_EVALUATE, round, err));
    double loss_sum = 0;
    report->test_hits = 0;
    for (uint32_t i = 0; i < memory->queue->count; i++) {
        loss_sum += memory->queue->jobs[i].loss_sum;
        report->test_hits += memory->queue->jobs[i].hits;
    }
    report->test_count = memory->data.test.count;
    report->test_loss = loss_sum / (double)report->test_count;
    report->evaluate_seconds = clock_seconds_since(start);
    report->workers_lost += take_deaths(rounds);
    return STATUS_OK;
}

// Life
// -------------------------------------------------------------------------------------------------------------------

uint32_t rounds_job_capacity(uint32_t clients_per_round, uint32_t test_count) {
    uint32_t chunks = (test_count + EVALUATION_CHUNK - 1) / EVALUATION_CHUNK;
    return clients_per_round > chunks ? clients_per_round : chunks;
}

uint64_t rounds_progress(const Rounds *rounds) {
    uint64_t samples = 0;
    for (uint32_t rank = 0; rank < run_config(rounds)->workers; rank++)
        samples += atomic_load_explicit(&rounds->memory->control->pulses[rank].progress, memory_order_relaxed);
    return samples;
}

static void free_memory(Rounds *rounds) {
    free(rounds->restore_velocity);
    free(rounds->restore_weights);
    free(rounds->sums);
    free(rounds->scratch);
    free(rounds->cohort);
}

static Status allocate(Rounds *rounds, Error *err) {
    const RunConfig *config = run_config(rounds);
    rounds->cohort = malloc(config->clients * sizeof *rounds->cohort);
    rounds->scratch = malloc(config->clients * sizeof *rounds->scratch);
    rounds->sums = malloc(config->workers * sizeof *rounds->sums);
    rounds->restore_weights = malloc(config->parameters * sizeof(float));
    rounds->restore_velocity = malloc(config->parameters * sizeof(float));
    if (!rounds->cohort || !rounds->scratch || !rounds->sums || !rounds->restore_weights || !rounds->restore_velocity)
        return fail(err, STATUS_OS, "no memory for %u clients and %llu parameters", config->clients,
                    (unsigned long long)config->parameters);
    return STATUS_OK;
}

Status rounds_init(Rounds *rounds, const RoundsConfig *config, Error *err) {
    *rounds = (Rounds){.memory = config->phases.memory, .clients_per_round = config->clients_per_round};
    Status status = allocate(rounds, err);
    if (status == STATUS_OK) status = phases_init(&rounds->phases, &config->phases, err);
    if (status != STATUS_OK) free_memory(rounds);
    return status;
}

void rounds_free(Rounds *rounds) {
    phases_free(&rounds->phases);
    free_memory(rounds);
}
