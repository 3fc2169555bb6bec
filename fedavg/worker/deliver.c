#include "deliver.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "base/log.h"
#include "fedavg/memory/fingerprint.h"
#include "fedavg/rules/attack/attack_rules.h"
#include "fedavg/rules/sum/aggregate.h"
#include "fedavg/worker/personal.h"
#include "fedavg/worker/plain_sum.h"
#include "fedavg/worker/streaming.h"

// A run hands in in one way, which is chosen once (delivery_of). All ways have two properties in common. An update is
// counted exactly once, whenever its worker is killed: it is either part of a sum whose job is done, or its job is open
// again and its traces are cleared or overwritten. And a refused update leaves no trace but its job's state.

typedef struct ClientUpdate {
    LocalModel *model; // with the trained weights
    Job *job;
    const LocalVectors *at;
    const LocalTurn *turn;
    uint32_t round;
    Sent sent; // once it is accepted
} ClientUpdate;

// Checks --------------------------------------------------------------------------------------------------------------

static double squared_length(const RunMemory *memory, const float *trained) {
    const RunConfig *config = memory->config;
    return config->inspects_updates ? aggregate_squared_update(trained, memory->weights, config->parameters) : NAN;
}

void deliver_inspect(Job *job, const RunMemory *memory, const float *trained) {
    const size_t bytes = memory->config->parameters * sizeof *trained;
    job->squared_length = squared_length(memory, trained);
    job->fingerprint = memory->config->inspects_updates ? XXH3_64bits(trained, bytes) : 0;
}

// Notes the fingerprint of the trained weights, too: both look at every weight, in one pass. plain.sum gets the update
// in that pass, too, unless it is NULL.
static bool is_refused(const ClientUpdate *update, PlainSum plain) {
    const LocalModel *model = update->model;
    const float *before = model->memory->weights, *after = model->weights;
    const size_t count = model->memory->config->parameters;
    plain.hash = model->sender.hash;
    const size_t unfit = plain_sum_add(&plain, after, before, count);
    assert(unfit <= count);
    update->job->fingerprint = plain.fingerprint;
    if (unfit == count) return false;
    log_warning("client %u: update refused: a weight of %s became %g (it was %g)%s", update->job->client,
                tensors_at(&model->memory->tensors, unfit)->name, log_real((double)after[unfit]), (double)before[unfit],
                run_memory_remedy(model->memory, unfit));
    return true;
}

static bool is_momentum_refused(const LocalModel *model, const Job *job) {
    const size_t count = model->memory->config->parameters;
    if (model->memory->config->training.optimizer_state != OPTIMIZER_AVERAGED) return false;
    const size_t unfit = aggregate_first_unfit(model->steps.velocity, NULL, count);
    if (unfit == count) return false;
    log_warning("client %u: update refused: the momentum of a weight of %s became %g", job->client,
                tensors_at(&model->memory->tensors, unfit)->name, log_real((double)model->steps.velocity[unfit]));
    return true;
}

void deliver_log_unkept(const Job *job, const RunConfig *config) {
    log_warning("client %u: update refused: what it would keep is not finite, or %g or more; scale the data nearer to "
                "1, or lower --lr",
                job->client, 0x1p22 / config->clients);
}

// Writes the client's new state into its new row, and leaves it in steps.shift. Returns whether it fits: sums over all
// clients must not overflow.
static bool conclude(const ClientUpdate *update) {
    const LocalModel *model = update->model;
    const RunConfig *config = model->memory->config;
    const LocalRule *rule = model->memory->algorithm.local;
    const uint32_t state_to = update->job->state_to;
    const double limit = 0x1p22 / config->clients;
    assert(state_to < config->client_state.rows || state_to == NO_CLIENT_STATE);
    if (state_to == NO_CLIENT_STATE || !rule->keeps) return true;
    if (local_conclude(model->steps.shift, update->at, update->turn, config->recipe.local.row, limit,
                       config->parameters) &&
        (!rule->replicas || local_gifts_fit(update->at, update->turn, limit, config->parameters))) {
        client_state_row_write(&model->memory->client_state, state_to, model->steps.shift, config->parameters);
        return true;
    }
    deliver_log_unkept(update->job, config);
    return false;
}

// An attacker hands in another update than it has trained; the state that it keeps is that of its training.
static bool is_attack_refused(float *trained, Job *job, const RunMemory *memory, uint32_t key) {
    const RunConfig *config = memory->config;
    if (!job->attacks || attack_is_on_labels(&config->attack) || attack_is_crafted(&config->attack)) return false;
    const AttackTurn turn = {
        .seed = config->seed, .round = schedule_round(key), .client = job->client, .key = key, .share = job->share};
    attack_update(trained, memory->weights, config->parameters, &config->attack, &turn);
    personal_withhold(trained, memory);
    streaming_withhold(trained, memory, schedule_round(key));
    job->squared_length = squared_length(memory, trained);
    const size_t unfit = aggregate_first_unfit(trained, memory->weights, config->parameters);
    if (unfit == config->parameters) return false;
    log_warning("client %u: update refused: its attack %s made %g of a weight of %s", job->client,
                attack_rules[config->attack.row].name, log_real((double)trained[unfit]),
                tensors_at(&memory->tensors, unfit)->name);
    return true;
}

// Noise and feedback may make more of an update than was trained.
static bool is_sent_in_vain(const RunMemory *memory, const Job *job, const float *trained, const Sent *sent) {
    const size_t count = memory->config->parameters;
    if (sent->values == trained) return false;
    const size_t unfit = aggregate_first_unfit(sent->values, sent->from, count);
    if (unfit == count) return false;
    log_warning("client %u: update refused: what it sends of %s moves a weight by %g", job->client,
                tensors_at(&memory->tensors, unfit)->name, log_real((double)sent->values[unfit]));
    return true;
}

bool deliver_send(Sent *sent, Sender *sender, Job *job, float *trained, uint32_t key) {
    assert(job->state == JOB_OPEN && trained != sender->memory->weights);
    if (is_attack_refused(trained, job, sender->memory, key)) return false;
    *sent = sender_send(sender, job, trained, key);
    return !is_sent_in_vain(sender->memory, job, trained, sent);
}

static double moved(const Sent *sent, size_t i) {
    return (double)sent->values[i] - (sent->from ? (double)sent->from[i] : 0);
}

// After fewer steps than planned, or by the samples that its trainer told, an update counts more than its share, which
// the sum must hold, too.
static bool is_counted_in_vain(const ClientUpdate *update) {
    const LocalModel *model = update->model;
    const double most = 0x1p20 / update->turn->counts;
    assert(update->turn->counts > 0 && isfinite(update->turn->counts));
    size_t i = 0, count = update->turn->counts > 1 ? model->memory->config->parameters : 0;
    while (i < count && fabs(moved(&update->sent, i)) < most)
        i++;
    if (i == count) return false;
    log_warning("client %u: update refused: by the steps or samples of its trainer it counts %g times its share, and "
                "then no weight may move by %g; one of %s moves by %g",
                update->job->client, update->turn->counts, most, tensors_at(&model->memory->tensors, i)->name,
                moved(&update->sent, i));
    return true;
}

// The job's own row, which a repetition after a death writes again.
static void record(const ClientUpdate *update) {
    const RunMemory *memory = update->model->memory;
    if (memory->config->records)
        sent_as_weights(run_memory_recorded(memory, update->job->place), &update->sent, memory->weights,
                        memory->config->parameters);
}

// The update passes all checks and is sent; otherwise its job is finished as refused. The order matters: what was
// trained is judged before an attack replaces it, the client's state follows from the training, and the sender's result
// is judged last, since noise and feedback may make it too large.
static bool is_accepted(ClientUpdate *update) {
    LocalModel *model = update->model;
    Job *job = update->job;
    const uint32_t key = schedule_key(update->round - 1, job->visit);
    if (!is_refused(update, (PlainSum){.sum = NULL}) && !is_momentum_refused(model, job) && conclude(update) &&
        deliver_send(&update->sent, &model->sender, job, model->weights, key) && !is_counted_in_vain(update)) {
        record(update);
        return true;
    }
    queue_finish(job, JOB_REFUSED);
    return false;
}

// Places --------------------------------------------------------------------------------------------------------------

double deliver_bound(const RunMemory *memory, double squared_length) {
    const CombineRule *rule = memory->algorithm.combine;
    return rule->bound ? rule->bound(squared_length, memory->config->recipe.combine.number) : 1;
}

double deliver_bound_sent(const RunMemory *memory, const Sent *sent) {
    const size_t parameters = memory->config->parameters;
    if (!memory->algorithm.combine->bound) return 1;
    const double squared = !isnan(sent->squared_length) ? sent->squared_length
                           : sent->from                 ? aggregate_squared_update(sent->values, sent->from, parameters)
                                                        : aggregate_squared_length(sent->values, parameters);
    return deliver_bound(memory, squared * sent->factor * sent->factor);
}

static void add_update(int64_t *sum, const ClientUpdate *update) {
    const RunMemory *memory = update->model->memory;
    const Sent *sent = &update->sent;
    const double share = update->job->share * update->turn->counts * sent->factor * deliver_bound_sent(memory, sent);
    assert(sent->factor >= 0 && sent->factor <= 1); // a clip never makes an update longer
    assert(isfinite(share));
    aggregate_add(sum, sent->values, sent->from, share, memory->config->parameters);
}

// Adds what clients of some rules hand in beside their updates: gifts of a replica, the change of the client's state,
// or the momentum that it ends with. The second sum may also be that of a second model, to which these rules add
// nothing.
static void add_beside_update(int64_t *sum, const ClientUpdate *update) {
    const LocalModel *model = update->model;
    const RunConfig *config = model->memory->config;
    const LocalRule *rule = model->memory->algorithm.local;
    if (rule->replicas)
        local_add_gifts(sum, update->at, update->turn, config->parameters);
    else if (update->job->state_to != NO_CLIENT_STATE && rule->keeps)
        aggregate_add(sum, model->steps.shift, update->at->state, 1, config->parameters);
    if (config->training.optimizer_state == OPTIMIZER_AVERAGED)
        aggregate_add(sum, model->steps.velocity, NULL, update->job->share, config->parameters);
}

// Adds the update to this worker's sum. The slot may hold the sum of an earlier round, which is cleared, or updates of
// this round that a dead predecessor finished, which stay. A worker that dies between the two marks of `adding` leaves
// a sum that no process can use: the parent then has all its jobs of the round done again.
static void hand_in_sum(ClientUpdate *update) {
    const RunMemory *memory = update->model->memory;
    const SlotPlan *slots = &memory->config->slots;
    const uint32_t rank = update->model->rank;
    SumState *state = &memory->control->sums[rank];
    assert(update->round > 0 && slots->each <= slots->sums);
    assert(atomic_load(&state->adding) == 0); // the parent has cleared a predecessor's mark
    if (!is_accepted(update)) return;
    // All orders on SumState are seq_cst: they are few, and they must keep their places among the writes of the sum.
    if (atomic_load(&state->round) != update->round) {
        memset(run_memory_sum(memory, rank, 0), 0, slots->each * slots->sum_bytes);
        atomic_store(&state->round, update->round);
    }
    atomic_store(&state->adding, 1);
    add_update(run_memory_sum(memory, rank, update->job->cluster), update);
    if (slots->each > 1) add_beside_update(run_memory_sum(memory, rank, 1), update);
    const Masking masking = run_memory_masking(memory, update->round);
    for (uint32_t which = 0; masking.count > 0 && which < slots->each; which++)
        masks_put(run_memory_sum(memory, rank, which), &masking, update->job->client, which);
    queue_finish(update->job, JOB_DONE);
    atomic_store(&state->adding, 0);
}

// The trained weights themselves make the update, and it goes into the sum alone: check, fingerprint and sum are one
// pass over memory instead of three. A model that fits the second cache gains nothing by that.
static bool sums_plainly(const LocalModel *model) {
    enum { LARGE = 1 << 20 }; // parameters
    const RunConfig *config = model->memory->config;
    return config->parameters >= LARGE && config->slots.each == 1 && !config->records &&
           sender_is_idle(&model->sender) && config->masked_offset == 0 && !model->memory->algorithm.combine->bound;
}

// Judges, fingerprints and adds in one pass over the weights, since a large model passes through the memory once
// instead of three times. The slot is written inside the marks even if the update is then refused: plain_sum_add then
// takes it out again, or the slot stays marked as that of an older round.
//
// `round` is stored after the pass, which has cleared the slot block by block: a worker that dies before leaves the old
// round, and all its jobs are done again.
static void hand_in_plain_sum(ClientUpdate *update) {
    LocalModel *model = update->model;
    Job *job = update->job;
    if (job->attacks || update->turn->counts != 1) return hand_in_sum(update);
    SumState *state = &model->memory->control->sums[model->rank];
    const PlainSum plain = {.sum = run_memory_sum(model->memory, model->rank, 0),
                            .share = job->share,
                            .is_new = atomic_load(&state->round) != update->round};
    assert(atomic_load(&state->adding) == 0 && update->round > 0);
    sender_send(&model->sender, job, model->weights, update->round); // only counts the bytes that would travel
    atomic_store(&state->adding, 1);
    const bool refused = is_refused(update, plain);
    if (!refused) atomic_store(&state->round, update->round);
    queue_finish(job, refused ? JOB_REFUSED : JOB_DONE);
    atomic_store(&state->adding, 0);
}

static bool has_rows(const LocalModel *model) {
    return model->memory->config->slots.rows > 0;
}

// The row is the job's own: a worker that dies while it writes leaves an unfinished job, whose next worker writes the
// row from its beginning.
static void hand_in_row(ClientUpdate *update) {
    const RunMemory *memory = update->model->memory;
    if (!is_accepted(update)) return;
    sent_as_weights(run_memory_row(memory, update->job->place), &update->sent, memory->weights,
                    memory->config->parameters);
    queue_finish(update->job, JOB_DONE);
}

static bool has_pending(const LocalModel *model) {
    return model->memory->config->slots.pending > 0;
}

// An update for a later step has a sum of its own; one for the step of this round joins the worker's. That sum is the
// job's own and is cleared first, so that a repetition after a death begins from zeros and needs no mark of `adding`.
static void hand_in_pending(ClientUpdate *update) {
    const RunMemory *memory = update->model->memory;
    if (update->job->pending == 0) return hand_in_sum(update);
    assert(update->job->pending <= memory->config->slots.pending);
    if (!is_accepted(update)) return;
    int64_t *sum = run_memory_pending(memory, update->job->pending - 1);
    memset(sum, 0, memory->config->parameters * sizeof *sum);
    add_update(sum, update);
    queue_finish(update->job, JOB_DONE);
}

static bool has_replicas_that_arrive(const LocalModel *model) {
    const Algorithm *algorithm = &model->memory->algorithm;
    return algorithm->local->replicas && algorithm->engine->buffers;
}

// The client's new row holds the replica: the parent finds it there when the replica gives.
static void hand_in_replica(ClientUpdate *update) {
    if (is_accepted(update)) queue_finish(update->job, JOB_DONE);
}

typedef struct Delivery {
    bool (*serves)(const LocalModel *model); // NULL: every run
    void (*hand_in)(ClientUpdate *update);
} Delivery;

// The first row that serves a run is the run's.
static const Delivery deliveries[] = {{has_replicas_that_arrive, hand_in_replica},
                                      {has_rows, hand_in_row},
                                      {has_pending, hand_in_pending},
                                      {sums_plainly, hand_in_plain_sum},
                                      {NULL, hand_in_sum}};

static const Delivery *delivery_of(const LocalModel *model) {
    const Delivery *delivery = deliveries;
    while (delivery->serves && !delivery->serves(model))
        delivery++;
    return delivery;
}

// The length is measured before anything changes the weights: it is the length of what was trained. Rules with a bound
// and the clipping both take it from the job.
void deliver(LocalModel *model, Job *job, const LocalVectors *at, const LocalTurn *turn, uint32_t round) {
    assert(job->state == JOB_OPEN);
    ClientUpdate update = {.model = model, .job = job, .at = at, .turn = turn, .round = round};
    job->squared_length = squared_length(model->memory, model->weights);
    delivery_of(model)->hand_in(&update);
    assert(job->state == JOB_DONE || job->state == JOB_REFUSED);
}
