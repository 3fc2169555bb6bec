// Part of engine.h: ssgd. A round is all or nothing: after a death it starts over from the weights that it began with.
#include "base/log.h"
#include "fedavg/parent/rounds.h"
#include "fedavg/worker/ssgd.h"

enum { MAX_ATTEMPTS = 100 }; // at one round

// Whether gradients travel at all; every hook of this engine asks it first.
static bool exchanges(const Rounds *rounds) {
    return rounds->nodes->size > 1;
}

// One node needs no exchange: its workers hold all gradients and step by themselves (worker/ssgd.c).
static Status init(Rounds *rounds, Error *err) {
    if (!exchanges(rounds)) return STATUS_OK;
    return exchange_init(&rounds->exchange, rounds->memory, rounds->nodes, err);
}

static void free_exchange(Rounds *rounds) {
    if (exchanges(rounds)) exchange_free(&rounds->exchange);
}

static Status serve(Rounds *rounds, bool *busy, Error *err) {
    return exchanges(rounds) ? exchange_serve(&rounds->exchange, busy, err) : STATUS_OK;
}

// *unfinished: shards of all nodes that are left. A worker's death on one node leaves shards there unfinished. The
// exchange tells the other nodes' workers to stop, and the sum over the nodes makes all parents decide alike: every
// node repeats the round, or none does.
static Status attempt(Rounds *rounds, uint32_t round, int64_t *unfinished, Error *err) {
    const RunConfig *config = rounds->memory->config;
    const ShardRange own = ssgd_node_shards(config, config->node);
    queue_clear(rounds->memory->queue);
    for (uint32_t shard = own.first; shard < own.end; shard++) { // at fixed places, so that the sums have one order
        Job *job;
        TRY(rounds_post(&job, rounds, shard, err));
        job->client = shard;
    }
    if (exchanges(rounds)) exchange_begin(&rounds->exchange, round, ssgd_round_steps(rounds->memory));
    TRY(phases_run(&rounds->phases, PHASE_TRAIN, round, err));
    if (exchanges(rounds)) TRY(exchange_finish(&rounds->exchange, err));
    *unfinished = queue_unfinished(rounds->memory->queue);
    return nodes_sum(rounds->nodes, unfinished, 1, err);
}

// Repeats the round until every shard has its job done. A round of lockstep cannot be repaired in part: after a death
// the gradients of some steps were applied and those of others not, and the members' slices have changed. With
// respawn the dead worker's successor is at the barrier by then (phases.c) and is a member of the new attempt.
static Status run(Rounds *rounds, uint32_t round, Error *err) {
    for (int attempts = 0; attempts < MAX_ATTEMPTS; attempts++) {
        int64_t unfinished;
        TRY(attempt(rounds, round, &unfinished, err));
        if (unfinished == 0) return STATUS_OK;
        phases_forgive(&rounds->phases); // the number of attempts is the limit here
        rounds_clear_tallies(rounds);
        log_info("round %u: a worker died in lockstep; the round starts over", round);
        TRY(rounds->parent.backend->restore(&rounds->parent, err));
    }
    return fail(
        err, STATUS_UNAVAILABLE,
        "round %u: a worker died in each of %d attempts; shorter rounds (more --rounds on less data) or another "
        "--algorithm may get through",
        round, MAX_ATTEMPTS);
}

// One hung worker keeps all others at the step barrier. So a worker that has arrived at one of the two barriers is not
// blamed for its lack of progress: the supervisor kills the one that is missing.
static bool is_waiting(const Rounds *rounds, uint32_t rank) {
    const Control *control = rounds->memory->control;
    const uint32_t position = control->order.position[rank];
    return barrier_has_arrived(&control->step, position) || barrier_has_arrived(&control->exchange, position);
}

const Engine engine_lockstep = {.plan = ssgd_plan,
                                .run = run,
                                .settle = engine_adopt,
                                .init = init,
                                .free = free_exchange,
                                .serve = serve,
                                .is_waiting = is_waiting};
