#include "rounds.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
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

uint64_t rounds_samples(Rounds *rounds, uint32_t round, bool evaluate) {
    const RunConfig *config = run_config(rounds);
    uint64_t samples = 0;
    sampler_draw(rounds->cohort, rounds->scratch, config->clients, rounds->clients_per_round, config->seed, round);
    for (uint32_t i = 0; i < rounds->clients_per_round; i++)
        samples += client_samples(rounds, rounds->cohort[i]);
    uint64_t evaluated = evaluate && !rounds->server.kind->evaluate ? rounds->memory->data.test.count : 0;
    return samples * config->local_epochs + evaluated;
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
    for (uint32_t rank = 0; rank < run_config(rounds)->workers; rank++) {
        WorkerTally *tally = &rounds->memory->control->tallies[rank];
        *tally = (WorkerTally){.first_sample_nanoseconds = tally->first_sample_nanoseconds};
    }
}

// The exact mean over the slots of the workers that finished jobs.
static Status publish_mean(Rounds *rounds, uint32_t round, Error *err) {
    RunMemory *memory = rounds->memory;
    const RunConfig *config = run_config(rounds);
    bool used[MAX_WORKERS] = {false}, any = false, finite;
    double arrived = 0, refused = 0;
    for (uint32_t i = 0; i < memory->queue->count; i++) {
        const Job *job = &memory->queue->jobs[i];
        if (job->state == JOB_REFUSED)
            refused += job->share;
        else
            used[job->owner - 1] = any = true, arrived += job->share;
    }
    if (refused == 0) arrived = 1; // exactly, whatever the rounding of the shares' sum
    if (!any)
        return fail(err, STATUS_SOFTWARE,
                    "round %u: the updates of all clients were refused as not finite; lower --lr (now %g)", round,
                    (double)config->lr);
    TRY(rounds->server.kind->average(&rounds->server, &finite, used, arrived, err));
    if (finite) return STATUS_OK;
    return fail(err, STATUS_SOFTWARE, "round %u: the mean is no longer finite; lower --lr (now %g)", round,
                (double)config->lr);
}

// The algorithms that train the shared weights in place have published them already: what is not finite is taken back.
static Status check_weights(Rounds *rounds, uint32_t round, Error *err) {
    const RunConfig *config = run_config(rounds);
    const Control *control = rounds->memory->control;
    const ServerKind *server = rounds->server.kind;
    bool finite;
    TRY(server->adopt(&rounds->server, &finite, err));
    bool all_refused =
        config->algorithm == TRAIN_HOGWILD && atomic_load_explicit(&control->updates, memory_order_relaxed) == 0;
    if (finite && !all_refused) return STATUS_OK;
    TRY(server->restore(&rounds->server, err));
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
        TRY(rounds->server.kind->restore(&rounds->server, err));
    }
    return fail(err, STATUS_UNAVAILABLE,
                "round %u: a worker died in each of %d attempts; shorter rounds (more --rounds on "
                "less data) or another --algorithm may get through",
                round, MAX_LOCKSTEP_ATTEMPTS);
}

Status rounds_train(Rounds *rounds, uint32_t round, RoundReport *report, Error *err) {
    const RunConfig *config = run_config(rounds);
    *report = (RoundReport){.round = round};
    TRY(rounds->server.kind->begin(&rounds->server, err));
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

static Status evaluate_in_chunks(Rounds *rounds, uint32_t round, BatchResult *result, Error *err) {
    RunMemory *memory = rounds->memory;
    queue_clear(memory->queue);
    for (uint32_t first = 0; first < memory->data.test.count; first += EVALUATION_CHUNK) {
        uint32_t left = memory->data.test.count - first;
        Job *job = queue_post(memory->queue);
        job->first = first;
        job->count = left < EVALUATION_CHUNK ? left : EVALUATION_CHUNK;
    }
    TRY(phases_run_jobs(&rounds->phases, PHASE_EVALUATE, round, err));
    *result = (BatchResult){0};
    for (uint32_t i = 0; i < memory->queue->count; i++) {
        result->loss_sum += memory->queue->jobs[i].loss_sum;
        result->hits += memory->queue->jobs[i].hits;
    }
    return STATUS_OK;
}

Status rounds_evaluate(Rounds *rounds, uint32_t round, RoundReport *report, Error *err) {
    const ServerKind *server = rounds->server.kind;
    uint64_t start = clock_nanoseconds();
    BatchResult result;
    TRY(server->evaluate ? server->evaluate(&rounds->server, &result, err)
                         : evaluate_in_chunks(rounds, round, &result, err));
    report->test_hits = result.hits;
    report->test_count = rounds->memory->data.test.count;
    report->test_loss = result.loss_sum / (double)report->test_count;
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

Status rounds_init(Rounds *rounds, const RoundsConfig *config, Error *err) {
    *rounds = (Rounds){.memory = config->phases.memory,
                       .clients_per_round = config->clients_per_round,
                       .server = {.kind = config->server, .memory = config->phases.memory}};
    uint32_t clients = run_config(rounds)->clients;
    rounds->cohort = malloc(clients * sizeof *rounds->cohort);
    rounds->scratch = malloc(clients * sizeof *rounds->scratch);
    Status status = STATUS_OK;
    if (!rounds->cohort || !rounds->scratch) status = fail(err, STATUS_OS, "no memory for %u clients", clients);
    if (status == STATUS_OK) status = config->server->init(&rounds->server, err);
    if (status != STATUS_OK) goto free_cohort;
    status = phases_init(&rounds->phases, &config->phases, err);
    if (status == STATUS_OK) return STATUS_OK;
    config->server->free(&rounds->server);
free_cohort:
    free(rounds->scratch);
    free(rounds->cohort);
    return status;
}

void rounds_free(Rounds *rounds) {
    phases_free(&rounds->phases); // first, for the workers use what the server owns
    rounds->server.kind->free(&rounds->server);
    free(rounds->scratch);
    free(rounds->cohort);
}
