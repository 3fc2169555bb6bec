#include "rounds.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "fedavg/aggregate.h"
#include "fedavg/node_jobs.h"
#include "fedavg/sampler.h"
#include "fedavg/ssgd.h"

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

static int largest_first(const void *a, const void *b, void *context) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    uint32_t x_samples = client_samples(context, x), y_samples = client_samples(context, y);
    return x_samples != y_samples ? (x_samples < y_samples) - (x_samples > y_samples) : (x > y) - (x < y);
}

static Job *post(const Rounds *rounds, uint32_t place) {
    Job *job = queue_post(rounds->memory->queue);
    job->place = place;
    job->node = rounds->nodes->rank;
    return job;
}

// The cohort in the order of its jobs: the largest first, so that the last job to end is a small one.
static void draw_cohort(const Rounds *rounds, uint32_t round) {
    const RunConfig *config = run_config(rounds);
    uint32_t size = rounds->clients_per_round;
    sampler_draw(rounds->cohort, rounds->scratch, config->clients, size, config->seed, round);
    qsort_r(rounds->cohort, size, sizeof *rounds->cohort, largest_first, (void *)rounds);
}

// A job a client, dealt to the nodes in turn.
static void post_clients(const Rounds *rounds, uint32_t round) {
    draw_cohort(rounds, round);
    uint64_t total = 0;
    for (uint32_t i = 0; i < rounds->clients_per_round; i++)
        total += client_samples(rounds, rounds->cohort[i]);
    queue_clear(rounds->memory->queue);
    for (uint32_t place = 0; place < rounds->clients_per_round; place++) {
        uint32_t count = client_samples(rounds, rounds->cohort[place]);
        if (count == 0) break; // these come last: nothing to learn, no weight in the mean
        if (!node_jobs_mine(rounds->nodes, place)) continue;
        Job *job = post(rounds, place);
        job->client = rounds->cohort[place];
        job->count = count;
        job->share = (double)count / (double)total;
    }
}

// In lockstep a job stands for a shard; they have their fixed places.
static void post_shards(const Rounds *rounds) {
    const RunConfig *config = run_config(rounds);
    ShardRange own = run_node_shards(config, config->node);
    queue_clear(rounds->memory->queue);
    for (uint32_t shard = own.first; shard < own.end; shard++)
        post(rounds, shard)->client = shard;
}

uint64_t rounds_samples(Rounds *rounds, uint32_t round) {
    const RunConfig *config = run_config(rounds);
    ShardRange own = run_node_shards(config, config->node);
    uint64_t samples = 0;
    draw_cohort(rounds, round);
    for (uint32_t place = 0; place < rounds->clients_per_round; place++) {
        uint32_t client = rounds->cohort[place];
        bool in_lockstep = config->algorithm == TRAIN_SSGD;
        if (in_lockstep ? client >= own.first && client < own.end : node_jobs_mine(rounds->nodes, place))
            samples += client_samples(rounds, client);
    }
    if (config->global_batch) samples /= config->clients; // which share them
    return samples * config->local_epochs;
}

static void collect_workers(const Rounds *rounds, RoundReport *report) {
    const Control *control = rounds->memory->control;
    uint32_t workers = run_config(rounds)->workers;
    uint64_t last = 0;
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
    collect_workers(rounds, report);
    report->exchange_seconds = (double)rounds->exchange.exchange_nanoseconds * 1e-9;
    report->exchange_hidden_seconds = (double)rounds->exchange.hidden_nanoseconds * 1e-9;
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

// The sums of this node's workers who finished jobs; the jobs are those of all nodes.
static size_t list_sums(const Rounds *rounds) {
    const RunMemory *memory = rounds->memory;
    bool used[MAX_WORKERS] = {false};
    for (uint32_t i = 0; i < memory->queue->count; i++) {
        const Job *job = &memory->queue->jobs[i];
        if (job->state == JOB_DONE && job->node == rounds->nodes->rank) used[job->owner - 1] = true;
    }
    size_t sum_count = 0;
    for (uint32_t rank = 0; rank < run_config(rounds)->workers; rank++)
        if (used[rank]) rounds->sums[sum_count++] = run_memory_sum(memory, rank);
    return sum_count;
}

// The sum of the shares that arrived.
static double arrived_share(const Queue *queue) {
    double arrived = 0;
    bool any_refused = false;
    for (uint32_t i = 0; i < queue->count; i++)
        if (queue->jobs[i].state == JOB_REFUSED)
            any_refused = true;
        else
            arrived += queue->jobs[i].share;
    return any_refused ? arrived : 1; // exactly, whatever the rounding of the shares' sum
}

// The exact mean over the slots of the workers, of all nodes.
static Status publish_mean(Rounds *rounds, uint32_t round, Error *err) {
    RunMemory *memory = rounds->memory;
    const RunConfig *config = run_config(rounds);
    double arrived = arrived_share(memory->queue);
    if (arrived == 0)
        return fail(err, STATUS_SOFTWARE,
                    "round %u: the updates of all clients were refused as not finite; lower --lr (now %g)", round,
                    (double)config->lr);
    size_t sum_count = list_sums(rounds);
    if (rounds->total) {
        aggregate_total(rounds->total, rounds->sums, sum_count, config->parameters);
        TRY(nodes_sum(rounds->nodes, rounds->total, config->parameters, err));
        rounds->sums[0] = rounds->total;
        sum_count = 1;
    }
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
    if (config->algorithm == TRAIN_SSGD) memcpy(rounds->restore_velocity, run_memory_velocity(rounds->memory), bytes);
}

static void restore(const Rounds *rounds) {
    const RunConfig *config = run_config(rounds);
    size_t bytes = config->parameters * sizeof(float);
    memcpy(rounds->memory->weights, rounds->restore_weights, bytes);
    if (config->algorithm == TRAIN_SSGD) memcpy(run_memory_velocity(rounds->memory), rounds->restore_velocity, bytes);
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

// One attempt at a lockstep round; *unfinished: shards of all nodes that are left.
static Status attempt_lockstep(Rounds *rounds, uint32_t round, int64_t *unfinished, Error *err) {
    bool several = rounds->nodes->size > 1;
    post_shards(rounds);
    clear_tallies(rounds);
    if (several) exchange_begin(&rounds->exchange, round, ssgd_round_steps(rounds->memory));
    TRY(phases_run(&rounds->phases, PHASE_TRAIN, round, err));
    if (several) TRY(exchange_finish(&rounds->exchange, err));
    *unfinished = queue_unfinished(rounds->memory->queue);
    return nodes_sum(rounds->nodes, unfinished, 1, err);
}

// A lockstep round is all or nothing: after a death, from the kept weights again.
static Status run_lockstep(Rounds *rounds, uint32_t round, Error *err) {
    for (int attempt = 0; attempt < MAX_LOCKSTEP_ATTEMPTS; attempt++) {
        int64_t unfinished;
        TRY(attempt_lockstep(rounds, round, &unfinished, err));
        if (unfinished == 0) return STATUS_OK;
        rounds->phases.fruitless_deaths = 0; // the number of attempts is the limit here
        log_info("round %u: a worker died in lockstep; the round starts over", round);
        restore(rounds);
    }
    return fail(err, STATUS_UNAVAILABLE,
                "round %u: a worker died in each of %d attempts; shorter rounds (more --rounds on "
                "less data) or another --algorithm may get through",
                round, MAX_LOCKSTEP_ATTEMPTS);
}

static Status run_training(Rounds *rounds, uint32_t round, Error *err) {
    uint64_t begin = trace_begin(rounds->trace);
    if (run_config(rounds)->algorithm == TRAIN_SSGD) {
        TRY(run_lockstep(rounds, round, err));
    } else {
        post_clients(rounds, round);
        clear_tallies(rounds);
        TRY(phases_run_jobs(&rounds->phases, PHASE_TRAIN, round, err));
    }
    trace_end(rounds->trace, TRACE_TRAIN, begin, round, round);
    return node_jobs_merge(rounds->memory->queue, rounds->nodes, err);
}

Status rounds_train(Rounds *rounds, uint32_t round, RoundReport *report, Error *err) {
    const RunConfig *config = run_config(rounds);
    *report = (RoundReport){.round = round};
    if (config->algorithm != TRAIN_FEDAVG) keep(rounds);
    uint64_t start = clock_nanoseconds();
    TRY(run_training(rounds, round, err));
    uint64_t begin = trace_begin(rounds->trace);
    TRY(config->algorithm == TRAIN_FEDAVG ? publish_mean(rounds, round, err) : check_weights(rounds, round, err));
    trace_end(rounds->trace, TRACE_AVERAGE, begin, round, round);
    report->seconds = clock_seconds_since(start);
    collect_training(rounds, report);
    if (report->refused_steps > 0)
        log_warning("round %u: %llu steps refused, their gradients were not finite", round,
                    (unsigned long long)report->refused_steps);
    report->workers_lost = take_deaths(rounds);
    return STATUS_OK;
}

Status rounds_conclude(Rounds *rounds, RoundReport *report, Error *err) {
    Supervisor *supervisor = &rounds->phases.supervisor;
    bool stopped = supervisor_interrupts(supervisor) > 0, terminated = supervisor->last_signal == SIGTERM;
    int64_t facts[] = {report->workers_lost, stopped && !terminated, stopped && terminated};
    TRY(nodes_sum(rounds->nodes, facts, sizeof facts / sizeof *facts, err));
    report->workers_lost = (uint32_t)facts[0];
    report->stop_signal = facts[2] > 0 ? SIGTERM : facts[1] > 0 ? SIGINT : 0;
    return STATUS_OK;
}

// Evaluation
// -------------------------------------------------------------------------------------------------------------

Status rounds_evaluate(Rounds *rounds, uint32_t round, RoundReport *report, Error *err) {
    RunMemory *memory = rounds->memory;
    uint64_t start = clock_nanoseconds();
    queue_clear(memory->queue);
    for (uint32_t first = 0; first < memory->data.test.count; first += EVALUATION_CHUNK) {
        uint32_t left = memory->data.test.count - first, place = first / EVALUATION_CHUNK;
        if (!node_jobs_mine(rounds->nodes, place)) continue;
        Job *job = post(rounds, place);
        job->first = first;
        job->count = left < EVALUATION_CHUNK ? left : EVALUATION_CHUNK;
    }
    TRY(phases_run_jobs(&rounds->phases, PHASE_EVALUATE, round, err));
    TRY(node_jobs_merge(memory->queue, rounds->nodes, err));
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
    trace_end(rounds->trace, TRACE_EVALUATE, start, round, round);
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

static bool exchanges(const Rounds *rounds) {
    return rounds->nodes->size > 1 && run_config(rounds)->algorithm == TRAIN_SSGD;
}

static void free_memory(Rounds *rounds) {
    if (exchanges(rounds)) exchange_free(&rounds->exchange);
    free(rounds->total);
    free(rounds->restore_velocity);
    free(rounds->restore_weights);
    free(rounds->sums);
    free(rounds->scratch);
    free(rounds->cohort);
}

static Status allocate(Rounds *rounds, Error *err) {
    const RunConfig *config = run_config(rounds);
    bool sums_nodes = rounds->nodes->size > 1 && config->algorithm == TRAIN_FEDAVG;
    rounds->cohort = malloc(config->clients * sizeof *rounds->cohort);
    rounds->scratch = malloc(config->clients * sizeof *rounds->scratch);
    rounds->sums = malloc(config->workers * sizeof *rounds->sums);
    rounds->restore_weights = malloc(config->parameters * sizeof(float));
    rounds->restore_velocity = malloc(config->parameters * sizeof(float));
    if (sums_nodes) rounds->total = malloc(config->parameters * sizeof *rounds->total);
    if (!rounds->cohort || !rounds->scratch || !rounds->sums || !rounds->restore_weights || !rounds->restore_velocity ||
        (sums_nodes && !rounds->total))
        return fail(err, STATUS_OS, "no memory for %u clients and %llu parameters", config->clients,
                    (unsigned long long)config->parameters);
    return STATUS_OK;
}

// While the workers work: the other nodes.
static Status serve(void *context, bool *busy, Error *err) {
    Rounds *rounds = context;
    TRY(nodes_watch(rounds->nodes, err));
    bool training = rounds->phases.kind == PHASE_TRAIN;
    return training && exchanges(rounds) ? exchange_serve(&rounds->exchange, busy, err) : STATUS_OK;
}

// For waits outside of a phase.
static bool is_cancelled(void *context) {
    Rounds *rounds = context;
    return supervisor_interrupts(&rounds->phases.supervisor) >= 2;
}

static Status start_phases(Rounds *rounds, const PhasesConfig *config, Error *err) {
    PhasesConfig served = *config;
    served.serve = serve;
    served.serve_context = rounds;
    TRY(phases_init(&rounds->phases, &served, err));
    rounds->nodes->cancelled = is_cancelled;
    rounds->nodes->context = rounds;
    return STATUS_OK;
}

Status rounds_init(Rounds *rounds, const RoundsConfig *config, Error *err) {
    RunMemory *memory = config->phases.memory;
    *rounds = (Rounds){.memory = memory,
                       .clients_per_round = config->clients_per_round,
                       .nodes = config->nodes,
                       .trace = run_memory_trace(memory, memory->control->config.workers)};
    Status status = allocate(rounds, err);
    if (status == STATUS_OK && exchanges(rounds))
        status = exchange_init(&rounds->exchange, memory, config->spec, config->nodes, err);
    if (status == STATUS_OK) status = start_phases(rounds, &config->phases, err);
    if (status != STATUS_OK) free_memory(rounds);
    return status;
}

void rounds_free(Rounds *rounds) {
    rounds->nodes->cancelled = NULL;
    phases_free(&rounds->phases);
    free_memory(rounds);
}
