#include "client.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/cores.h"
#include "base/log.h"
#include "datasets/order.h"
#include "fedavg/memory/fingerprint.h"
#include "fedavg/memory/state.h"
#include "fedavg/rules/attack/attack_rules.h"
#include "fedavg/rules/combine/combine_rules.h"
#include "fedavg/rules/combine/mix_rules.h"
#include "fedavg/rules/local/local_rules.h"
#include "fedavg/rules/local/optimizer_rules.h"
#include "fedavg/rules/sum/aggregate.h"
#include "fedavg/rules/world/walk.h"
#include "fedavg/worker/plain_sum.h"
#include "fedavg/worker/stepper.h"

static const LocalRule *local_rule(const RunConfig *config) {
    return local_rules[config->recipe.local.row];
}

void client_plan(SlotPlan *slots, const RunConfig *config) {
    const LocalRule *local = local_rule(config);
    const CombineRule *combine = combine_rules[config->recipe.combine.row];
    const bool averages = config->training.optimizer_state == OPTIMIZER_AVERAGED,
               mixes = config->recipe.mix.row != MIX_NONE,
               rows = combine->rows || mixes || attack_is_crafted(&config->attack);
    const uint32_t each = local->keeps || averages ? 2 : 1;
    slots->vectors += combine->trusts;
    slots->sums = rows ? 1 : each * config->workers; // with rows the parent's
    slots->each = each;
    slots->rows = rows ? (config->cohort + config->nodes - 1) / config->nodes : 0;
}

// Vectors a little more than whole pages apart: the same place of two of them does not compete for one set of a cache.
static size_t vector_stride(uint64_t parameters) {
    enum { PAGE = 4096, APART = 1408 };
    return (parameters * sizeof(float) + PAGE - 1) / PAGE * PAGE + APART;
}

static Status begin_labels(LocalModel *model, Error *err) {
    const RunConfig *config = model->memory->config;
    if (!attack_is_on_labels(&config->attack)) return STATUS_OK;
    model->label_of = malloc((size_t)config->spec.classes * sizeof *model->label_of);
    if (!model->label_of) return fail(err, STATUS_OS, "no memory for %d labels", config->spec.classes);
    attack_labels(model->label_of, config->spec.classes, &config->attack);
    return STATUS_OK;
}

Status local_model_init(LocalModel *model, const RunMemory *memory, uint32_t rank, Error *err) {
    const RunConfig *config = memory->config;
    *model = (LocalModel){.memory = memory, .rank = rank};
    TRY(net_init(&model->net, &config->spec, kernels_best(), err));
    model->net.progress = &memory->control->pulses[rank].progress;
    const LocalRule *rule = local_rule(config);
    const bool second = config->personal.second;
    const struct {
        float **vector;
        bool wanted;
    } vectors[] = {
        {&model->weights, true},
        {&model->velocity, true},
        {&model->gradient, true},
        {&model->shift, rule->shifts || rule->pull || rule->keeps || second},
        {&model->slope, local_looks(&config->recipe.local)},
        {&model->square, optimizer_rules[config->recipe.optimizer.row].states > 1},
        {&model->second, second},
        {&model->initial, second && !config->begins_with_given},
        {&model->read, config->engine == ENGINE_WILD && config->recipe.schedule.number[WILD_STEPS] > 1},
    };
    enum { VECTORS = sizeof vectors / sizeof *vectors };
    const size_t stride = vector_stride(config->parameters);
    size_t bytes = 0;
    for (int v = 0; v < VECTORS; v++)
        bytes += vectors[v].wanted ? stride : 0;
    const bool trusts = combine_rules[config->recipe.combine.row]->trusts; // a model of the server's own
    const size_t samples = memory->partition.samples, root = trusts ? COMBINE_MOST_ROOT_SAMPLES : 0;
    model->order = malloc((samples > root ? samples : root) * sizeof(uint32_t));
    model->vectors = huge_allocate(bytes);
    model->hash = XXH3_createState();
    if (!model->hash || !model->order || !model->vectors) {
        local_model_free(model);
        return fail(err, STATUS_OS, "no memory for a local model of %llu parameters",
                    (unsigned long long)config->parameters);
    }
    char *next = model->vectors;
    for (int v = 0; v < VECTORS; v++)
        if (vectors[v].wanted) *vectors[v].vector = (float *)(void *)next, next += stride;
    if (model->initial) spec_initialise(model->initial, &config->spec, config->seed);
    if (second && !model->initial) model->initial = run_memory_vector(memory, state_vector(config, STATE_INITIAL));
    Status status = begin_labels(model, err);
    if (status == STATUS_OK) status = view_init(&model->view, memory, err);
    if (status == STATUS_OK) status = sender_init(&model->sender, memory, err);
    if (status != STATUS_OK) local_model_free(model);
    return status;
}

void local_model_free(LocalModel *model) {
    sender_free(&model->sender);
    view_free(&model->view);
    XXH3_freeState(model->hash);
    free(model->label_of);
    free(model->order);
    free(model->vectors);
    net_free(&model->net);
}

uint32_t local_model_batches(const LocalModel *model, uint32_t count) {
    uint32_t size = model->memory->config->training.batch_size;
    return count / size + (count % size != 0);
}

Batch local_model_batch(LocalModel *model, const uint32_t *order, uint32_t number, uint32_t count) {
    const Dataset *data = &model->memory->data;
    uint32_t size = model->memory->config->training.batch_size;
    uint32_t first = number * size;
    const Chosen *attack = &model->memory->config->attack;
    const uint32_t samples = count - first < size ? count - first : size;
    Batch batch = {.pixels = data->train.pixels,
                   .labels = data->train.labels,
                   .indices = order + first,
                   .count = samples,
                   .scale = data->scale,
                   .shift = data->shift,
                   .triggered = model->lies ? attack_marked(attack, samples) : 0,
                   .trigger_label = (uint16_t)(model->lies ? attack->number[BACKDOOR_TARGET] : 0)};
    view_apply(&model->view, &batch);
    return batch;
}

// A client's training: what its rule adds to every step (rules/local_rule.h).
typedef struct Turn {
    LocalTurn rule;
    LocalVectors at; // the client's
    LocalStep step;
} Turn;

// model->slope becomes the gradient of the mean loss of the client's samples, at the weights that it begins with.
static void look(LocalModel *model) {
    const size_t parameters = model->memory->config->parameters;
    uint32_t count;
    const uint32_t *indices = view_samples(&model->view, &count);
    memset(model->slope, 0, parameters * sizeof *model->slope);
    for (uint32_t number = 0; number < local_model_batches(model, count); number++) {
        const Batch batch = local_model_batch(model, indices, number, count);
        const float share = (float)batch.count / (float)count;
        BatchResult result;
        net_gradient(&model->net, model->gradient, &result, model->weights, &batch, NULL);
        for (size_t i = 0; i < parameters; i++)
            model->slope[i] += share * model->gradient[i];
    }
}

static Turn begin_turn(LocalModel *model, const Job *job, uint32_t samples, uint32_t round) {
    const RunMemory *memory = model->memory;
    const RunConfig *config = memory->config;
    const Chosen *chosen = &config->recipe.local;
    const LocalRule *rule = local_rule(config);
    const double mean_samples = (double)memory->partition.samples / config->clients;
    const Walk walk = walk_of(&config->recipe.schedule, round, job->epochs);
    const uint64_t steps = walk_steps(&walk, local_model_batches(model, samples));
    const Training training = run_memory_training(memory);
    Turn turn = {.rule = local_turn(chosen, &training, steps, mean_samples / samples),
                 .at = {.global = memory->weights,
                        .own = model->weights,
                        .kept = client_state_row(&memory->kept, job->kept_from)},
                 .step.sgd = training.sgd};
    if (model->slope) {
        look(model);
        turn.at.slope = model->slope;
    }
    turn.step.follows = config->personal.inner > 0;
    if (rule->asks) turn.at.common = run_memory_vector(memory, state_vector(config, STATE_COMMON));
    if (training.optimizer_state == OPTIMIZER_KEPT) {
        const size_t first = rule->replicas ? config->parameters : 0; // behind the replica
        turn.step.state = turn.at.kept ? turn.at.kept + first : NULL;
        float *after = client_state_row(&memory->kept, job->kept_to);
        turn.step.state_after = after ? after + first : NULL;
    }
    if (rule->replicas) {
        turn.at.velocity = turn.step.state;
        turn.rule.ahead = local_ahead(&training);
        if (engine_facts[config->engine].buffers)
            turn.at.global = run_memory_vector(memory, state_vector(config, STATE_MET));
    }
    if (training.optimizer_state == OPTIMIZER_AVERAGED)
        turn.step.state = run_memory_vector(memory, state_vector(config, STATE_MOMENTUM));
    const double pull = local_pull(chosen, &turn.rule);
    turn.step.pull = (float)pull;
    if (!rule->shifts && pull == 0) return turn;
    local_shift(model->shift, &turn.at, &turn.rule, pull, chosen->row, config->parameters);
    turn.step.shift = model->shift;
    return turn;
}

// A replica goes on from where it was; the first time it is the centre, as the weights are.
static void begin_replica(LocalModel *model, Turn *turn) {
    turn->step.replica = &turn->at;
    turn->step.turn = &turn->rule;
    if (turn->at.kept)
        memcpy(model->weights, turn->at.kept, model->memory->config->parameters * sizeof *model->weights);
}

// Batches of one order of the client's samples; returns the sum of their losses.
static double train_stretch(LocalModel *model, Stepper *stepper, const uint32_t *indices, uint32_t count,
                            uint32_t client, const Stretch *stretch, bool *exchanged) {
    const uint64_t seed = model->memory->config->seed;
    Noise noise = {.seed = seed, .round = stretch->round, .client = client, .step = stretch->step};
    double loss_sum = 0;
    batch_order(model->order, indices, count, seed, stretch->round, client, stretch->epoch);
    for (uint32_t i = 0; i < stretch->count; i++, noise.step++) {
        Batch batch = local_model_batch(model, model->order, stretch->first + i, count);
        BatchResult result;
        stepper_step(stepper, model, &result, &batch, &noise);
        if (!*exchanged)
            local_exchange(model->weights, stepper->step.replica, stepper->step.turn,
                           model->memory->config->parameters);
        *exchanged = true;
        loss_sum += result.loss_sum;
        if (model->on_step) model->on_step(model->on_step_context, result.loss_sum / batch.count);
    }
    return loss_sum;
}

// The slot may hold the sum of an earlier round, or what a dead predecessor finished in this one, which stays.
static void begin_sum(const LocalModel *model, uint32_t round) {
    SumState *state = &model->memory->control->sums[model->rank];
    // All orders on SumState are seq_cst: they are few, and they must keep their places among the writes of the sum.
    if (atomic_load(&state->round) == round) return;
    const SlotPlan *slots = &model->memory->config->slots;
    memset(run_memory_sum(model->memory, model->rank, 0), 0, slots->each * slots->sum_bytes);
    atomic_store(&state->round, round);
}

// Notes the fingerprint of what was trained on the way.
static bool is_refused(const LocalModel *model, Job *job, PlainSum plain) {
    const float *before = model->memory->weights, *after = model->weights;
    const size_t count = model->memory->config->parameters;
    plain.hash = model->hash;
    const size_t unfit = plain_sum_add(&plain, after, before, count);
    job->fingerprint = plain.fingerprint;
    if (unfit == count) return false;
    log_warning("client %u: update refused: a weight of %s became %g (it was %g)%s", job->client,
                spec_tensor_name(&model->net.spec, unfit), log_real((double)after[unfit]), (double)before[unfit],
                spec_tensor_remedy(&model->net.spec, unfit));
    return true;
}

// Noise and what feeds back may make more of an update than was trained.
static bool is_sent_in_vain(const RunConfig *config, const Job *job, const float *trained, const Sent *sent) {
    const size_t count = config->parameters;
    if (sent->values == trained) return false;
    const size_t unfit = aggregate_first_unfit(sent->values, sent->from, count);
    if (unfit == count) return false;
    log_warning("client %u: update refused: what it sends of %s moves a weight by %g", job->client,
                spec_tensor_name(&config->spec, unfit), log_real((double)sent->values[unfit]));
    return true;
}

void client_inspect(Job *job, const RunMemory *memory, const float *trained) {
    const size_t parameters = memory->config->parameters;
    const bool inspects = memory->config->inspects_updates;
    job->squared_length = inspects ? aggregate_squared_update(trained, memory->weights, parameters) : NAN;
    job->fingerprint = inspects ? XXH3_64bits(trained, parameters * sizeof *trained) : 0;
}

double client_bound(const RunConfig *config, double squared_length) {
    const Chosen *chosen = &config->recipe.combine;
    const CombineRule *rule = combine_rules[chosen->row];
    return rule->bound ? rule->bound(squared_length, chosen->number) : 1;
}

double client_bound_of(const RunConfig *config, const Sent *sent) {
    if (!combine_rules[config->recipe.combine.row]->bound) return 1;
    const double squared = sent->from ? aggregate_squared_update(sent->values, sent->from, config->parameters)
                                      : aggregate_squared_length(sent->values, config->parameters);
    return client_bound(config, squared * sent->factor * sent->factor);
}

void client_log_unkept(const Job *job, const RunConfig *config) {
    log_warning("client %u: update refused: what it would keep is not finite, or %g or more; scale the data nearer to "
                "1, or lower --lr",
                job->client, 0x1p22 / config->clients);
}

// What the client keeps from now on goes into its new row. Returns whether it may: sums over all clients must not
// overflow.
static bool conclude(const LocalModel *model, const Job *job, const Turn *turn) {
    const RunConfig *config = model->memory->config;
    if (job->kept_to == NO_CLIENT_STATE || !local_rule(config)->keeps) return true;
    float *after = model->shift;
    const double limit = 0x1p22 / config->clients;
    if (local_conclude(after, &turn->at, &turn->rule, config->recipe.local.row, limit, config->parameters) &&
        (!local_rule(config)->replicas || local_gifts_fit(&turn->at, &turn->rule, limit, config->parameters))) {
        client_state_row_write(&model->memory->kept, job->kept_to, after, config->parameters);
        return true;
    }
    client_log_unkept(job, config);
    return false;
}

static bool is_momentum_refused(const LocalModel *model, const Job *job) {
    const size_t count = model->memory->config->parameters;
    if (model->memory->config->training.optimizer_state != OPTIMIZER_AVERAGED) return false;
    const size_t unfit = aggregate_first_unfit(model->velocity, NULL, count);
    if (unfit == count) return false;
    log_warning("client %u: update refused: the momentum of a weight of %s became %g", job->client,
                spec_tensor_name(&model->net.spec, unfit), log_real((double)model->velocity[unfit]));
    return true;
}

// An attacker hands in something else than it has trained; nothing of what stays with a client.
static bool is_attack_refused(float *trained, Job *job, const RunMemory *memory, uint32_t key) {
    const RunConfig *config = memory->config;
    if (!job->attacks || attack_is_on_labels(&config->attack) || attack_is_crafted(&config->attack)) return false;
    const AttackTurn turn = {
        .seed = config->seed, .round = schedule_round(key), .client = job->client, .key = key, .share = job->share};
    attack_update(trained, memory->weights, config->parameters, &config->attack, &turn);
    personal_withhold(trained, memory);
    if (config->inspects_updates)
        job->squared_length = aggregate_squared_update(trained, memory->weights, config->parameters);
    const size_t unfit = aggregate_first_unfit(trained, memory->weights, config->parameters);
    if (unfit == config->parameters) return false;
    log_warning("client %u: update refused: its attack %s made %g of a weight of %s", job->client,
                attack_rules[config->attack.row].name, log_real((double)trained[unfit]),
                spec_tensor_name(&config->spec, unfit));
    return true;
}

bool client_send(Sent *sent, Sender *sender, Job *job, float *trained, uint32_t key) {
    if (is_attack_refused(trained, job, sender->memory, key)) return false;
    *sent = sender_send(sender, job, trained, key);
    return !is_sent_in_vain(sender->memory->config, job, trained, sent);
}

// Whether what was trained goes into the sum as it is, and nothing else with it. A model that the second cache holds
// gains nothing by one way through memory.
static bool goes_as_it_is(const LocalModel *model, const Job *job) {
    enum { LARGE = 1 << 20 };
    const RunConfig *config = model->memory->config;
    return config->parameters >= LARGE && config->slots.each == 1 && config->slots.rows == 0 && job->pending == 0 &&
           !job->attacks && !local_rule(config)->replicas && sender_is_idle(&model->sender) &&
           config->masked_offset == 0 && !combine_rules[config->recipe.combine.row]->bound;
}

static void hand_in_as_it_is(LocalModel *model, Job *job, uint32_t round) {
    SumState *state = &model->memory->control->sums[model->rank];
    const PlainSum plain = {.sum = run_memory_sum(model->memory, model->rank, 0),
                            .share = job->share,
                            .is_new = atomic_load(&state->round) != round};
    sender_send(&model->sender, job, model->weights, schedule_key(round - 1, job->visit)); // counts what would travel
    atomic_store(&state->adding, 1);
    const bool refused = is_refused(model, job, plain);
    if (!refused) atomic_store(&state->round, round);
    queue_finish(job, refused ? JOB_REFUSED : JOB_DONE);
    atomic_store(&state->adding, 0);
}

// Adds the client's update to this worker's slot, or puts it into its row, and finishes the job, or refuses it by name.
static void hand_in(LocalModel *model, Job *job, const Turn *turn, uint32_t round) {
    const RunMemory *memory = model->memory;
    const size_t parameters = memory->config->parameters;
    const uint32_t key = schedule_key(round - 1, job->visit);
    SumState *state = &memory->control->sums[model->rank];
    job->squared_length =
        memory->config->inspects_updates ? aggregate_squared_update(model->weights, memory->weights, parameters) : NAN;
    if (goes_as_it_is(model, job)) {
        hand_in_as_it_is(model, job, round);
        return;
    }
    Sent sent;
    if (is_refused(model, job, (PlainSum){.sum = NULL}) || is_momentum_refused(model, job) ||
        !conclude(model, job, turn) || !client_send(&sent, &model->sender, job, model->weights, key)) {
        queue_finish(job, JOB_REFUSED);
        return;
    }
    if (local_rule(memory->config)->replicas && engine_facts[memory->config->engine].buffers) {
        queue_finish(job, JOB_DONE); // the parent finds the replica in its row when it gives
        return;
    }
    if (memory->config->slots.rows > 0) {
        sent_as_weights(run_memory_row(memory, job->place), &sent, memory->weights, parameters);
        queue_finish(job, JOB_DONE);
        return;
    }
    const double share = job->share * sent.factor * client_bound_of(memory->config, &sent);
    if (job->pending > 0) {
        int64_t *waiting = run_memory_pending(memory, job->pending - 1);
        memset(waiting, 0, parameters * sizeof *waiting);
        aggregate_add(waiting, sent.values, sent.from, share, parameters);
        queue_finish(job, JOB_DONE);
        return;
    }
    begin_sum(model, round);
    atomic_store(&state->adding, 1);
    aggregate_add(run_memory_sum(memory, model->rank, 0), sent.values, sent.from, share, parameters);
    if (local_rule(memory->config)->replicas)
        local_add_gifts(run_memory_sum(memory, model->rank, 1), &turn->at, &turn->rule, parameters);
    else if (job->kept_to != NO_CLIENT_STATE && local_rule(memory->config)->keeps)
        aggregate_add(run_memory_sum(memory, model->rank, 1), model->shift, turn->at.kept, 1, parameters);
    if (memory->config->training.optimizer_state == OPTIMIZER_AVERAGED)
        aggregate_add(run_memory_sum(memory, model->rank, 1), model->velocity, NULL, job->share, parameters);
    const Masking masking = run_memory_masking(memory, round);
    for (uint32_t which = 0; masking.count > 0 && which < memory->config->slots.each; which++)
        masks_put(run_memory_sum(memory, model->rank, which), &masking, job->client, which);
    queue_finish(job, JOB_DONE);
    atomic_store(&state->adding, 0);
}

double local_model_train(LocalModel *model, const LocalStep *step, uint32_t client, uint32_t epochs, uint32_t round) {
    uint32_t count;
    const uint32_t *indices = view_samples(&model->view, &count);
    return local_model_train_on(model, step, indices, count, client, epochs, round);
}

double local_model_train_on(LocalModel *model, const LocalStep *step, const uint32_t *indices, uint32_t count,
                            uint32_t client, uint32_t epochs, uint32_t round) {
    const RunConfig *config = model->memory->config;
    bool exchanged = step->replica == NULL;
    Stepper stepper = stepper_begin(model->memory, step);
    stepper_start(&stepper, model);
    stepper_load(&stepper, model, step->state);
    const Walk walk = walk_of(&config->recipe.schedule, round, epochs);
    Stretch stretch;
    double loss_sum = 0;
    for (uint32_t index = 0; walk_stretch(&stretch, &walk, index, local_model_batches(model, count)); index++)
        loss_sum += train_stretch(model, &stepper, indices, count, client, &stretch, &exchanged);
    stepper_end(model);
    if (step->state_after) stepper_store(step->state_after, &stepper, model);
    return loss_sum;
}

// What stays with the client first, while the rest stands still, then the other way round. The head's epochs draw
// shuffles and dropout of their own.
static double train_in_turn(LocalModel *model, const LocalStep *step, const Job *job, uint32_t round) {
    const PersonalPlan *plan = &model->memory->config->personal;
    model->net.still_first = 0, model->net.still_end = plan->first;
    local_model_train(model, step, job->client, plan->epochs, round | 1u << 30);
    model->net.still_first = plan->first, model->net.still_end = plan->end;
    double loss_sum = local_model_train(model, step, job->client, job->epochs, round);
    model->net.still_first = model->net.still_end = 0;
    return loss_sum;
}

// Whether a turn begins with the global weights and nobody but its first step asks for them.
static bool starts_with_a_step(const LocalModel *model) {
    const RunConfig *config = model->memory->config;
    return !model->shift && !model->slope && !local_rule(config)->replicas && config->personal.run_count == 0;
}

void client_train(LocalModel *model, Job *job, uint32_t round) {
    const RunMemory *memory = model->memory;
    uint64_t start = clock_nanoseconds();
    uint32_t count;
    const bool starts = starts_with_a_step(model);
    if (!starts) memcpy(model->weights, memory->weights, memory->config->parameters * sizeof(float));
    model->lies = job->attacks && attack_is_in_training(&memory->config->attack);
    view_begin(&model->view, job->client, round, model->lies ? model->label_of : NULL);
    view_samples(&model->view, &count);
    personal_begin(model, job);
    Turn turn = begin_turn(model, job, count, round);
    if (starts) turn.step.start = memory->weights;
    if (local_rule(memory->config)->replicas) begin_replica(model, &turn);
    const uint32_t key = schedule_key(round - 1, job->visit); // no two trainings from one model are the same
    job->loss_sum = memory->config->personal.alternates
                        ? train_in_turn(model, &turn.step, job, key)
                        : local_model_train(model, &turn.step, job->client, job->epochs, key);
    personal_conclude(model, job, round);
    model->lies = false;
    const Walk walk = walk_of(&memory->config->recipe.schedule, key, job->epochs);
    job->samples = walk_samples(&walk, count, memory->config->training.batch_size);
    job->seconds = clock_seconds_since(start);
    hand_in(model, job, &turn, round);
}
