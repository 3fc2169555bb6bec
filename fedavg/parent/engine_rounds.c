// Part of engine.h: fedavg. The clients of a round train on their own, and the new model is the mean of the updates
// that they send.
#include <assert.h>
#include <math.h>
#include <string.h>

#include "base/log.h"
#include "fedavg/memory/state.h"
#include "fedavg/parent/rounds.h"
#include "fedavg/rules/world/walk.h"
#include "fedavg/worker/client.h"

// After the phase of training each job is done or refused, and the parent is the only writer of shared memory until the
// next phase: the sums of the workers, rows and the staged client state are complete, however many workers died on the
// way. settle makes the step of them; all its inputs are read in the order of the jobs or added as integers, so that
// neither the number of workers nor the order of their work shows in the model.

// The rate of the order, which a schedule of rates has changed since the options were read.
static double round_lr(const Rounds *rounds) {
    return (double)run_memory_training(rounds->memory).sgd.lr;
}

// Both messages name the rate of this round: it is what a user can lower, and a schedule may have changed it.
Status engine_refused_all(const Rounds *rounds, uint32_t round, Error *err) {
    return fail(err, STATUS_SOFTWARE,
                "round %u: the updates of all clients were refused as not finite or too large; lower --lr (now %g), or "
                "scale the data nearer to 1",
                round, round_lr(rounds));
}

Status engine_mean_unfit(const Rounds *rounds, uint32_t round, Error *err) {
    return fail(err, STATUS_SOFTWARE, "round %u: the mean is no longer finite; lower --lr (now %g)", round,
                round_lr(rounds));
}

// Sums the shares that arrived, of all clients and of those of each of several models, by which means are divided:
// clients that were refused leave no gap. A sum of all shares is 1, whatever their rounding, so that a mean over all
// clients has the bits of a run without any model beside it. Returns how many clients arrived.
static uint32_t find_arrived(Mean *mean, const Rounds *rounds) {
    const Queue *queue = rounds->memory->queue;
    uint32_t clients = 0, clients_of[PERSONAL_MOST_CLUSTERS] = {0};
    for (uint32_t i = 0; i < queue->count; i++) {
        const Job *job = &queue->jobs[i];
        if (job->state == JOB_REFUSED) continue;
        clients++;
        assert(job->cluster < state_models(rounds->memory->config));
        mean->arrived += job->share;
        mean->arrived_of[job->cluster] += job->share;
        if (++clients_of[job->cluster] == queue->count) mean->arrived_of[job->cluster] = 1;
    }
    assert(clients <= queue->count && rounds->cohort.shares.total > 0);
    mean->arrived = clients == queue->count ? 1 : mean->arrived / rounds->cohort.shares.total;
    return clients;
}

// Combines updates that are stored side by side. The rows are combined here and not in the backend, because rules look
// at several updates at once; the backend gets their sum and makes the usual step of the server rule.
static Status combine(Mean *mean, bool *enough, Rounds *rounds, uint32_t round, Error *err) {
    TRY(combine_rows(&rounds->combine, enough, round, err));
    if (*enough) TRY(external_combine(&rounds->external, mean->noise, round, err));
    *mean = (Mean){.arrived = 1, .factor = 1, .total = rounds->combine.total};
    if (!*enough)
        log_warning("round %u: the updates of %u clients are too few for combine %s; the model stays", round,
                    rounds->combine.count, rounds->combine.rule->text.name);
    return STATUS_OK;
}

// Finds what the sum of the updates is divided by and multiplied with. Three cases differ. Usually the divisor is the
// share that arrived, so that refused clients leave no gap. A release that hides its clients divides by a constant: a
// divisor that depends on who takes part would itself tell something. A rule with a factor of its own computes it from
// the lengths, and knows by the NaN which clients were refused. Returns how many clients arrived.
static uint32_t find_mean(Mean *mean, const Rounds *rounds) {
    const RunConfig *config = rounds->memory->config;
    const CombineRule *rule = rounds->memory->algorithm.combine;
    const Queue *queue = rounds->memory->queue;
    *mean = (Mean){.factor = rounds->cohort.shares.factor};
    const uint32_t clients = find_arrived(mean, rounds);
    if (config->release.hides) { // who is missing leaves a gap that nobody fills
        mean->arrived = 1;
        mean->noise = config->release.updates_noise * rounds->memory->control->clip / config->release.cohort;
    }
    if (!rule->factor) return clients;
    double *squared_lengths = rounds->cohort.losses; // which are the members' by now
    for (uint32_t i = 0; i < queue->count; i++)
        squared_lengths[i] = queue->jobs[i].state == JOB_DONE ? queue->jobs[i].squared_length : NAN;
    mean->arrived = 1; // the rule's factor knows who has been refused
    mean->factor = rule->factor(rounds->cohort.members, squared_lengths, queue->count, round_lr(rounds),
                                config->recipe.combine.number);
    return clients;
}

// A worker whose jobs were all refused has not cleared its slot, and one that handed in only late updates has written
// none: neither may be added.
void engine_find_used(bool *used, const Rounds *rounds) {
    const Queue *queue = rounds->memory->queue;
    memset(used, 0, MAX_WORKERS * sizeof *used);
    for (uint32_t i = 0; i < queue->count; i++) {
        const Job *job = &queue->jobs[i];
        if (job->state != JOB_DONE || job->node != rounds->nodes->rank || job->pending > 0) continue;
        assert(job->owner >= 1 && job->owner <= rounds->memory->config->workers);
        used[job->owner - 1] = true;
    }
}

// The norm that the next round's updates are clipped to follows from how many of this round's were clipped. Node 0
// computes it, since exp is the C library's; all nodes use it.
static Status adapt_clip(Rounds *rounds, uint32_t round, Error *err) {
    const RunConfig *config = rounds->memory->config;
    const Queue *queue = rounds->memory->queue;
    double *norm = &rounds->memory->control->clip;
    uint32_t arrived = 0, clipped = 0;
    for (uint32_t i = 0; i < queue->count; i++)
        if (queue->jobs[i].state == JOB_DONE) arrived++, clipped += queue->jobs[i].clipped;
    *norm = release_next_clip(*norm, &config->recipe.clip, &config->release, arrived, clipped,
                              &rounds->memory->control->noise_key, round);
    assert(clipped <= arrived && !(*norm < 0));
    return nodes_broadcast(rounds->nodes, norm, sizeof *norm, err);
}

// A round without a step. Where clients begin with another state than the model (ServerRule.trains_state), a step by
// nothing makes the weights the model again.
static void stand_still(const Rounds *rounds, uint32_t round) {
    const RunMemory *memory = rounds->memory;
    const RunConfig *config = memory->config;
    if (memory->algorithm.server->trains_state == 0) return;
    const ServerTurn turn = server_turn(&config->recipe.server, round, 1, config->arriving);
    const ServerSums nothing = {.arrived = 1, .factor = 1};
    ServerMemory states = {0};
    for (uint32_t s = 0; s < config->slots.states; s++)
        states.states[s] = run_memory_state(memory, s);
    server_apply(memory->weights, &states, &nothing, &turn, config->recipe.server.row, config->parameters);
}

// Makes the step of a round. A release that hides who takes part steps even if no update arrived: noise alone, as if
// zeros had arrived. Updates under masks can only be used if enough clients arrived to take off the masks of the
// others. The order of the checks matters: crafted updates replace the attackers' rows before anything is counted, the
// masks are judged before the sums are touched, and a round in which all updates were refused fails before the step.
// Client state is committed last, when the step has succeeded: a run that ends here resumes with the state before the
// round. A round that makes no step drops or commits the staged rows itself.
static Status settle(Rounds *rounds, uint32_t round, Error *err) {
    const bool hides = rounds->memory->config->release.hides && !rounds->cohort.abandoned;
    if (rounds->cohort.jobs == 0 && !hides) { // nobody arrived
        stand_still(rounds, round);
        return STATUS_OK;
    }
    const RunConfig *config = rounds->memory->config;
    Mean mean;
    TRY(crafting_rows(&rounds->crafting, err));
    cohort_count_steps(&rounds->cohort, rounds->memory->queue);
    const uint32_t clients = find_mean(&mean, rounds);
    const Masking masking = run_memory_masking(rounds->memory, round);
    if (!masks_suffice(&masking, clients, config->recipe.code.number[0]) && masking.count > 0) {
        log_warning(
            "round %u: %u of %u clients arrived, too few to take off the masks of the others (threshold=%g); the "
            "model stays",
            round, clients, masking.count, config->recipe.code.number[0]);
        rounds->cohort.abandoned = true;
        client_state_rows_drop(&rounds->client_states);
        stand_still(rounds, round);
        return STATUS_OK;
    }
    if (clients == 0 && rounds->cohort.jobs > 0) return engine_refused_all(rounds, round, err);
    bool used[MAX_WORKERS], finite, enough = true;
    if (config->slots.rows > 0) TRY(combine(&mean, &enough, rounds, round, err));
    if (!enough) {
        rounds->cohort.abandoned = true;
        stand_still(rounds, round);
        return client_state_rows_commit(&rounds->client_states, round, rounds->nodes, err);
    }
    engine_find_used(used, rounds);
    assert(!isnan(mean.arrived) && mean.arrived >= 0 && isfinite(mean.factor));
    const ServerTurn turn = server_turn(&config->recipe.server, walk_server_round(&config->recipe.schedule, round),
                                        clients > 0 ? clients : 1, config->arriving);
    mean.round = round;
    TRY(rounds->parent.backend->average(&rounds->parent, &finite, used, &mean, &turn, err));
    combine_conclude(&rounds->combine);
    external_conclude(&rounds->external);
    if (!finite) return engine_mean_unfit(rounds, round, err);
    TRY(adapt_clip(rounds, round, err));
    return client_state_rows_commit(&rounds->client_states, round, rounds->nodes, err);
}

const Engine engine_rounds = {.plan = client_plan, .run = engine_run_clients, .settle = settle};
