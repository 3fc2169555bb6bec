#include "rounds.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "fedavg/memory/state.h"
#include "fedavg/rules/send/send_rules.h"
#include "fedavg/rules/server/server_rules.h"
#include "fedavg/rules/world/walk.h"
#include "fedavg/worker/ssgd.h"

// The parent alone drives a round. Between two phases all workers wait at the barrier and the parent may write
// anything; during a phase it only serves the engine and watches for deaths. All nodes run these functions side by side
// and in one order, since many of them contain a collective: a node that leaves one out stops all others.

// Training ------------------------------------------------------------------------------------------------------------

// The queue was made for the largest phase of the run (rounds_job_capacity): a phase that does not fit is a fault of
// that plan, which would otherwise end the parent by a NULL pointer.
Status rounds_post(Job **job, Rounds *rounds, uint32_t place, Error *err) {
    const Queue *queue = rounds->memory->queue;
    *job = queue_post(rounds->memory->queue);
    if (!*job)
        return fail(err, STATUS_SOFTWARE, "the queue has room for %u jobs, and a phase has more", queue->capacity);
    (*job)->place = place;
    (*job)->node = rounds->nodes->rank;
    return STATUS_OK;
}

// All clients that have begun have masks in common, also with clients that will not hand in: the parent takes those
// masks off again.
static void post_masked(Rounds *rounds) {
    MaskedCohort *masked = run_memory_masked(rounds->memory);
    if (!masked) return;
    assert(rounds->cohort.count <= rounds->memory->queue->capacity);
    masked->count = 0;
    for (uint32_t i = 0; i < rounds->cohort.count; i++)
        if (rounds->cohort.members[i].fate != MEMBER_HAS_NO_SAMPLES)
            masked->clients[masked->count++] = rounds->cohort.members[i].client;
}

// Posts this node's part of the cohort. Jobs are dealt by place, and places are in order of falling size, so that every
// node gets large and small ones. A job says all that distinguishes this client's training from others: any worker can
// do it, and after a death another worker gets equal bits.
static Status post_clients(Rounds *rounds, Error *err) {
    const Schedule *schedule = &rounds->memory->schedule;
    post_masked(rounds);
    assert(rounds->cohort.jobs <= rounds->cohort.count);
    queue_clear(rounds->memory->queue);
    for (uint32_t place = 0; place < rounds->cohort.jobs; place++) {
        const Member *member = &rounds->cohort.members[place];
        if (!node_jobs_mine(rounds->nodes, place)) continue;
        Job *job;
        TRY(rounds_post(&job, rounds, place, err));
        job->client = member->client;
        job->count = member->samples;
        job->epochs = member->epochs;
        job->share = member->share;
        job->steps = member->steps;
        job->reach = member->reach;
        if (schedule->count > 0) {
            const ScheduledJob *scheduled = &schedule->jobs[member->flight];
            const bool waits = scheduled->pending != NO_PENDING && rounds->memory->config->slots.pending > 0;
            job->visit = scheduled->visit;
            job->pending = waits ? scheduled->pending + 1 : 0;
        }
        job->attacks = rounds->memory->attackers ? rounds->memory->attackers[member->client] : 0;
        job->sent_bytes = rounds->cohort.each.sent;
        if (rounds->memory->config->client_state.rows == 0) continue;
        job->state_from = client_state_rows_of(&rounds->client_states, member->client);
        job->state_to = rounds->client_states.staged[place];
        assert(job->state_to != job->state_from); // a client never overwrites its row
    }
    return STATUS_OK;
}

// Whether the client at `place` of the cohort is this node's to train. In lockstep a client is a shard with a fixed
// node, since the sums over shards are made on its node; otherwise the place in the cohort decides.
static bool is_mine(const Rounds *rounds, uint32_t place) {
    const RunConfig *config = rounds->memory->config;
    if (!rounds->memory->algorithm.engine->in_lockstep) return node_jobs_mine(rounds->nodes, place);
    ShardRange own = ssgd_node_shards(config, config->node);
    assert(own.first < own.end && own.end <= config->clients);
    uint32_t shard = rounds->cohort.members[place].client;
    return shard >= own.first && shard < own.end;
}

// For the progress line, which compares it with what the workers have counted: it must count samples as they do, by the
// client's walk of stretches, and leave out what other nodes train.
uint64_t rounds_samples(const Rounds *rounds, bool evaluate) {
    const RunConfig *config = rounds->memory->config;
    uint64_t samples = 0;
    for (uint32_t place = 0; place < rounds->cohort.jobs; place++) {
        const Member *member = &rounds->cohort.members[place];
        const Walk walk = walk_of(&config->recipe.schedule, rounds->cohort.round, member->epochs);
        if (is_mine(rounds, place)) samples += walk_samples(&walk, member->samples, config->training.batch_size);
    }
    if (config->training.global_batch) samples /= config->clients; // which share them
    const uint64_t validation = rounds->memory->partition.validation_count, test = rounds->memory->data.test.count;
    const uint64_t evaluated = validation > 0 ? validation : rounds->parent.backend->evaluate ? 0 : test;
    return samples + (evaluate ? evaluated : 0);
}

// The time of a worker's first sample belongs to the run, not to the round, and is kept.
void rounds_clear_tallies(Rounds *rounds) {
    for (uint32_t rank = 0; rank < rounds->memory->config->workers; rank++) {
        WorkerTally *tally = &rounds->memory->control->tallies[rank];
        *tally = (WorkerTally){.first_sample_nanoseconds = tally->first_sample_nanoseconds};
    }
}

// Has the update made that a rule trusts. Each node makes it for itself, since all hold the training samples. It is a
// phase of its own before the clients' phase, and its job counts as an evaluation: its update is stored in a vector of
// its own and is no part of the clients' sum.
static Status train_root(Rounds *rounds, uint32_t round, Error *err) {
    const RunConfig *config = rounds->memory->config;
    if (!rounds->memory->algorithm.combine->trusts || rounds->cohort.jobs == 0) return STATUS_OK;
    queue_clear(rounds->memory->queue);
    Job *job;
    TRY(rounds_post(&job, rounds, 0, err));
    job->task = TRAIN_ROOT;
    job->count = (uint32_t)config->recipe.combine.number[0];
    job->epochs = config->training.local_epochs;
    return phases_run_jobs(&rounds->phases, PHASE_EVALUATE, round, err);
}

// New rows for client state are staged before the jobs are posted, because a job names the row that its client writes.
Status engine_run_clients(Rounds *rounds, uint32_t round, Error *err) {
    assert(round > 0 && rounds->phases.stand_still);
    TRY(train_root(rounds, round, err));
    TRY(client_state_rows_stage(&rounds->client_states, rounds->cohort.jobs, err));
    TRY(post_clients(rounds, err));
    return phases_run_jobs(&rounds->phases, PHASE_TRAIN, round, err);
}

// Puts the weights back before it fails: a run that ends here still writes its last good model.
Status engine_reject(Rounds *rounds, uint32_t round, const char *what, Error *err) {
    const Sgd sgd = run_memory_training(rounds->memory).sgd; // with the round's rate
    TRY(rounds->parent.backend->restore(&rounds->parent, err));
    return fail(err, STATUS_SOFTWARE,
                "round %u: the %s are no longer finite; lower --lr (now %g) or --momentum (now %g)", round, what,
                (double)sgd.lr, (double)sgd.momentum);
}

Status engine_adopt(Rounds *rounds, uint32_t round, Error *err) {
    bool finite;
    TRY(rounds->parent.backend->adopt(&rounds->parent, &finite, err));
    return finite ? STATUS_OK : engine_reject(rounds, round, "weights", err);
}

// Node 0 computes the rate: pow and cos may differ between C libraries in the last bit.
Status engine_lr(float *lr, const RunMemory *memory, Nodes *nodes, uint32_t round, Error *err) {
    const Training *training = &memory->config->training;
    *lr = lr_at(&training->schedule, training->sgd.lr, round);
    return nodes_broadcast(nodes, lr, sizeof *lr, err);
}

// The shared weights are the model while it is evaluated and saved, and become the state that clients begin with only
// for training.
void rounds_go_on(RunMemory *memory, uint32_t round) {
    const RunConfig *config = memory->config;
    const uint32_t state = memory->algorithm.server->trains_state;
    assert(state < memory->config->slots.states || state == 0);
    if (state == 0 || round == 1) return;
    const ServerState *weights = run_memory_state(memory, state);
    for (size_t i = 0; i < config->parameters; i++)
        memory->weights[i] = (float)weights[i].real;
}

// Draws in two steps where losses decide: candidates have to be evaluated before members are chosen, and members before
// they are weighed. The rate is broadcast first, since some rules weigh clients by it. An engine with a draw of its own
// (the real clock) knows its clients only when the round is over.
Status rounds_draw(Rounds *rounds, uint32_t round, Error *err) {
    TRY(engine_lr(&rounds->memory->control->order.lr, rounds->memory, rounds->nodes, round, err));
    assert(isfinite(rounds->memory->control->order.lr));
    rounds_go_on(rounds->memory, round);
    if (rounds->engine->draw) {
        rounds->engine->draw(&rounds->cohort, round);
        return STATUS_OK;
    }
    cohort_begin(&rounds->cohort, round);
    if (rounds->cohort.candidates > 0) TRY(rounds_choose_candidates(rounds, round, err));
    TRY(cohort_complete(&rounds->cohort, rounds->nodes, err));
    return cohort_wants_losses(&rounds->cohort) ? rounds_weigh_members(rounds, round, err) : STATUS_OK;
}

// Jobs of all nodes are merged here, so that all that follows works on one queue, as on one node. Tallies are cleared
// before the engine runs and not after, so that the report can read them until the next round.
static Status run_training(Rounds *rounds, uint32_t round, Error *err) {
    uint64_t begin = trace_begin(rounds->trace);
    rounds_clear_tallies(rounds);
    TRY(rounds->engine->run(rounds, round, err));
    trace_end(rounds->trace, TRACE_TRAIN, begin, round, round);
    assert(rounds->memory->queue->count <= rounds->memory->queue->capacity);
    return node_jobs_merge(rounds->memory, rounds->nodes, err);
}

// Clients that have failed during the round have lost what they kept, whether they took part in it or not.
static Status lose_states(Rounds *rounds, uint32_t round, Error *err) {
    const RunConfig *config = rounds->memory->config;
    if (!rounds->cohort.failures.lives || !config->world.failures.loses_state || config->client_state.rows == 0)
        return STATUS_OK;
    uint8_t *lost = calloc(config->clients, 1);
    if (!lost) return fail(err, STATUS_OS, "no memory for a list of %u clients", config->clients);
    const uint64_t now = rounds->memory->control->totals.microseconds, begin = now - rounds->cohort.microseconds;
    const Status status = cohort_failures_lost(&rounds->cohort.failures, lost, config, begin, now, rounds->nodes, err);
    for (uint32_t client = 0; client < config->clients && status == STATUS_OK; client++)
        if (lost[client]) client_state_rows_lose(&rounds->client_states, client, round);
    free(lost);
    return status;
}

// The report holds what the engine and the cohort know when the model is published. Its clock stops before the
// evaluation, which is measured on its own. backend->begin precedes all training, because it saves what a failed round
// is put back to.
Status rounds_train(Rounds *rounds, uint32_t round, RoundReport *report, Error *err) {
    *report = (RoundReport){.round = round, .lr = (double)rounds->memory->control->order.lr};
    rounds_note_release(rounds, report);
    TRY(rounds->parent.backend->begin(&rounds->parent, err));
    uint64_t start = clock_nanoseconds();
    TRY(run_training(rounds, round, err));
    TRY(rounds_note_steps(rounds, report, err));
    uint64_t begin = trace_begin(rounds->trace);
    TRY(rounds->engine->settle(rounds, round, err));
    cohort_note(&rounds->cohort, rounds->memory->queue);
    trace_end(rounds->trace, TRACE_AVERAGE, begin, round, round);
    report->seconds = clock_seconds_since(start);
    TRY(rounds_collect_training(rounds, report, err));
    if (!rounds->memory->algorithm.engine->whole_cohort) { // clients were drawn, and have sent updates
        WorldTotals *totals = &rounds->memory->control->totals;
        cohort_count_sent(&rounds->cohort, rounds->memory->queue);
        assert(rounds->cohort.training_joules >= 0 && rounds->cohort.link_joules >= 0); // totals only grow
        totals->microseconds += rounds->cohort.microseconds;
        totals->down_bytes += rounds->cohort.down_bytes;
        totals->up_bytes += rounds->cohort.up_bytes;
        totals->training_joules += rounds->cohort.training_joules;
        totals->link_joules += rounds->cohort.link_joules;
        totals->tokens += report->tokens;
        if (rounds->cohort.abandoned) rounds->cohort.failures.useful_microseconds = 0;
        totals->useful_microseconds += rounds->cohort.failures.useful_microseconds;
        totals->replica_microseconds += rounds->cohort.failures.replica_microseconds;
        TRY(lose_states(rounds, round, err));
    }
    if (report->refused_steps > 0)
        log_warning("round %u: %llu steps refused, their gradients were not finite", round,
                    (unsigned long long)report->refused_steps);
    report->workers_lost = rounds_take_deaths(rounds);
    return STATUS_OK;
}

// One sum over the nodes carries deaths and signals, so that all nodes stop after this round or none does. The sum is
// taken after every round, also without any death: a node cannot know whether another node has something to tell.
Status rounds_conclude(Rounds *rounds, RoundReport *report, Error *err) {
    Supervisor *supervisor = &rounds->phases.supervisor;
    int64_t facts[SIGTERM + 1] = {report->workers_lost}; // then, by number, how many nodes a signal has reached
    assert(supervisor->last_signal >= 0 && supervisor->last_signal <= SIGTERM);
    if (supervisor_interrupts(supervisor) > 0) facts[supervisor->last_signal]++;
    TRY(nodes_sum(rounds->nodes, facts, sizeof facts / sizeof *facts, err));
    report->workers_lost = (uint32_t)facts[0];
    report->stop_signal = 0;
    for (int signal = 1; signal <= SIGTERM; signal++) // the highest of the stop signals
        if (facts[signal] > 0) report->stop_signal = signal;
    return STATUS_OK;
}

// Life ----------------------------------------------------------------------------------------------------------------

static const Engine *const engines[ENGINE_COUNT] = {[ENGINE_ROUNDS] = &engine_rounds,
                                                    [ENGINE_WILD] = &engine_wild,
                                                    [ENGINE_LOCKSTEP] = &engine_lockstep,
                                                    [ENGINE_BUFFERED] = &engine_buffered,
                                                    [ENGINE_REAL_CLOCK] = &engine_real_clock};

// Strides are multiples of SLOT_ALIGNMENT, so that vectors of two writers share no cache line.
static uint64_t slot_stride(uint64_t bytes) {
    return (bytes + SLOT_ALIGNMENT - 1) / SLOT_ALIGNMENT * SLOT_ALIGNMENT;
}

// The order matters: vectors that outlive a round have the first places (state_plan), then the engine adds its own, and
// strides are computed last from what both have planned.
void engine_plan(RunConfig *config) {
    const Engine *engine = engines[config->engine];
    state_plan(config);
    if (engine->plan) engine->plan(&config->slots, config);
    assert(config->slots.lasting <= config->slots.vectors); // engines append to what outlives a round
    config->slots.vector_bytes = slot_stride(config->parameters * sizeof(float));
    config->slots.sum_bytes = slot_stride(config->parameters * sizeof(int64_t));
}

uint32_t rounds_test_chunk(const Dataset *data) {
    return data->items.are_clients ? 1 : EVALUATION_CHUNK;
}

uint32_t rounds_job_capacity(const RunConfig *config, const Dataset *data, uint32_t clients_per_round,
                             uint32_t test_count) {
    const uint32_t size = rounds_test_chunk(data), chunks = (test_count + size - 1) / size;
    uint32_t members = cohort_capacity(&config->world, config->clients, clients_per_round);
    uint32_t jobs = members > chunks ? members : chunks;
    return config->tests_clients && config->clients > jobs ? config->clients : jobs;
}

// Relaxed loads suffice: the number is for a line on the terminal.
uint64_t rounds_progress(const Rounds *rounds) {
    uint64_t samples = 0;
    for (uint32_t rank = 0; rank < rounds->memory->config->workers; rank++)
        samples += atomic_load_explicit(&rounds->memory->control->pulses[rank].progress, memory_order_relaxed);
    return samples;
}

// A second stop signal ends waits outside of a phase, too.
static bool is_cancelled(void *context) {
    Rounds *rounds = context;
    return supervisor_interrupts(&rounds->phases.supervisor) >= 2;
}

// From here on the nodes' waits can be cancelled, too: a parent that waits for other nodes would otherwise not notice a
// second stop signal.
static Status start_phases(Rounds *rounds, const PhasesConfig *config, Error *err) {
    PhasesConfig served = *config;
    served.engine = rounds->engine;
    served.rounds = rounds;
    served.external = &rounds->external;
    served.parent = &rounds->parent;
    TRY(phases_init(&rounds->phases, &served, err));
    rounds->nodes->cancelled = is_cancelled;
    rounds->nodes->context = rounds;
    return STATUS_OK;
}

// The workers wait at the barrier meanwhile, and only the parent can show that the run is alive.
static void tick(void *context) {
    const PhasesConfig *config = &((Rounds *)context)->phases.config;
    if (config->trainers) trainer_output_serve(&config->trainers->output);
    if (config->on_tick) config->on_tick(config->context);
}

// Comes after the workers, since stop signals are heard from then on.
static Status open_external(Rounds *rounds, Error *err) {
    const TrainerWait wait = {.silence_seconds = rounds->memory->config->aggregator.hang_seconds,
                              .on_wait = tick,
                              .is_cancelled = is_cancelled,
                              .context = rounds};
    return external_open(&rounds->external, &rounds->combine, &rounds->parent, rounds->phases.config.trainers, &wait,
                         err);
}

// Each part may be missing: all of them are zeros before they are made.
static void free_memory(Rounds *rounds) {
    if (rounds->engine->free) rounds->engine->free(rounds);
    crafting_free(&rounds->crafting);
    pending_free(&rounds->pending);
    combine_free(&rounds->combine);
    client_state_rows_free(&rounds->client_states);
    sample_budget_free(&rounds->budget);
    cohort_free(&rounds->cohort);
}

// Later parts use earlier ones: crafting walks the rows of combine, and an engine may use all of them.
static Status allocate(Rounds *rounds, const RoundsConfig *config, Error *err) {
    const RunConfig *run = rounds->memory->config;
    const uint32_t members = cohort_capacity(&run->world, run->clients, config->clients_per_round);
    TRY(cohort_init(&rounds->cohort, rounds->memory, config->clients_per_round, err));
    TRY(client_state_rows_init(&rounds->client_states, rounds->memory, members, config->rounds_done, err));
    TRY(combine_init(&rounds->combine, rounds->memory, rounds->nodes, err));
    TRY(crafting_init(&rounds->crafting, &rounds->combine, err));
    TRY(pending_init(&rounds->pending, rounds->memory, config->rounds_done, err));
    return rounds->engine->init ? rounds->engine->init(rounds, err) : STATUS_OK;
}

// Memory first, then the backend, then the workers: they map what the parent owns, and start with it complete.
Status rounds_init(Rounds *rounds, const RoundsConfig *config, Error *err) {
    RunMemory *memory = config->phases.memory;
    assert((uint32_t)memory->config->engine < ENGINE_COUNT && engines[memory->config->engine]);
    assert(config->clients_per_round >= 1 && config->clients_per_round <= memory->config->population);
    *rounds = (Rounds){
        .engine = engines[memory->config->engine],
        .memory = memory,
        .parent = {.backend = config->backend, .memory = memory, .nodes = config->nodes, .squared_length = NAN},
        .nodes = config->nodes,
        .trace = run_memory_trace(memory, memory->config->workers)};
    Status status;
    if (memory->config->release.hides && memory->config->release.tree_rounds == 0)
        accountant_add(rounds->rdp, &memory->config->release.mechanism, 1);
    TRY_GOTO(free_memory, allocate(rounds, config, err));
    TRY_GOTO(free_memory, config->backend->init(&rounds->parent, err));
    TRY_GOTO(free_parent, start_phases(rounds, &config->phases, err));
    TRY_GOTO(free_phases, open_external(rounds, err));
    return STATUS_OK;
free_phases:
    rounds->nodes->cancelled = NULL;
    phases_free(&rounds->phases);
free_parent:
    config->backend->free(&rounds->parent);
free_memory:
    free_memory(rounds);
    return status;
}

void rounds_free(Rounds *rounds) {
    rounds->nodes->cancelled = NULL;
    external_close(&rounds->external);
    phases_free(&rounds->phases); // first, for the workers use what the parent owns
    rounds->parent.backend->free(&rounds->parent);
    free_memory(rounds);
}
