#include "client.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/cores.h"
#include "datasets/order.h"
#include "fedavg/memory/fingerprint.h"
#include "fedavg/memory/state.h"
#include "fedavg/rules/attack/attack_rules.h"
#include "fedavg/rules/local/local_rules.h"
#include "fedavg/rules/privacy/sample_privacy.h"
#include "fedavg/rules/world/walk.h"
#include "fedavg/worker/deliver.h"
#include "fedavg/worker/stepper.h"
#include "nn/contrast.h"

// Sums need one slot per worker, however many clients there are. Rows need one slot per client, since a rule that looks
// at all updates side by side (a median, an attacker that knows the others) cannot start from a sum.
void client_plan(SlotPlan *slots, const RunConfig *config) {
    const Algorithm algorithm = run_algorithm(config);
    const bool averages = config->training.optimizer_state == OPTIMIZER_AVERAGED,
               rows =
                   algorithm.combine->rows || algorithm.traits.has[TRAIT_MIXES] || attack_is_crafted(&config->attack);
    const uint32_t beside = algorithm.local->keeps || averages ? 2 : 1, models = state_models(config);
    assert(config->workers >= 1 && config->nodes >= 1 && models <= PERSONAL_MOST_CLUSTERS);
    const uint32_t each = models > 1 ? models : beside; // several models keep nothing
    slots->vectors += algorithm.combine->trusts;
    slots->sums = rows ? 1 : each * config->workers; // with rows the parent's
    slots->each = each;
    const uint32_t jobs = rows || config->records ? (config->cohort + config->nodes - 1) / config->nodes : 0;
    slots->rows = rows ? jobs : 0;
    slots->recorded = config->records ? jobs : 0;
}

// The vectors are a little more than whole pages apart. At whole pages element i of all vectors would compete for one
// set of the first cache, and a step reads several vectors side by side.
static size_t vector_stride(uint64_t parameters) {
    enum { PAGE = 4096, APART = 1408 };
    return (parameters * sizeof(float) + PAGE - 1) / PAGE * PAGE + APART;
}

// The trainer's desk has the vectors that a turn changes.
static Status trained_elsewhere(LocalModel *model, Error *err) {
    model->trainer = malloc(sizeof *model->trainer);
    if (!model->trainer) return fail(err, STATUS_OS, "no memory for a trainer");
    const Status status = trainer_open(model->trainer, model->memory, model->rank, err);
    if (status != STATUS_OK) {
        free(model->trainer);
        model->trainer = NULL;
        return status;
    }
    model->weights = model->trainer->desk.weights;
    model->shift = model->trainer->desk.shift;
    return STATUS_OK;
}

// The worker's view of the memory gets weights of its own, which are those of the client's cluster: all that reads the
// global weights then reads the right ones.
static const RunMemory *see_cluster(LocalModel *model) {
    model->of_cluster = *model->run;
    model->memory = &model->of_cluster;
    return model->memory;
}

static void own_arrays(LocalModel *model) {
    const RunConfig *config = model->memory->config;
    const Algorithm *algorithm = &model->memory->algorithm;
    const bool trusts = algorithm->combine->trusts; // a model of the server's own
    const size_t samples = model->memory->partition.samples, root = trusts ? COMBINE_MOST_ROOT_SAMPLES : 0;
    const size_t lies = attack_is_on_labels(&config->attack) ? (size_t)config->spec.classes : 0;
    const size_t compared =
        algorithm->local->contrasts ? config->training.batch_size * contrast_features(&config->spec) : 0;
    model->order = own(&model->owned, samples > root ? samples : root, sizeof *model->order);
    model->near = own(&model->owned, compared, sizeof *model->near);
    model->far = own(&model->owned, compared, sizeof *model->far);
    model->label_of = own(&model->owned, lies, sizeof *model->label_of);
}

// Vectors that the algorithm does not need are not there: their pointers stay NULL, and the rest of the worker asks for
// that and not for the algorithm again.
Status local_model_init(LocalModel *model, const RunMemory *memory, uint32_t rank, Error *err) {
    const RunConfig *config = memory->config;
    *model = (LocalModel){.memory = memory, .run = memory, .rank = rank};
    assert(rank < config->workers && config->parameters > 0);
    if (state_models(config) > 1) memory = see_cluster(model);
    const bool engine = !config->trainer.command[0];
    if (engine) TRY(net_init(&model->net, &config->spec, kernels_best(), err));
    model->net.progress = &memory->control->pulses[rank].progress;
    model->net.class_weights = memory->class_weights;
    const Algorithm *algorithm = &memory->algorithm;
    const bool second = config->personal.second;
    const struct {
        float **vector;
        bool wanted;
    } vectors[] = {
        {&model->weights, engine},
        {&model->velocity, engine},
        {&model->gradient, engine},
        {&model->sum, config->training.privacy.clip > 0},
        {&model->shift, engine && desk_has_shift(memory)},
        {&model->full_gradient, algorithm->traits.has[TRAIT_LOOKS]},
        {&model->square, algorithm->optimizer->states > 1},
        {&model->second, second},
        {&model->mixed, config->personal.mixes},
        {&model->initial, second && !config->begins_with_given},
        {&model->rests, !engine && config->personal.alternates},
        {&model->read, config->engine == ENGINE_WILD && config->recipe.schedule.number[WILD_STEPS] > 1},
    };
    enum { VECTORS = sizeof vectors / sizeof *vectors };
    const size_t stride = vector_stride(config->parameters);
    size_t bytes = 0;
    for (int v = 0; v < VECTORS; v++)
        bytes += vectors[v].wanted ? stride : 0;
    own_arrays(model);
    model->vectors = huge_allocate(bytes);
    model->hash = XXH3_createState();
    if (!model->hash || model->owned.lacks_memory || !model->vectors) {
        local_model_free(model);
        return fail(err, STATUS_OS, "no memory for a local model of %llu parameters",
                    (unsigned long long)config->parameters);
    }
    char *next = model->vectors;
    for (int v = 0; v < VECTORS; v++)
        if (vectors[v].wanted) *vectors[v].vector = (float *)(void *)next, next += stride;
    assert(next == (char *)model->vectors + bytes);
    if (model->initial) spec_initialise(model->initial, &config->spec, config->seed);
    if (second && !model->initial) model->initial = run_memory_vector(memory, state_vector(memory, STATE_INITIAL));
    if (model->label_of) attack_labels(model->label_of, config->spec.classes, &config->attack);
    Status status = view_init(&model->view, memory, err);
    if (status == STATUS_OK) status = sender_init(&model->sender, memory, err);
    if (status == STATUS_OK && !engine) status = trained_elsewhere(model, err);
    if (status == STATUS_OK)
        model->delivery = delivery_of(model);
    else
        local_model_free(model);
    return status;
}

void local_model_free(LocalModel *model) {
    sender_free(&model->sender);
    view_free(&model->view);
    XXH3_freeState(model->hash);
    owned_free(&model->owned);
    free(model->vectors);
    net_free(&model->net);
    if (model->trainer) trainer_close(model->trainer);
    free(model->trainer);
}

uint32_t local_model_batches(const LocalModel *model, uint32_t count) {
    uint32_t size = model->memory->config->training.batch_size;
    return count / size + (count % size != 0);
}

static Batch batch_of(const LocalModel *model, const uint32_t *indices, uint32_t samples) {
    const Chosen *attack = &model->memory->config->attack;
    Batch batch = view_batch(model->memory, &model->memory->data.train, indices, samples);
    if (!model->lies) return batch;
    batch.triggered = attack_marked(attack, samples);
    batch.trigger_label = (uint16_t)attack->number[BACKDOOR_TARGET];
    return batch;
}

Batch local_model_batch(LocalModel *model, const uint32_t *order, uint32_t number, uint32_t count) {
    const uint32_t size = model->memory->config->training.batch_size, first = number * size;
    assert(size > 0 && first < count);
    Batch batch = batch_of(model, order + first, count - first < size ? count - first : size);
    view_apply(&model->view, &batch);
    return batch;
}

// The batch of a private step: each of the samples with one probability, whatever the step's place in an epoch.
static Batch drawn_batch(LocalModel *model, const uint32_t *indices, uint32_t count, const Noise *noise) {
    const uint32_t size = model->memory->config->training.batch_size;
    const uint32_t drawn = private_batch(model->order, indices, count, size, run_memory_secret(model->memory), noise);
    model->drawn += drawn;
    assert(drawn <= count);
    return batch_of(model, model->order, drawn);
}

typedef struct Turn {
    LocalTurn rule;
    LocalVectors at; // the client's
    LocalStep step;
} Turn;

// model->full_gradient becomes the gradient of the mean loss of the client's samples at the weights that it begins
// with. It costs one more pass over the samples, and only rules that correct each step by it ask.
static void look(LocalModel *model) {
    const size_t parameters = model->memory->config->parameters;
    uint32_t count;
    const uint32_t *indices = view_samples(&model->view, &count);
    memset(model->full_gradient, 0, parameters * sizeof *model->full_gradient);
    for (uint32_t number = 0; number < local_model_batches(model, count); number++) {
        const Batch batch = local_model_batch(model, indices, number, count);
        const float share = (float)batch.count / (float)count;
        assert(batch.count > 0 && batch.count <= count);
        BatchResult result;
        net_gradient(&model->net, model->gradient, &result, model->weights, &batch, NULL);
        for (size_t i = 0; i < parameters; i++)
            model->full_gradient[i] += share * model->gradient[i];
    }
}

// Collects all that is constant during the client's training, so that a step has no rule to ask. The state of an
// optimizer that clients keep is stored after the replica, if there is one, in that row. A rule that adds to each
// gradient becomes one vector: shift - pull global, with pull on top of the weight decay.
static Turn begin_turn(LocalModel *model, const Job *job, uint32_t samples, uint32_t round) {
    const RunMemory *memory = model->memory;
    const RunConfig *config = memory->config;
    const Chosen *chosen = &config->recipe.local;
    const LocalRule *rule = memory->algorithm.local;
    const double mean_samples = run_memory_mean_samples(memory);
    const Walk walk = walk_of(&config->recipe.schedule, round, job->epochs);
    const uint64_t steps = walk_steps(&walk, local_model_batches(model, samples));
    const Training training = run_memory_training(memory);
    Turn turn = {.rule = local_turn(chosen, &training, steps, mean_samples / samples),
                 .at = {.global = memory->weights,
                        .own = model->weights,
                        .state = client_state_row(&memory->client_state, job->state_from)},
                 .step.sgd = training.sgd};
    assert(samples > 0 && steps > 0);
    assert(turn.at.state == NULL || job->state_from != NO_CLIENT_STATE);
    if (model->full_gradient) {
        look(model);
        turn.at.full_gradient = model->full_gradient;
    }
    turn.step.follows = config->personal.inner > 0;
    turn.step.mixes = config->personal.mixes;
    turn.step.previous = rule->contrasts && chosen->number[0] > 0 ? turn.at.state : NULL;
    if (rule->asks) turn.at.common = run_memory_vector(memory, state_vector(memory, STATE_COMMON));
    if (training.optimizer_state == OPTIMIZER_KEPT) {
        const size_t first = rule->replicas ? config->parameters : 0; // after the replica
        turn.step.state = turn.at.state ? turn.at.state + first : NULL;
        float *after = client_state_row(&memory->client_state, job->state_to);
        turn.step.state_after = after ? after + first : NULL;
    }
    if (rule->replicas) {
        turn.at.velocity = turn.step.state;
        turn.rule.ahead = local_ahead(&training);
        if (memory->algorithm.engine->buffers)
            turn.at.global = run_memory_vector(memory, state_vector(memory, STATE_MET));
    }
    if (training.optimizer_state == OPTIMIZER_AVERAGED)
        turn.step.state = run_memory_vector(memory, state_vector(memory, STATE_MOMENTUM));
    const double pull = local_pull(chosen, &turn.rule);
    turn.step.pull = (float)pull;
    if (!rule->shifts && pull == 0) return turn;
    local_shift(model->shift, &turn.at, &turn.rule, pull, chosen->row, config->parameters);
    turn.step.shift = model->shift;
    return turn;
}

// A replica continues from where it was; in its first turn it is the centre, as the weights are.
static void begin_replica(LocalModel *model, Turn *turn) {
    turn->step.replica = &turn->at;
    turn->step.turn = &turn->rule;
    if (turn->at.state)
        memcpy(model->weights, turn->at.state, model->memory->config->parameters * sizeof *model->weights);
}

static void step_once(LocalModel *model, Stepper *stepper, BatchResult *result, const Batch *batch,
                      const Noise *noise) {
    const RunMemory *memory = model->memory;
    const double *number = memory->config->recipe.local.number; // mu, tau
    const Contrast contrast = contrast_of(model->near, model->far, number[0], number[1]);
    assert(!model->net.term); // batches that dp-sgd draws may be larger than --batch-size
    if (stepper->step.previous) {
        net_represent(&model->net, model->near, memory->weights, batch, noise);
        net_represent(&model->net, model->far, stepper->step.previous, batch, noise);
        model->net.term = &contrast.term;
    }
    stepper_step(stepper, model, result, batch, noise);
    model->net.term = NULL;
}

// Trains on batches of one order of the client's samples and returns the sum of their losses. A replica exchanges with
// the centre after its first step, since the gradient of that step is one at the old replica.
static double train_stretch(LocalModel *model, Stepper *stepper, const uint32_t *indices, uint32_t count,
                            uint32_t client, const Stretch *stretch, bool *exchanged) {
    const uint64_t seed = model->memory->config->seed;
    Noise noise = {.seed = seed, .round = stretch->round, .client = client, .step = stretch->step};
    double loss_sum = 0;
    if (!model->sum) batch_order(model->order, indices, count, seed, stretch->round, client, stretch->epoch);
    for (uint32_t i = 0; i < stretch->count; i++, noise.step++) {
        Batch batch = model->sum ? drawn_batch(model, indices, count, &noise)
                                 : local_model_batch(model, model->order, stretch->first + i, count);
        BatchResult result;
        step_once(model, stepper, &result, &batch, &noise);
        if (!*exchanged)
            local_exchange(model->weights, stepper->step.replica, stepper->step.turn,
                           model->memory->config->parameters);
        *exchanged = true;
        loss_sum += result.loss_sum;
        if (model->on_step) model->on_step(model->on_step_context, result.loss_sum / batch.count);
    }
    return loss_sum;
}

double local_model_train(LocalModel *model, const LocalStep *step, uint32_t client, uint32_t epochs, uint32_t round) {
    uint32_t count;
    const uint32_t *indices = view_samples(&model->view, &count);
    return local_model_train_on(model, step, indices, count, client, epochs, round);
}

// Walks stretch by stretch: a schedule that counts steps can begin and end in the middle of an epoch, and continues in
// that order of samples in the next round.
double local_model_train_on(LocalModel *model, const LocalStep *step, const uint32_t *indices, uint32_t count,
                            uint32_t client, uint32_t epochs, uint32_t round) {
    const RunConfig *config = model->memory->config;
    if (model->trainer) return trainer_turn_train(model, step, indices, count, client, epochs, round);
    bool exchanged = step->replica == NULL;
    Stepper stepper = stepper_begin(model->memory, step);
    if (count < stepper.batch_size) stepper.batch_size = count;
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

// Trains the client's own part first, while the shared part is frozen, then the shared part while its own is frozen.
static double train_in_turn(LocalModel *model, const LocalStep *step, const Job *job, uint32_t round) {
    const PersonalPlan *plan = &model->memory->config->personal;
    assert(plan->first <= plan->end && plan->end <= model->memory->config->parameters);
    assert(model->net.still_first == 0 && model->net.still_end == 0); // no earlier client has left it frozen
    LocalStep head = *step;
    head.aside = true;
    model->net.still_first = 0, model->net.still_end = plan->first;
    if (plan->epochs > 0) local_model_train(model, &head, job->client, plan->epochs, personal_round(round));
    model->net.still_first = plan->first, model->net.still_end = plan->end;
    double loss_sum = local_model_train(model, step, job->client, job->epochs, round);
    model->net.still_first = model->net.still_end = 0;
    return loss_sum;
}

// Whether a turn begins with the global weights and only its first step reads them. That step then reads the shared
// vector itself, which saves a copy of the model for each client.
static bool starts_with_a_step(const LocalModel *model) {
    const RunMemory *memory = model->memory;
    return !model->shift && !model->full_gradient && !memory->algorithm.local->replicas &&
           memory->config->personal.run_count == 0;
}

// The client's result may depend on nothing that an earlier client left in the worker's model: weights, velocity, view
// and the frozen range are all set here. The random numbers are keyed by round, client and visit, so that a client
// that trains twice from one model does not repeat itself.
void client_train(LocalModel *model, Job *job, uint32_t round) {
    const RunMemory *memory = model->memory;
    uint64_t start = clock_nanoseconds();
    uint32_t count;
    const bool starts = starts_with_a_step(model);
    assert(job->client < memory->config->clients && job->state == JOB_OPEN);
    assert(job->state_to == NO_CLIENT_STATE || job->state_to != job->state_from);
    model->lies = job->attacks && attack_is_in_training(&memory->config->attack);
    view_begin(&model->view, job->client, round, model->lies ? model->label_of : NULL);
    evaluation_choose(model, job, round);
    if (!starts) memcpy(model->weights, memory->weights, memory->config->parameters * sizeof(float));
    view_samples(&model->view, &count);
    assert(count > 0); // clients without samples have no job
    personal_begin(model, job);
    Turn turn = begin_turn(model, job, count, round);
    if (starts) turn.step.start = memory->weights;
    if (memory->algorithm.local->replicas) begin_replica(model, &turn);
    model->drawn = 0;
    const uint32_t key = schedule_key(round - 1, job->visit); // so that no training from one model repeats another
    job->loss_sum = memory->config->personal.alternates
                        ? train_in_turn(model, &turn.step, job, key)
                        : local_model_train(model, &turn.step, job->client, job->epochs, key);
    const Walk walk = walk_of(&memory->config->recipe.schedule, key, job->epochs);
    job->samples = model->sum ? model->drawn : walk_samples(&walk, count, memory->config->training.batch_size);
    if (model->trainer) trainer_turn_count_steps(model, job, &turn.rule, key);
    personal_conclude(model, job, round);
    if (memory->algorithm.local->contrasts && job->state_to != NO_CLIENT_STATE)
        client_state_row_write(&memory->client_state, job->state_to, model->weights, memory->config->parameters);
    model->lies = false;
    if (model->fault != STATUS_OK) return;
    job->seconds = clock_seconds_since(start);
    trainer_turn_end_job(model, job);
    deliver(model, job, &turn.at, &turn.rule, round);
}
