// Part of rounds.h: one turn of a client before a run, which is thrown away.
#include "base/clock.h"
#include "fedavg/parent/rounds.h"

enum { STEPS_IN_LOCKSTEP = 8 }; // of all shards: a round in lockstep has no turn of a single client

// The turn is the engine's own, with all that its rules add, on a cohort that ends after its first places: clients are
// in order of falling size, so that memory is that of the largest.
Status rounds_rehearse(Rounds *rounds, uint32_t clients, Rehearsal *rehearsal, Error *err) {
    const Queue *queue = rounds->memory->queue;
    Cohort *cohort = &rounds->cohort;
    *rehearsal = (Rehearsal){0};
    TRY(rounds_draw(rounds, 1, err));
    rehearsal->round_samples = rounds_samples(rounds, false);
    rehearsal->places = cohort->jobs;
    if (cohort->jobs > clients) cohort->jobs = clients;
    rounds->memory->control->order.most_steps = STEPS_IN_LOCKSTEP;
    TRY(rounds->parent.backend->begin(&rounds->parent, err));
    const uint64_t begin = clock_nanoseconds();
    if (cohort->jobs > 0) TRY(rounds->engine->run(rounds, 1, err));
    rehearsal->seconds = clock_seconds_since(begin);
    rehearsal->client = cohort->jobs > 0 ? queue->jobs[0].client : 0;
    rehearsal->clients = cohort->jobs > 0 ? queue->count : 0;
    for (uint32_t i = 0; i < rehearsal->clients; i++)
        rehearsal->trained += queue->jobs[i].samples;
    return rounds_rehearse_test(rounds, rehearsal, err);
}

// Updates that wait are planned from the schedule, which does not depend on the workers.
void engine_plan_workers(RunConfig *config, uint32_t workers) {
    const uint32_t pending = config->slots.pending;
    config->workers = workers;
    if (run_algorithm(config).engine->client_is_worker) config->clients = config->cohort = workers;
    engine_plan(config);
    config->slots.pending = pending;
}
