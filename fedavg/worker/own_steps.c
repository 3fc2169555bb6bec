#include "own_steps.h"

#include <assert.h>
#include <math.h>
#include <string.h>

// mixed (parameters) = alpha own + (1 - alpha) shared. mixed may be own.
void own_mixture(float *mixed, const float *own, const float *shared, float alpha, size_t count) {
    assert(alpha >= 0 && alpha <= 1);
    for (size_t i = 0; i < count; i++)
        mixed[i] = alpha * own[i] + (1 - alpha) * shared[i];
}

void frozen_restore(float *weights, const RunMemory *memory) {
    const TensorList *list = &memory->tensors;
    for (int t = 0; t < list->count && list->freezes; t++) {
        const ParameterTensor *tensor = &list->tensors[t];
        if (tensor->frozen)
            memcpy(weights + tensor->first, memory->weights + tensor->first, tensor->count * sizeof *weights);
    }
}

// With g the gradient at the mixture of own model v and shared model w: v -= lr (alpha g + weight decay), and alpha -=
// lr ((v - w) g + decay alpha), which is kept between 0 and 1. Both begin from v, w and alpha as they were before the
// batch, as in Algorithm 1; PFLlib and FL-bench, from which the decay and the presets are, take the gradient of alpha
// from those at v and w. The sum is in one order, so that no instruction set changes its bits.
void own_mix(LocalModel *model, const Batch *batch, const Noise *noise) {
    const RunConfig *config = model->memory->config;
    const PersonalPlan *plan = &config->personal;
    const Sgd sgd = run_memory_training(model->memory).sgd;
    const float alpha = model->own.alpha;
    float *own = model->own.weights;
    BatchResult ignored;
    double along = plan->alpha_decay * (double)alpha;
    own_mixture(model->own.mixed, own, model->weights, alpha, config->parameters);
    net_gradient(&model->net, model->steps.gradient, &ignored, model->own.mixed, batch, noise);
    for (size_t i = 0; i < config->parameters; i++) {
        along += ((double)own[i] - (double)model->weights[i]) * (double)model->steps.gradient[i];
        own[i] -= sgd.lr * (alpha * model->steps.gradient[i] + sgd.weight_decay * own[i]);
    }
    if (batch->count > 0) net_follow(&model->net, own);
    frozen_restore(own, model->memory);
    if (plan->adapts && isfinite(along))
        model->own.alpha = (float)fmin(fmax((double)alpha - (double)sgd.lr * along, 0), 1);
}

// Makes `inner` steps theta -= lr (g(theta) + lambda (theta - x)), then x -= lr lambda (x - theta).
void own_step(LocalModel *model, BatchResult *result, const Batch *batch, const Noise *noise) {
    const RunConfig *config = model->memory->config;
    const PersonalPlan *plan = &config->personal;
    const float lambda = (float)plan->lambda, inner_lr = (float)plan->inner_lr;
    const float follow = run_memory_training(model->memory).sgd.lr * lambda;
    float *x = model->weights, *theta = model->own.weights;
    for (uint32_t step = 0; step < plan->inner; step++) {
        net_gradient(&model->net, model->steps.gradient, result, theta, batch, noise);
        for (size_t i = 0; i < config->parameters; i++)
            theta[i] -= inner_lr * (model->steps.gradient[i] + lambda * (theta[i] - x[i]));
        if (batch->count > 0) net_follow(&model->net, theta);
    }
    for (size_t i = 0; i < config->parameters; i++)
        x[i] -= follow * (x[i] - theta[i]);
    if (batch->count > 0 && plan->inner > 0) net_follow(&model->net, x);
}
