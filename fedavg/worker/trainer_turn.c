#include "trainer_turn.h"

#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "datasets/order.h"
#include "fedavg/rules/attack/attack_rules.h"
#include "fedavg/rules/combine/combine_rules.h"
#include "fedavg/rules/world/schedule.h"
#include "fedavg/rules/world/walk.h"
#include "fedavg/worker/own_steps.h"
#include "fedavg/worker/streaming.h"
#include "fedavg/worker/trainer_view.h"

// A model that is evaluated may have its weights elsewhere: they are brought to the desk for the turn.
static void bring(LocalModel *model, const float *weights) {
    if (weights != model->by.trainer->desk.weights)
        memcpy(model->by.trainer->desk.weights, weights, model->memory->config->parameters * sizeof *weights);
}

// `aside`: the turn's metrics are not the job's, which are those of the training, or test, whose loss it has.
static void ask(LocalModel *model, TrainerAnswer *answer, const TrainerTurn *turn, bool aside) {
    TrainerTold *told = &model->by.told;
    const uint64_t begin = clock_nanoseconds();
    *answer = (TrainerAnswer){.loss_sum = NAN};
    if (model->by.fault == STATUS_OK)
        model->by.fault = trainer_ask(answer, model->by.trainer, turn, &model->by.why);
    else
        desk_clear(&model->by.trainer->desk); // after a fault the job's other turns are left out, with their batches
    if (model->by.fault == STATUS_OK && !aside)
        model->by.fault = metric_sums_join(&told->metrics, &answer->metrics, &model->by.why);
    told->tokens += aside ? 0 : answer->tokens;
    told->seconds += clock_seconds_since(begin);
}

void trainer_turn_begin_job(LocalModel *model) {
    if (model->by.trainer) model->by.told = (TrainerTold){0};
}

void trainer_turn_end_job(const LocalModel *model, Job *job) {
    const TrainerTold *told = &model->by.told;
    if (!model->by.trainer) return;
    job->tokens = told->tokens;
    job->metrics = told->metrics.count;
    job->unjudged = told->unjudged;
    job->trainer_seconds = told->seconds;
    if (job->metrics > 0) model->memory->metrics[job - model->memory->queue->jobs] = told->metrics;
}

// The batches are those that the engine would train on: its order of a client's samples in each epoch.
static void add_batches(LocalModel *model, const uint32_t *indices, uint32_t count, uint32_t client, const Walk *walk) {
    const RunConfig *config = model->memory->config;
    const uint32_t size = config->training.batch_size;
    const bool viewed = trainer_view_differs(model);
    Stretch stretch;
    for (uint32_t index = 0; walk_stretch(&stretch, walk, index, local_model_batches(model, count)); index++) {
        batch_order(model->order, indices, count, config->seed, stretch.round, client, stretch.epoch);
        for (uint32_t i = 0; i < stretch.count; i++) {
            const uint32_t first = (stretch.first + i) * size;
            const uint32_t samples = count - first < size ? count - first : size;
            desk_add_batch(&model->by.trainer->desk, model->order + first, samples);
            if (viewed)
                trainer_view_add(model, &model->memory->data.train, samples,
                                 model->liar.lies ? attack_marked(&config->attack, samples) : 0);
        }
    }
}

// A second model has its weights elsewhere. It changes places with the first one on the desk for its turn, since the
// first one has been trained but not handed in.
static void swap_with_desk(LocalModel *model) {
    float *desk = model->by.trainer->desk.weights, *weights = model->weights;
    for (size_t i = 0; i < model->memory->config->parameters && weights != desk; i++) {
        const float weight = weights[i];
        weights[i] = desk[i], desk[i] = weight;
    }
}

static void begin_rest(LocalModel *model) {
    const size_t first = model->net.still_first, count = model->net.still_end - first;
    if (count > 0) memcpy(model->by.rests + first, model->by.trainer->desk.weights + first, count * sizeof(float));
}

// A trainer that moves them trains another algorithm than the run's: one turn of it must not pass in silence.
static void check_rest(LocalModel *model) {
    const TensorList *list = &model->memory->tensors;
    const float *weights = model->by.trainer->desk.weights;
    for (int t = 0; t < list->count && model->by.fault == STATUS_OK; t++) {
        const ParameterTensor *tensor = &list->tensors[t];
        const bool rests = tensor->first >= model->net.still_first && tensor->first < model->net.still_end;
        if (rests &&
            memcmp(weights + tensor->first, model->by.rests + tensor->first, tensor->count * sizeof(float)) != 0)
            model->by.fault = fail(
                &model->by.why, STATUS_DATA,
                "it trained %s, which rests in this turn: leave the tensors of turn.still as they are", tensor->name);
    }
}

// A loop over epochs around turn.batches(), which has all epochs, trains their square. Once per run.
static void warn_of_samples(const LocalModel *model, uint32_t client, uint32_t epochs, uint32_t asked) {
    const uint64_t samples = model->by.answer.samples;
    if (model->by.fault != STATUS_OK || samples <= asked || model->memory->data.items.are_clients) return;
    if (atomic_exchange(&model->memory->control->samples_warned, 1) != 0) return;
    log_warning(
        "client %u: its trainer trained on %llu samples and the turn has %u in its %u epochs: turn.batches() has "
        "the batches of all epochs, so that a loop over turn.epochs around it trains too long",
        client, (unsigned long long)samples, asked, epochs);
}

// Whether the algorithm divides by what the steps of a turn amount to.
static bool measures(const RunMemory *memory) {
    return memory->algorithm.local->measures || memory->algorithm.combine->cut;
}

// The turn, or a part of its steps.
static void ask_part(LocalModel *model, const TrainerTurn *turn, const uint32_t *indices, uint32_t count,
                     const Walk *walk, bool aside) {
    add_batches(model, indices, count, turn->client, walk);
    begin_rest(model);
    const uint32_t asked = model->by.trainer->desk.count;
    ask(model, &model->by.answer, turn, aside);
    warn_of_samples(model, turn->client, turn->epochs, asked);
    check_rest(model);
}

// The steps of a turn after the values of a fragment were mixed in. The trainer draws other random numbers, and what
// both parts of the turn amount to is the turn's answer.
static void ask_rest(LocalModel *model, const TrainerTurn *turn, const uint32_t *indices, uint32_t count,
                     const Walk *walk, bool aside) {
    const TrainerAnswer first = model->by.answer;
    TrainerAnswer *answer = &model->by.answer;
    TrainerTurn rest = *turn;
    rest.key = schedule_key(schedule_round(turn->key) - 1, 1);
    ask_part(model, &rest, indices, count, walk, aside);
    answer->loss_sum += first.loss_sum;
    answer->samples += first.samples, answer->steps += first.steps, answer->travel += first.travel;
    answer->other_steps |= first.other_steps;
    answer->steps_stated &= first.steps_stated;
}

double trainer_turn_train(LocalModel *model, const LocalStep *step, const uint32_t *indices, uint32_t count,
                          uint32_t client, uint32_t epochs, uint32_t round) {
    const RunConfig *config = model->memory->config;
    Trainer *trainer = model->by.trainer;
    const Walk walk = walk_of(&config->recipe.schedule, round, epochs);
    const TrainerTurn turn = {.round = model->memory->control->order.round,
                              .key = round,
                              .client = client,
                              .epochs = epochs,
                              .lr = step->sgd.lr,
                              .momentum = step->sgd.momentum,
                              .weight_decay = step->sgd.weight_decay,
                              .pull = step->pull,
                              .shifts = step->shift != NULL,
                              .measures = measures(model->memory),
                              .keeps = step->state || step->state_after,
                              .viewed = trainer_view_differs(model),
                              .still_first = model->net.still_first,
                              .still_end = model->net.still_end};
    const uint64_t late = step->late_round > 0 ? step->late_after : walk.steps;
    swap_with_desk(model);
    if (step->start) bring(model, step->start);
    if (step->shift && step->shift != trainer->desk.shift)
        memcpy(trainer->desk.shift, step->shift, config->parameters * sizeof *step->shift);
    if (turn.keeps && step->state)
        memcpy(trainer->desk.state, step->state, trainer->desk.state_bytes);
    else if (turn.keeps)
        memset(trainer->desk.state, 0, trainer->desk.state_bytes); // of a client's first turn
    const Walk before = walk_part(&walk, 0, late), after = walk_part(&walk, late, walk.steps);
    ask_part(model, &turn, indices, count, late < walk.steps ? &before : &walk, step->aside);
    if (step->late_round > 0) streaming_mix(model, step);
    if (late < walk.steps) ask_rest(model, &turn, indices, count, &after, step->aside);
    if (step->state_after) memcpy(step->state_after, trainer->desk.state, trainer->desk.state_bytes);
    frozen_restore(trainer->desk.weights, model->memory); // whatever the trainer did to what is frozen
    swap_with_desk(model);
    return model->by.answer.loss_sum;
}

// Once per run: it would be said of every client in every round.
static void warn_of_steps(const LocalModel *model, const Job *job, uint64_t asked) {
    if (model->by.answer.steps_stated || atomic_exchange(&model->memory->control->steps_warned, 1) != 0) return;
    log_warning(
        "client %u: its trainer made %llu steps and the turn has %llu batches: the algorithm takes them for steps "
        "of SGD with turn.lr and turn.momentum; if they are, say turn.hand_in(steps=%llu), otherwise "
        "turn.hand_in(travel=...)",
        job->client, (unsigned long long)model->by.answer.steps, (unsigned long long)asked,
        (unsigned long long)model->by.answer.steps);
}

// Once per run, too.
static void warn_of_optimizer(const LocalModel *model, const Job *job) {
    if (model->by.answer.steps_stated || atomic_exchange(&model->memory->control->steps_warned, 1) != 0) return;
    log_warning(
        "client %u: its trainer's steps are not those of SGD with turn.lr and turn.momentum, and combine nova divides "
        "by the length of a training, which is known for SGD alone; say turn.hand_in(travel=...)",
        job->client);
}

static void count_told(LocalModel *model, const Job *job, LocalTurn *turn) {
    turn->counts = combine_told(&model->memory->config->recipe.combine, job->samples, model->by.told.tokens);
    if (turn->counts > 0 || model->by.fault != STATUS_OK) return;
    model->by.fault = fail(&model->by.why, STATUS_DATA,
                           "its training counted no tokens, by which combine mean tokens weighs it: call "
                           "turn.add(loss, len(y), tokens=...), or write combine mean samples");
}

// The plan follows from the batches, as the parent has computed it. A trainer may stop early, or let several batches
// make one step: SCAFFOLD and FedNova divide by what was made. A trainer that says nothing of steps has made
// those of the plan.
void trainer_turn_count_steps(LocalModel *model, Job *job, LocalTurn *turn, LocalVectors *at, uint32_t round) {
    const RunMemory *memory = model->memory;
    const RunConfig *config = memory->config;
    const Chosen *chosen = &config->recipe.local;
    const TrainerAnswer *answer = &model->by.answer;
    const Training training = run_memory_training(memory);
    const Walk walk = walk_of(&config->recipe.schedule, round, job->epochs);
    const uint64_t asked = walk_steps(&walk, local_model_batches(model, job->count));
    const double planned = local_reach(chosen, &training, asked), lr = (double)training.sgd.lr;
    job->steps = asked, job->reach = planned;
    if (answer->samples > 0) job->samples = answer->samples;
    if (answer->steps > 0) job->steps = answer->steps;
    if (combine_is_told(&config->recipe.combine)) count_told(model, job, turn);
    if (answer->gradients) at->full_gradient = model->by.trainer->desk.gradients;
    turn->looks = answer->gradients;
    if (answer->other_steps && memory->algorithm.combine->cut) warn_of_optimizer(model, job);
    if (job->steps == asked && answer->travel == 0) return;
    const double size_ratio = turn->size_ratio, counts = turn->counts;
    *turn = local_turn(chosen, &training, job->steps, size_ratio);
    turn->counts = counts, turn->looks = answer->gradients;
    if (answer->travel > 0) turn->displacement = answer->travel;
    job->reach = answer->travel > 0 && lr > 0 ? answer->travel / lr : local_reach(chosen, &training, job->steps);
    if (memory->algorithm.combine->cut) turn->counts = planned / job->reach;
    if (measures(memory) && !answer->gradients) warn_of_steps(model, job, asked);
}

void trainer_turn_evaluate(LocalModel *model, BatchResult *result, const float *weights, const Batch *batch,
                           const char *part, uint32_t client) {
    const TrainerTurn turn = {.tests = part,
                              .of_test_set = batch->pixels == model->memory->data.test.pixels,
                              .round = model->memory->control->order.round,
                              .key = model->memory->control->order.round,
                              .client = client,
                              .keeps = model->by.kept != NULL,
                              .viewed = batch->triggered > 0 || view_differs(&model->view)};
    const DatasetSplit *split = turn.of_test_set ? &model->memory->data.test : &model->memory->data.train;
    TrainerAnswer answer;
    bring(model, weights);
    if (turn.keeps) memcpy(model->by.trainer->desk.state, model->by.kept, model->by.trainer->desk.state_bytes);
    trainer_add_test(model->by.trainer, batch->indices, batch->first, batch->count);
    if (turn.viewed) trainer_view_add(model, split, batch->count, batch->triggered);
    ask(model, &answer, &turn, false);
    model->by.told.samples += answer.samples;
    if (!answer.judges) model->by.told.unjudged += (uint32_t)answer.samples;
    *result = (BatchResult){.loss_sum = answer.loss_sum, .hits = answer.hits};
}
