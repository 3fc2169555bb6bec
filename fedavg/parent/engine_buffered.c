// Part of engine.h: fedbuff. The clients that begin from one version train as a cohort of fedavg, but the step of a
// round does not wait for all of them: it takes the updates that have arrived by then, of this cohort and of earlier
// ones.
#include <string.h>

#include "base/log.h"
#include "fedavg/memory/state.h"
#include "fedavg/parent/rounds.h"
#include "fedavg/rules/local/local_rules.h"
#include "fedavg/worker/client.h"

// A step of refused updates alone leaves the model. That ends the run only if the round's own clients were refused,
// too: otherwise later steps have updates. Unlike in engine_rounds a refused update may belong to an earlier round, so
// that it says nothing about this round's rate.
static Status check_arrived(bool *step, const Rounds *rounds, uint32_t round, Error *err) {
    const Pending *pending = &rounds->pending;
    uint32_t done = 0;
    for (uint32_t i = 0; i < rounds->memory->queue->count; i++)
        done += rounds->memory->queue->jobs[i].state == JOB_DONE;
    *step = pending->refused < pending->updates;
    if (*step) return STATUS_OK;
    log_warning("round %u: all updates of its step were refused; the model stays", round);
    if (done > 0) return STATUS_OK;
    return engine_refused_all(rounds, round, err);
}

// The replica that has arrived gives to the centre, and nothing else happens in this step. The replica loses what it
// gives in its next turn, which is the next round's: it finds in STATE_MET the centre that it has met, or itself if it
// gives nothing (*gifts is then NULL).
static Status give(const int64_t **gifts, Rounds *rounds, uint32_t round, bool gives, Error *err) {
    RunMemory *memory = rounds->memory;
    const RunConfig *config = memory->config;
    const size_t parameters = config->parameters;
    const Chosen *chosen = &config->recipe.local;
    const float *row =
        client_state_row(&memory->client_state, client_state_rows_of(&rounds->client_states, rounds->pending.client));
    float *met = run_memory_vector(memory, state_vector(memory, STATE_MET));
    int64_t *given = run_memory_sum(memory, 0, 1);
    Training training = config->training;
    TRY(engine_lr(&training.sgd.lr, memory, rounds->nodes, round + 1, err));
    LocalTurn turn = local_turn(chosen, &training, 0, 1);
    turn.ahead = local_ahead(&training);
    LocalVectors at = {.global = memory->weights, .state = row};
    if (row && training.optimizer_state == OPTIMIZER_KEPT) at.velocity = row + config->client_state.optimizer;
    if (gives && !local_gifts_fit(&at, &turn, 0x1p22 / config->clients, parameters)) {
        log_warning("client %u: what it would give to the centre is not finite, or %g or more; it gives nothing; scale "
                    "the data nearer to 1, or lower --lr",
                    rounds->pending.client, 0x1p22 / config->clients);
        gives = false;
    }
    for (size_t i = 0; i < parameters; i++)
        met[i] = gives || !row ? memory->weights[i] : local_replica(&at, &turn, i);
    *gifts = NULL;
    if (!gives) return STATUS_OK;
    memset(given, 0, parameters * sizeof *given);
    local_add_gifts(given, &at, &turn, parameters);
    *gifts = given;
    return STATUS_OK;
}

// The order matters. Pending updates are collected first, which decides what the step consists of. Client state is
// committed before the step: a replica gives from its new row. pending_conclude is last, since it moves the schedule to
// the next round: an error before it ends the run at a round that has not happened.
static Status settle(Rounds *rounds, uint32_t round, Error *err) {
    const RunConfig *config = rounds->memory->config;
    Pending *pending = &rounds->pending;
    bool used[MAX_WORKERS], finite, step;
    TRY(pending_collect(pending, rounds->cohort.members, round, rounds->nodes, err));
    TRY(client_state_rows_commit(&rounds->client_states, round, rounds->nodes, err));
    TRY(check_arrived(&step, rounds, round, err));
    const int64_t *gifts = NULL;
    if (rounds->memory->algorithm.local->replicas) {
        TRY(give(&gifts, rounds, round, step, err));
        step = gifts != NULL;
    }
    if (step) {
        Mean mean = {.arrived = pending->arrived, .factor = 1, .late = pending->due, .late_count = pending->due_count};
        if (gifts) mean = (Mean){.arrived = 1, .factor = 1, .total = gifts, .changes = gifts};
        const ServerTurn turn =
            server_turn(&config->recipe.server, round, pending->updates - pending->refused, config->arriving);
        engine_find_used(used, rounds);
        TRY(rounds->parent.backend->average(&rounds->parent, &finite, used, &mean, &turn, err));
        if (!finite) return engine_mean_unfit(rounds, round, err);
    }
    pending_conclude(pending, round);
    return STATUS_OK;
}

// The schedule decides when each client trains (cohort.c): the workers do not know that their updates may wait.
const Engine engine_buffered = {.plan = client_plan, .run = engine_run_clients, .settle = settle};
