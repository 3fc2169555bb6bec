#include "rounds.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "fedavg/parent/node_jobs.h"
#include "fedavg/rules/sampler.h"
#include "fedavg/worker/ssgd.h"

enum { MAX_LOCKSTEP_ATTEMPTS = 100 }; // at one round

// Training ------------------------------------------------------------------------------------------------------------

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
    const RunConfig *config = rounds->memory->config;
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
    const RunConfig *config = rounds->memory->config;
    ShardRange own = run_node_shards(config, config->node);
    queue_clear(rounds->memory->queue);
    for (uint32_t shard = own.first; shard < own.end; shard++)
        post(rounds, shard)->client = shard;
}

uint64_t rounds_samples(Rounds *rounds, uint32_t round, bool evaluate) {
    const RunConfig *config = rounds->memory->config;
    ShardRange own = run_node_shards(config, config->node);
    uint64_t samples = 0;
    draw_cohort(rounds, round);
    for (uint32_t place = 0; place < rounds->clients_per_round; place++) {
        uint32_t client = rounds->cohort[place];
        bool in_lockstep = config->engine == ENGINE_LOCKSTEP;
        if (in_lockstep ? client >= own.first && client < own.end : node_jobs_mine(rounds->nodes, place))
            samples += client_samples(rounds, client);
    }
    if (config->training.global_batch) samples /= config->clients; // which share them
    uint64_t evaluated = evaluate && !rounds->parent.math->evaluate ? rounds->memory->data.test.count : 0;
    return samples * config->training.local_epochs + evaluated;
}

static void collect_workers(const Rounds *rounds, RoundReport *report) {
    const Control *control = rounds->memory->control;
    uint32_t workers = rounds->memory->config->workers;
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
    for (uint32_t rank = 0; rank < rounds->memory->config->workers; rank++) {
        WorkerTally *tally = &rounds->memory->control->tallies[rank];
        *tally = (WorkerTally){.first_sample_nanoseconds = tally->first_sample_nanoseconds};
    }
}

// used (MAX_WORKERS): this node's workers who finished jobs; the jobs are those of all nodes.
static void find_used(bool *used, const Rounds *rounds) {
    const Queue *queue = rounds->memory->queue;
    memset(used, 0, MAX_WORKERS * sizeof *used);
    for (uint32_t i = 0; i < queue->count; i++) {
        const Job *job = &queue->jobs[i];
        if (job->state == JOB_DONE && job->node == rounds->nodes->rank) used[job->owner - 1] = true;
    }
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
    const RunConfig *config = rounds->memory->config;
    double arrived = arrived_share(memory->queue);
    if (arrived == 0)
        return fail(err, STATUS_SOFTWARE,
                    "round %u: the updates of all clients were refused as not finite or too large; lower --lr (now %g)",
                    round, (double)config->training.sgd.lr);
    bool used[MAX_WORKERS], finite;
    find_used(used, rounds);
    TRY(rounds->parent.math->average(&rounds->parent, &finite, used, arrived, err));
    if (finite) return STATUS_OK;
    return fail(err, STATUS_SOFTWARE, "round %u: the mean is no longer finite; lower --lr (now %g)", round,
                (double)config->training.sgd.lr);
}

// The algorithms that train the shared weights in place have published them already: what is not finite is taken back.
static Status check_weights(Rounds *rounds, uint32_t round, Error *err) {
    const RunConfig *config = rounds->memory->config;
    const Control *control = rounds->memory->control;
    const ParentMath *parent = rounds->parent.math;
    bool finite;
    TRY(parent->adopt(&rounds->parent, &finite, err));
    bool all_refused =
        config->engine == ENGINE_WILD && atomic_load_explicit(&control->updates, memory_order_relaxed) == 0;
    if (finite && !all_refused) return STATUS_OK;
    TRY(parent->restore(&rounds->parent, err));
    return fail(err, STATUS_SOFTWARE, "round %u: the %s no longer finite; lower --lr (now %g) or --momentum (now %g)",
                round, all_refused ? "gradients are" : "weights are", (double)config->training.sgd.lr,
                (double)config->training.sgd.momentum);
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
        TRY(rounds->parent.math->restore(&rounds->parent, err));
    }
    return fail(err, STATUS_UNAVAILABLE,
                "round %u: a worker died in each of %d attempts; shorter rounds (more --rounds on "
                "less data) or another --algorithm may get through",
                round, MAX_LOCKSTEP_ATTEMPTS);
}

static Status run_training(Rounds *rounds, uint32_t round, Error *err) {
    uint64_t begin = trace_begin(rounds->trace);
    if (rounds->memory->config->engine == ENGINE_LOCKSTEP) {
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
    const RunConfig *config = rounds->memory->config;
    *report = (RoundReport){.round = round};
    TRY(rounds->parent.math->begin(&rounds->parent, err));
    uint64_t start = clock_nanoseconds();
    TRY(run_training(rounds, round, err));
    uint64_t begin = trace_begin(rounds->trace);
    TRY(config->engine == ENGINE_ROUNDS ? publish_mean(rounds, round, err) : check_weights(rounds, round, err));
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
    int64_t facts[SIGTERM + 1] = {report->workers_lost}; // then, by number, how many nodes a signal has reached
    if (supervisor_interrupts(supervisor) > 0) facts[supervisor->last_signal]++;
    TRY(nodes_sum(rounds->nodes, facts, sizeof facts / sizeof *facts, err));
    report->workers_lost = (uint32_t)facts[0];
    report->stop_signal = 0;
    for (int signal = 1; signal <= SIGTERM; signal++) // the highest of the stop signals
        if (facts[signal] > 0) report->stop_signal = signal;
    return STATUS_OK;
}

// Evaluation ----------------------------------------------------------------------------------------------------------

static Status evaluate_in_chunks(Rounds *rounds, uint32_t round, BatchResult *result, Error *err) {
    RunMemory *memory = rounds->memory;
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
    *result = (BatchResult){0};
    for (uint32_t i = 0; i < memory->queue->count; i++) {
        result->loss_sum += memory->queue->jobs[i].loss_sum;
        result->hits += memory->queue->jobs[i].hits;
    }
    return STATUS_OK;
}

Status rounds_evaluate(Rounds *rounds, uint32_t round, RoundReport *report, Error *err) {
    const ParentMath *parent = rounds->parent.math;
    uint64_t start = clock_nanoseconds();
    BatchResult result;
    TRY(parent->evaluate ? parent->evaluate(&rounds->parent, &result, err)
                         : evaluate_in_chunks(rounds, round, &result, err));
    report->test_hits = result.hits;
    report->test_count = rounds->memory->data.test.count;
    report->test_loss = result.loss_sum / (double)report->test_count;
    report->evaluate_seconds = clock_seconds_since(start);
    report->workers_lost += take_deaths(rounds);
    trace_end(rounds->trace, TRACE_EVALUATE, start, round, round);
    return STATUS_OK;
}

// Life ----------------------------------------------------------------------------------------------------------------

uint32_t rounds_job_capacity(uint32_t clients_per_round, uint32_t test_count) {
    uint32_t chunks = (test_count + EVALUATION_CHUNK - 1) / EVALUATION_CHUNK;
    return clients_per_round > chunks ? clients_per_round : chunks;
}

uint64_t rounds_progress(const Rounds *rounds) {
    uint64_t samples = 0;
    for (uint32_t rank = 0; rank < rounds->memory->config->workers; rank++)
        samples += atomic_load_explicit(&rounds->memory->control->pulses[rank].progress, memory_order_relaxed);
    return samples;
}

static bool exchanges(const Rounds *rounds) {
    return rounds->nodes->size > 1 && rounds->memory->config->engine == ENGINE_LOCKSTEP;
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

static void free_memory(Rounds *rounds) {
    if (exchanges(rounds)) exchange_free(&rounds->exchange);
    free(rounds->scratch);
    free(rounds->cohort);
}

static Status allocate(Rounds *rounds, const RoundsConfig *config, Error *err) {
    uint32_t clients = rounds->memory->config->clients;
    rounds->cohort = malloc(clients * sizeof *rounds->cohort);
    rounds->scratch = malloc(clients * sizeof *rounds->scratch);
    if (!rounds->cohort || !rounds->scratch) return fail(err, STATUS_OS, "no memory for %u clients", clients);
    if (!exchanges(rounds)) return STATUS_OK;
    return exchange_init(&rounds->exchange, rounds->memory, config->nodes, err);
}

Status rounds_init(Rounds *rounds, const RoundsConfig *config, Error *err) {
    RunMemory *memory = config->phases.memory;
    *rounds = (Rounds){.memory = memory,
                       .clients_per_round = config->clients_per_round,
                       .parent = {.math = config->math, .memory = memory, .nodes = config->nodes},
                       .nodes = config->nodes,
                       .trace = run_memory_trace(memory, memory->config->workers)};
    Status status;
    TRY_GOTO(free_memory, allocate(rounds, config, err));
    TRY_GOTO(free_memory, config->math->init(&rounds->parent, err));
    TRY_GOTO(free_parent, start_phases(rounds, &config->phases, err));
    return STATUS_OK;
free_parent:
    config->math->free(&rounds->parent);
free_memory:
    free_memory(rounds);
    return status;
}

void rounds_free(Rounds *rounds) {
    rounds->nodes->cancelled = NULL;
    phases_free(&rounds->phases); // first, for the workers use what the parent owns
    rounds->parent.math->free(&rounds->parent);
    free_memory(rounds);
}
