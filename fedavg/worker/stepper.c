#include "stepper.h"

#include <assert.h>
#include <string.h>

#include "fedavg/rules/local/optimizer_rules.h"
#include "fedavg/rules/sum/aggregate.h"
#include "fedavg/worker/gradient.h"
#include "fedavg/worker/own_steps.h"
#include "fedavg/worker/private_gradient.h"

Stepper stepper_begin(const RunMemory *memory, const LocalStep *step) {
    const Training *training = &memory->config->training;
    assert(training->batch_size > 0 && training->clip >= 0);
    return (Stepper){.optimizer = &memory->config->recipe.optimizer,
                     .step = *step,
                     .adam = optimizer_adam(&memory->config->recipe.optimizer),
                     .nesterov = training->nesterov && training->sgd.momentum != 0, // without it, SGD's very bits
                     .clip = training->clip,
                     .is_private = training->privacy.clip > 0,
                     .batch_size = training->batch_size,
                     .forgotten = {1, 1}};
}

// The velocity; with Adam also the squares, and the part of both that is still that of their start.
uint64_t stepper_state_floats(const RunConfig *config) {
    if (config->trainer.command[0]) return config->trainer.state_floats;
    const uint32_t states = run_algorithm(config).optimizer->states;
    return states * config->parameters + (states > 1 ? 4 : 0); // two doubles
}

// Whether steps are taken during the backward pass, where each weight is read and written once per step while its
// gradient is in the cache. Clipping needs the whole gradient first, of the batch or of a sample; Nesterov's and Adam's
// steps have no fused kernel.
static bool is_fused(const Stepper *stepper) {
    return !stepper->step.follows && stepper->optimizer->row == OPTIMIZER_SGD && !stepper->nesterov &&
           stepper->clip == 0 && !stepper->is_private;
}

void stepper_start(const Stepper *stepper, LocalModel *model) {
    model->net.start = stepper->step.start;
    if (!is_fused(stepper)) stepper_end(model);
}

void stepper_end(LocalModel *model) {
    const float *start = model->net.start;
    if (start) memcpy(model->weights, start, model->memory->config->parameters * sizeof *start);
    model->net.start = NULL;
}

// A client without a row begins with a fresh optimizer. Without momentum over rounds the velocity is not even cleared:
// the first fused step writes it without reading.
void stepper_load(Stepper *stepper, LocalModel *model, const float *row) {
    const size_t count = model->memory->config->parameters, bytes = count * sizeof(float);
    // Only the next step reads the velocity then, and it need not read zeros either.
    model->net.rests = !row && is_fused(stepper) && !stepper->step.state_after &&
                       model->memory->config->training.optimizer_state == OPTIMIZER_FRESH;
    if (model->net.rests) return;
    if (!row) {
        memset(model->steps.velocity, 0, bytes);
        if (model->steps.square) memset(model->steps.square, 0, bytes);
        return;
    }
    memcpy(model->steps.velocity, row, bytes);
    if (!model->steps.square) return;
    memcpy(model->steps.square, row + count, bytes);
    memcpy(stepper->forgotten, row + 2 * count, sizeof stepper->forgotten);
    assert(stepper->forgotten[0] >= 0 && stepper->forgotten[0] <= 1 && stepper->forgotten[1] >= 0 &&
           stepper->forgotten[1] <= 1);
}

void stepper_store(float *row, const Stepper *stepper, const LocalModel *model) {
    const size_t count = model->memory->config->parameters, bytes = count * sizeof(float);
    memcpy(row, model->steps.velocity, bytes);
    if (!model->steps.square) return;
    memcpy(row + count, model->steps.square, bytes);
    memcpy(row + 2 * count, stepper->forgotten, sizeof stepper->forgotten);
}

AGGREGATE_VECTORS static void add_terms(float *restrict gradients, const float *restrict weights,
                                        const float *restrict shift, float pull, size_t count) {
    for (size_t i = 0; i < count; i++)
        gradients[i] = gradients[i] + pull * weights[i] + shift[i];
}

AGGREGATE_VECTORS static void step_nesterov(float *restrict weights, float *restrict velocity,
                                            const float *restrict gradients, const Sgd *given, size_t count) {
    const Sgd sgd = *given;
    for (size_t i = 0; i < count; i++)
        weights[i] -= sgd.lr * sgd_nesterov(&velocity[i], gradients[i], weights[i], &sgd);
}

AGGREGATE_VECTORS static void step_sgd(float *restrict weights, float *restrict velocity,
                                       const float *restrict gradients, const Sgd *given, size_t count) {
    const Sgd sgd = *given;
    for (size_t i = 0; i < count; i++) {
        velocity[i] = sgd_velocity(velocity[i], gradients[i], weights[i], &sgd);
        weights[i] -= sgd.lr * velocity[i];
    }
}

AGGREGATE_VECTORS static void step_adam(float *restrict weights, float *restrict moment, float *restrict square,
                                        const float *restrict gradients, const AdamStep *given, size_t count) {
    const AdamStep step = *given;
    for (size_t i = 0; i < count; i++)
        weights[i] = adam_moved(weights[i], &moment[i], &square[i], gradients[i], &step);
}

static void step_along(const Stepper *stepper, const AdamStep *adam, LocalModel *model, size_t first, size_t end) {
    float *weights = model->weights + first, *velocity = model->steps.velocity + first;
    assert(first <= end && end <= model->memory->config->parameters);
    const float *gradients = model->steps.gradient + first;
    if (stepper->optimizer->row != OPTIMIZER_SGD)
        step_adam(weights, velocity, model->steps.square + first, gradients, adam, end - first);
    else
        (stepper->nesterov ? step_nesterov : step_sgd)(weights, velocity, gradients, &stepper->step.sgd, end - first);
}

// The pull of a local rule is weight decay towards the global weights: one factor in the kernel, whose other half is in
// the shift.
static void step_fused(const Stepper *stepper, LocalModel *model, BatchResult *result, const Batch *batch,
                       const Noise *noise) {
    Sgd sgd = stepper->step.sgd;
    assert(!stepper->is_private && stepper->clip == 0 && stepper->step.pull >= 0);
    sgd.weight_decay += stepper->step.pull;
    net_train_step(&model->net, model->weights, model->steps.velocity, result, &sgd, stepper->step.shift, batch, noise);
}

// The order matters. Rules come first, then frozen parts are cleared, so that clipping measures only what moves. Frozen
// weights are put back at the end, since weight decay moves them without any gradient.
void stepper_step(Stepper *stepper, LocalModel *model, BatchResult *result, const Batch *batch, const Noise *noise) {
    const LocalStep *step = &stepper->step;
    const size_t count = model->memory->config->parameters;
    const size_t still = model->net.still_first, moves = model->net.still_end;
    if (step->follows) {
        own_step(model, result, batch, noise);
        return;
    }
    if (step->mixes) own_mix(model, batch, noise);
    assert(still <= moves && moves <= model->memory->config->parameters);
    if (is_fused(stepper)) {
        step_fused(stepper, model, result, batch, noise);
        return;
    }
    if (stepper->is_private)
        private_gradient(model, result, batch, stepper->batch_size, noise);
    else
        net_gradient(&model->net, model->steps.gradient, result, model->weights, batch, noise);
    if (step->shift) add_terms(model->steps.gradient, model->weights, step->shift, step->pull, count);
    gradient_zero_still(model);
    clip_gradient(model->steps.gradient, stepper->clip, count);
    AdamStep adam = {0};
    if (stepper->optimizer->row != OPTIMIZER_SGD)
        adam = adam_next(stepper->forgotten, &stepper->adam, (double)step->sgd.lr, (double)step->sgd.weight_decay);
    step_along(stepper, &adam, model, 0, still);
    step_along(stepper, &adam, model, moves, count);
    if (batch->count > 0) net_follow(&model->net, model->weights); // private steps have nothing that follows batches
    frozen_restore(model->weights, model->memory);
}
