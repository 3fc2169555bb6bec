#include "client.h"

#include <assert.h>
#include <string.h>

#include "base/clock.h"
#include "fedavg/memory/state.h"
#include "fedavg/rules/attack/attack_rules.h"
#include "fedavg/rules/local/local_rules.h"
#include "fedavg/rules/world/walk.h"
#include "fedavg/worker/clusters.h"
#include "fedavg/worker/deliver.h"
#include "fedavg/worker/local_train.h"
#include "fedavg/worker/personal.h"
#include "fedavg/worker/streaming.h"
#include "fedavg/worker/trainer_turn.h"

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

typedef struct Turn {
    LocalTurn rule;
    LocalVectors at; // the client's
    LocalStep step;
} Turn;

// steps.full_gradient becomes the gradient of the mean loss of the client's samples at the weights that it begins with.
// It costs one more pass over the samples, and only rules that correct each step by it ask.
static void look(LocalModel *model) {
    const size_t parameters = model->memory->config->parameters;
    uint32_t count;
    const uint32_t *indices = view_samples(&model->view, &count);
    memset(model->steps.full_gradient, 0, parameters * sizeof *model->steps.full_gradient);
    for (uint32_t number = 0; number < local_model_batches(model, count); number++) {
        const Batch batch = local_model_batch(model, indices, number, count);
        const float share = (float)batch.count / (float)count;
        assert(batch.count > 0 && batch.count <= count);
        BatchResult result;
        net_gradient(&model->net, model->steps.gradient, &result, model->weights, &batch, NULL);
        for (size_t i = 0; i < parameters; i++)
            model->steps.full_gradient[i] += share * model->steps.gradient[i];
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
    if (model->steps.full_gradient) {
        look(model);
        turn.at.full_gradient = model->steps.full_gradient;
    }
    turn.step.follows = config->personal.inner > 0;
    turn.step.mixes = config->personal.mixes;
    turn.step.previous = rule->contrasts && chosen->number[0] > 0 ? turn.at.state : NULL;
    if (rule->asks) turn.at.common = run_memory_vector(memory, state_vector(memory, STATE_COMMON));
    if (training.optimizer_state == OPTIMIZER_KEPT) {
        const size_t first = config->client_state.optimizer;
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
    local_shift(model->steps.shift, &turn.at, &turn.rule, pull, chosen->row, config->parameters);
    turn.step.shift = model->steps.shift;
    return turn;
}

// A replica continues from where it was; in its first turn it is the centre, as the weights are.
static void begin_replica(LocalModel *model, Turn *turn) {
    turn->step.replica = &turn->at;
    turn->step.turn = &turn->rule;
    if (turn->at.state)
        memcpy(model->weights, turn->at.state, model->memory->config->parameters * sizeof *model->weights);
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
    return !model->steps.shift && !model->steps.full_gradient && !memory->algorithm.local->replicas &&
           memory->config->personal.run_count == 0 && memory->config->fragments.count == 0;
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
    model->liar.lies = job->attacks && attack_is_in_training(&memory->config->attack);
    view_begin(&model->view, job->client, round, model->liar.lies ? model->liar.label_of : NULL);
    cluster_choose(model, job, round);
    if (!starts) memcpy(model->weights, memory->weights, memory->config->parameters * sizeof(float));
    view_samples(&model->view, &count);
    assert(count > 0); // clients without samples have no job
    personal_begin(model, job);
    Turn turn = begin_turn(model, job, count, round);
    if (starts) turn.step.start = memory->weights;
    streaming_begin(model, &turn.step, job, round);
    if (memory->algorithm.local->replicas) begin_replica(model, &turn);
    model->steps.drawn = 0;
    const uint32_t key = schedule_key(round - 1, job->visit); // so that no training from one model repeats another
    job->loss_sum = memory->config->personal.alternates
                        ? train_in_turn(model, &turn.step, job, key)
                        : local_model_train(model, &turn.step, job->client, job->epochs, key);
    const Walk walk = walk_of(&memory->config->recipe.schedule, key, job->epochs);
    job->samples =
        model->steps.sum ? model->steps.drawn : walk_samples(&walk, count, memory->config->training.batch_size);
    if (model->by.trainer) trainer_turn_count_steps(model, job, &turn.rule, &turn.at, key);
    personal_conclude(model, job, round);
    streaming_conclude(model, job, round);
    if (memory->algorithm.local->contrasts && job->state_to != NO_CLIENT_STATE)
        client_state_row_write(&memory->client_state, job->state_to, model->weights, memory->config->parameters);
    model->liar.lies = false;
    if (model->by.fault != STATUS_OK) return;
    job->seconds = clock_seconds_since(start);
    trainer_turn_end_job(model, job);
    deliver(model, job, &turn.at, &turn.rule, round);
}
