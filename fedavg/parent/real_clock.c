// Part of rounds.h: --clock real. No worker waits for another, and an update is part of the version after which it
// really arrives. The parent gives every worker a client, takes the updates in the order in which it finds them, and
// makes a version of every K updates, while the workers train on. Each arrival is recorded as a job of a schedule, from
// which the simulated clock makes the run again, bit by bit.
//
// A client whose worker died before it landed begins again, from the newest version. An update that has landed counts
// once, whichever process dies.
#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "fedavg/parent/rounds.h"
#include "fedavg/rules/sum/aggregate.h"
#include "fedavg/rules/world/stale_rules.h"
#include "fedavg/worker/client.h"
#include "fedavg/worker/flights.h"

// A flight is the one place that a worker and the parent share per rank. Its state says whose it is: FLIGHT_NONE and
// FLIGHT_LANDED belong to the parent, FLIGHT_POSTED to the worker. Each side writes the job completely before it hands
// the flight over with a release store, and reads it after an acquire load, so that no lock is needed and neither side
// ever waits for the other with something half written.
//
// A death hands a posted flight back: the supervisor has proven that the process is gone before the parent touches it.
// A worker that dies after its landing has lost nothing, since its update and the weights that it began with are in
// rows of the shared memory.

static const double *numbers(const Rounds *rounds) {
    return rounds->memory->config->recipe.schedule.number;
}

static Flight *flight_of(const Rounds *rounds, uint32_t rank) {
    return &rounds->memory->control->flights[rank];
}

// Publishes the current weights as this version, over the last but one. `writing` is set before the copy and the
// version after it: a worker that has copied weights sees by `writing` whether they changed meanwhile, and the parent
// waits for no worker. A third version is never needed: a reader that is overtaken by two publications copies again.
static void publish(const Rounds *rounds, uint32_t version) {
    RunMemory *memory = rounds->memory;
    Control *control = memory->control;
    assert(version == 0 || version == atomic_load_explicit(&control->published, memory_order_relaxed) + 1);
    atomic_store_explicit(&control->writing, version, memory_order_relaxed);
    atomic_thread_fence(memory_order_seq_cst); // pairs with that of copy_newest
    memcpy(run_memory_row(memory, flights_version_row(memory->config->workers, version)), memory->weights,
           memory->config->parameters * sizeof *memory->weights);
    atomic_store_explicit(&control->published, version, memory_order_release); // pairs with copy_newest
}

// Only this process stores the version, so that it reads its own value in any order.
static uint32_t version_of(const Rounds *rounds) {
    return atomic_load_explicit(&rounds->memory->control->published, memory_order_relaxed);
}

static void free_clock(Rounds *rounds) {
    RealClock *clock = &rounds->clock;
    schedule_free(&clock->log);
    owned_free(&clock->owned);
    *clock = (RealClock){0};
}

// Draws the order in which clients begin from this version. The draw covers all clients, for it is not known how many
// will begin before the next version.
static void draw(Rounds *rounds) {
    RealClock *clock = &rounds->clock;
    clock->picked = cohort_draw(&rounds->cohort, rounds->memory->config->population, version_of(rounds) + 1, true);
    clock->next = 0;
}

// Version 0 is published before the first worker starts, so that every worker finds weights to begin from. visits
// counts the trainings of each client in the run: no two of them share shuffles and noise.
static Status init(Rounds *rounds, Error *err) {
    const RunConfig *config = rounds->memory->config;
    RealClock *clock = &rounds->clock;
    clock->visits = own(&clock->owned, config->clients, sizeof *clock->visits);
    clock->lost = own(&clock->owned, config->clients, sizeof *clock->lost);
    clock->busy = own(&clock->owned, config->clients, sizeof *clock->busy);
    if (clock->owned.lacks_memory) {
        free_clock(rounds);
        return fail(err, STATUS_OS, "no memory for %u clients", config->clients);
    }
    publish(rounds, 0);
    draw(rounds);
    clock->start_nanoseconds = clock->round_nanoseconds = clock_nanoseconds();
    return STATUS_OK;
}

// Clients whose worker died are first: they were drawn before. Then the draw goes round, past clients that train at
// this moment or have no samples. A client never trains twice at a time: the simulated clock, which replays the run,
// allows no such schedule.
static bool pick(uint32_t *client, Rounds *rounds) {
    RealClock *clock = &rounds->clock;
    assert(clock->lost_count <= rounds->memory->config->clients && clock->picked <= rounds->memory->config->clients);
    if (clock->lost_count > 0) {
        *client = clock->lost[--clock->lost_count];
        return true;
    }
    for (uint32_t tried = 0; tried < clock->picked; tried++) {
        *client = rounds->cohort.drawn[clock->next++ % clock->picked];
        if (!clock->busy[*client] && rounds->cohort.samples[*client] > 0) return true;
    }
    return false;
}

// Gives the worker a client, if one is free. A job here has a flight's place instead of one in the queue: there is no
// phase at whose end the queue would be read. The whole job is written before `state`, by which the worker sees it; the
// bell is rung after that.
static void post(Rounds *rounds, uint32_t rank) {
    RealClock *clock = &rounds->clock;
    const RunConfig *config = rounds->memory->config;
    Flight *flight = flight_of(rounds, rank);
    uint32_t client;
    if (!pick(&client, rounds)) return;
    assert(client < config->clients && rounds->cohort.samples[client] > 0);
    assert(atomic_load_explicit(&flight->state, memory_order_relaxed) == FLIGHT_NONE); // it is the parent's
    clock->busy[client] = 1;
    memset(&flight->job, 0, sizeof flight->job);
    flight->job.client = client;
    flight->job.count = rounds->cohort.samples[client];
    flight->job.place = rank;
    flight->job.epochs = config->training.local_epochs;
    flight->job.share = 1 / numbers(rounds)[BUFFERED_K];
    flight->job.visit = clock->visits[client]++;
    flight->job.attacks = rounds->memory->attackers ? rounds->memory->attackers[client] : 0;
    flight->job.sent_bytes = rounds->cohort.each.sent;
    atomic_store(&flight->job.owner, rank + 1);
    atomic_store_explicit(&flight->state, FLIGHT_POSTED, memory_order_release); // pairs with the worker's look
    bell_ring(&flight->bell);
}

// Adds the update to the version in the making, unless it is refused. Where late updates are compensated or mixed, a
// version is one update, so that the sum can be changed as a whole. The difference is computed from the worker's own
// copy of the weights that it began with: the shared weights have moved on. An update that is refused after it was
// added does no harm, because the sum of a version that is one update is cleared before the next.
static bool add(const Rounds *rounds, uint32_t rank, double weight) {
    RunMemory *memory = rounds->memory;
    const RunConfig *config = memory->config;
    const size_t parameters = config->parameters;
    const Flight *flight = flight_of(rounds, rank);
    const bool is_late = flight->version < version_of(rounds);
    assert(flight->version <= version_of(rounds));
    const float *begun = run_memory_row(memory, flights_begun_row(config->workers, rank));
    int64_t *sum = run_memory_sum(memory, 0, 0);
    if (rounds->clock.collected == 0) memset(sum, 0, parameters * sizeof *sum);
    aggregate_add(sum, run_memory_row(memory, rank), begun, weight, parameters);
    if (!is_late) return true;
    if (numbers(rounds)[BUFFERED_MIXES] == MIXES_MODELS) {
        if (stale_mix(sum, begun, memory->weights, weight, parameters)) return true;
        log_warning(PENDING_MOVED, flight->job.client);
        return false;
    }
    const Chosen *stale = &config->recipe.stale;
    if (!stale_compensates(stale) ||
        stale_compensate(sum, begun, memory->weights, stale, (double)config->training.sgd.lr, parameters))
        return true;
    log_warning(PENDING_REFUSED, flight->job.client);
    return false;
}

// Records the arrival. A replay has only this record, so that it holds all that decides the bits: client, visit, the
// version that the update began with, and its weights. `applied` is the version before the one that the update makes,
// as in a simulated schedule.
static Status note(Rounds *rounds, uint32_t rank, double weight, double trust, Error *err) {
    RealClock *clock = &rounds->clock;
    const Flight *flight = flight_of(rounds, rank);
    clock->collected++;
    const ScheduledJob job = {.client = flight->job.client,
                              .visit = flight->job.visit,
                              .start = flight->version,
                              .applied = version_of(rounds),
                              .epochs = flight->job.epochs,
                              .weight = weight,
                              .trust = trust,
                              .begin_microseconds = (flight->begin_nanoseconds - clock->start_nanoseconds) / 1000,
                              .end_microseconds = (flight->end_nanoseconds - clock->start_nanoseconds) / 1000};
    return schedule_add(&clock->log, &job, err);
}

// Returns a place in the round's record for an update that makes no part of the version, as long as enough places
// remain for updates that do. The queue was made for a cohort, and K accepted updates must always find a place.
static Job *tell_unused(Rounds *rounds) {
    Queue *queue = rounds->memory->queue;
    const uint32_t to_come = (uint32_t)numbers(rounds)[BUFFERED_K] - rounds->clock.collected;
    if (queue->count + to_come < queue->capacity) return queue_post(queue);
    rounds->clock.untold++;
    return NULL;
}

// Takes one landed update. Its job is copied into the queue, which a round's figures are computed from as with any
// other engine. A landed job is the parent's alone: the worker has stored its results before `state` and waits for the
// next client. FLIGHT_NONE is stored last, after which the place may be posted again.
static Status collect(Rounds *rounds, uint32_t rank, Error *err) {
    RealClock *clock = &rounds->clock;
    const RunConfig *config = rounds->memory->config;
    Flight *flight = flight_of(rounds, rank);
    assert(flight->job.owner == rank + 1 && clock->busy[flight->job.client]);
    assert(flight->end_nanoseconds >= flight->begin_nanoseconds);
    const uint32_t staleness = version_of(rounds) - flight->version;
    const bool late = staleness > numbers(rounds)[BUFFERED_LIMIT];
    const double trust = stale_weight(&config->recipe.stale, staleness);
    const double weight = 1 / numbers(rounds)[BUFFERED_K];
    if (flight->job.state == JOB_DONE && !late && !add(rounds, rank, weight * trust)) flight->job.state = JOB_REFUSED;
    const bool refused = flight->job.state == JOB_REFUSED;
    phases_forgive(&rounds->phases);
    Job *told = refused || late ? tell_unused(rounds) : queue_post(rounds->memory->queue);
    assert(told || refused || late); // accepted updates always find a place
    if (told) {
        memcpy(told, &flight->job, sizeof *told);
        told->place = rounds->memory->queue->count - 1;
    }
    clock->busy[flight->job.client] = 0;
    clock->refused += refused;
    rounds->cohort.late += late;
    if (!refused && !late) {
        TRY(note(rounds, rank, weight, trust, err));
        pending_count(&rounds->pending, staleness);
    }
    if (told && told->state == JOB_DONE)
        told->share = refused || late ? 0 : clock->log.jobs[clock->log.count - 1].trust * told->share;
    atomic_store_explicit(&flight->state, FLIGHT_NONE, memory_order_relaxed);
    return STATUS_OK;
}

// Each wait ends with exactly K accepted updates: serve collects none beyond these.
static bool is_enough(const Rounds *rounds) {
    return rounds->clock.flies && rounds->clock.collected == (uint32_t)numbers(rounds)[BUFFERED_K];
}

// Looks at all workers in turn while they train. Updates that come in too late for this version stay landed and are
// found in the next round. A flight of a dead worker that has landed still counts, since its update is complete; one
// that was only posted is given to another worker, whose training begins from the newest version.
static Status serve(Rounds *rounds, bool *busy, Error *err) {
    (void)busy;
    enum { REFUSED_IN_A_ROW = 100 };
    RealClock *clock = &rounds->clock;
    if (!clock->flies) return STATUS_OK;
    for (uint32_t rank = 0; rank < rounds->memory->config->workers && !is_enough(rounds); rank++) {
        Flight *flight = flight_of(rounds, rank);
        const uint32_t state = atomic_load_explicit(&flight->state, memory_order_acquire); // pairs with the landing
        const bool dead = rounds->phases.supervisor.workers[rank].state == WORKER_DEAD;
        if (state == FLIGHT_LANDED) TRY(collect(rounds, rank, err));
        if (state == FLIGHT_POSTED && dead) { // another worker begins its client again
            assert(clock->busy[flight->job.client]);
            clock->lost[clock->lost_count++] = flight->job.client;
            atomic_store_explicit(&flight->state, FLIGHT_NONE, memory_order_relaxed);
        }
        if (state != FLIGHT_POSTED && !dead) post(rounds, rank);
    }
    if (clock->refused < REFUSED_IN_A_ROW || clock->collected > 0) return STATUS_OK;
    return fail(err, STATUS_SOFTWARE,
                "%u updates in a row were refused as not finite or too large; lower --lr (now %g)", clock->refused,
                (double)rounds->memory->config->training.sgd.lr);
}

// Workers train on while this function waits and after it returns. Updates that land after the last accepted one stay
// where they are until the next round's serve.
static Status run(Rounds *rounds, uint32_t round, Error *err) {
    RealClock *clock = &rounds->clock;
    queue_clear(rounds->memory->queue);
    rounds->pending = (Pending){.memory = rounds->pending.memory, .due = rounds->pending.due};
    clock->collected = clock->refused = clock->untold = 0;
    clock->flies = true;
    atomic_store(&rounds->memory->control->all_land, 0);
    Status status = phases_fly(&rounds->phases, round, err);
    Cohort *cohort = &rounds->cohort;
    const uint64_t now = clock_nanoseconds();
    cohort->count = cohort->jobs = rounds->memory->queue->count;
    cohort->microseconds = (now - clock->round_nanoseconds) / 1000;
    cohort->down_bytes = (uint64_t)(cohort->count + clock->untold) * cohort->each.down;
    cohort->up_bytes = (uint64_t)(cohort->count + clock->untold) * cohort->each.up;
    if (clock->untold > 0)
        log_warning("round %u: %u updates that came late or were refused are in no record of clients; more "
                    "--clients-per-round make room",
                    round, clock->untold);
    rounds->pending.staleness_mean /= rounds->pending.updates;
    clock->round_nanoseconds = now;
    return status;
}

// Publishes the version when the step has succeeded. Workers that train meanwhile read the version before, or this one:
// both are whole.
static Status settle(Rounds *rounds, uint32_t round, Error *err) {
    const RunConfig *config = rounds->memory->config;
    const Mean mean = {.arrived = 1, .factor = 1, .total = run_memory_sum(rounds->memory, 0, 0)};
    const ServerTurn turn = server_turn(&config->recipe.server, round, rounds->clock.collected, config->arriving);
    bool used[MAX_WORKERS] = {false}, finite;
    TRY(rounds->parent.backend->average(&rounds->parent, &finite, used, &mean, &turn, err));
    if (!finite) return engine_mean_unfit(rounds, round, err);
    publish(rounds, round);
    draw(rounds);
    return STATUS_OK;
}

// Other phases (an evaluation) need all workers at the barrier, which they reach only between two clients: all_land
// tells them, and the bells wake those that wait for a client.
static Status rest(Rounds *rounds, Error *err) {
    if (!rounds->clock.flies) return STATUS_OK;
    rounds->clock.flies = false;
    atomic_store(&rounds->memory->control->all_land, 1);
    for (uint32_t rank = 0; rank < rounds->memory->config->workers; rank++)
        bell_ring(&flight_of(rounds, rank)->bell);
    return phases_rest(&rounds->phases, err);
}

// A worker that has landed waits for its next client.
static bool is_waiting(const Rounds *rounds, uint32_t rank) {
    return !atomic_load(&rounds->memory->control->all_land) &&
           atomic_load(&flight_of(rounds, rank)->state) != FLIGHT_POSTED;
}

static void plan(SlotPlan *slots, const RunConfig *config) {
    client_plan(slots, config);
    slots->rows = flights_rows(config->workers);
}

const Engine engine_real_clock = {.plan = plan,
                                  .draw = cohort_expect,
                                  .run = run,
                                  .settle = settle,
                                  .init = init,
                                  .free = free_clock,
                                  .serve = serve,
                                  .is_enough = is_enough,
                                  .rest = rest,
                                  .is_waiting = is_waiting};
