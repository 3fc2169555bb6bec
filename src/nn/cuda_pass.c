#include "cuda_pass.h"

static void drop(const CudaPass *pass, const CudaOp *op, float *values) {
    size_t features = cuda_ops_dropout_features(op->layer);
    cuda_dropout_apply(values, op->keep, op->layer->rate, features, shape_size(op->layer->in) / features, &pass->step);
}

static void drop_forward(const CudaPass *pass, const CudaOp *op) {
    const RngKey *keys = pass->progress.keys + (size_t)op->number * (size_t)pass->step.models;
    cuda_dropout_draw(op->keep, keys, pass->progress.numbers, op->layer->rate, cuda_ops_dropout_features(op->layer),
                      &pass->step);
    drop(pass, op, op->out);
}

static void forward(const CudaPass *pass, bool training) {
    const CudaNetPlan *plan = &pass->plan;
    const CudaStep *step = &pass->step;
    cuda_progress_begin(&pass->progress, step->stream);
    cuda_gather(pass->ops.ops[0].in, plan->pixels, plan->order, pass->progress.firsts, pass->scale, pass->shift,
                plan->spec.input, step);
    for (int i = 0; i < pass->ops.count; i++) {
        const CudaOp *op = &pass->ops.ops[i];
        const Layer *layer = op->layer;
        const float *weight = plan->weights + layer->weight, *bias = plan->weights + layer->bias;
        switch (layer->kind) {
        case LAYER_CONV:
            cuda_conv_forward(op->out, op->in, weight, bias, plan->weights_stride, layer, step);
            break;
        case LAYER_POOL:
            cuda_pool_forward(op->out, op->in, op->relu, layer, step);
            break;
        case LAYER_RELU:
            cuda_relu_forward(op->out, shape_size(layer->out), step);
            break;
        case LAYER_DROPOUT:
        case LAYER_DROPOUT2D:
            if (training) drop_forward(pass, op);
            break;
        case LAYER_LINEAR:
            cuda_linear_forward(op->out, op->in, weight, bias, plan->weights_stride, op->relu, layer, pass->blas, step);
            break;
        }
    }
}

static void loss(const CudaPass *pass, float *gradient, uint32_t *hits) {
    const CudaNetPlan *plan = &pass->plan;
    cuda_softmax_cross_entropy(gradient, pass->progress.loss_sums, hits, pass->ops.logits, plan->labels, plan->order,
                               pass->progress.firsts, plan->spec.classes, &pass->step);
}

static void linear_backward(const CudaPass *pass, const CudaOp *op) {
    const CudaNetPlan *plan = &pass->plan;
    const Layer *layer = op->layer;
    if (op->relu) cuda_relu_backward(op->out_gradient, op->out, shape_size(layer->out), &pass->step);
    if (op->in_gradient)
        cuda_linear_backward_input(op->in_gradient, op->out_gradient, plan->weights + layer->weight,
                                   plan->weights_stride, layer, pass->blas, &pass->step);
    cuda_linear_backward_weight(plan->gradient + layer->weight, plan->gradient + layer->bias, op->in, op->out_gradient,
                                plan->spec.parameter_count, layer, pass->blas, &pass->step);
}

static void conv_backward(const CudaPass *pass, const CudaOp *op) {
    const CudaNetPlan *plan = &pass->plan;
    const Layer *layer = op->layer;
    if (op->in_gradient)
        cuda_conv_backward_input(op->in_gradient, op->out_gradient, plan->weights + layer->weight, plan->weights_stride,
                                 layer, &pass->step);
    cuda_conv_backward_weight(plan->gradient + layer->weight, plan->gradient + layer->bias, pass->ops.scratch, op->in,
                              op->out_gradient, plan->spec.parameter_count, layer, &pass->step);
}

// From the logits' gradient back to the first op with parameters, whose input gradient nobody needs.
static void backward(const CudaPass *pass) {
    for (int i = pass->ops.count - 1; i >= pass->ops.first; i--) {
        const CudaOp *op = &pass->ops.ops[i];
        switch (op->layer->kind) {
        case LAYER_CONV:
            conv_backward(pass, op);
            break;
        case LAYER_POOL:
            cuda_pool_backward(op->in_gradient, op->in, op->out_gradient, op->relu, op->layer, &pass->step);
            break;
        case LAYER_RELU:
            cuda_relu_backward(op->out_gradient, op->out, shape_size(op->layer->out), &pass->step);
            break;
        case LAYER_DROPOUT:
        case LAYER_DROPOUT2D:
            drop(pass, op, op->out_gradient);
            break;
        case LAYER_LINEAR:
            linear_backward(pass, op);
            break;
        }
    }
}

void cuda_pass_evaluate(const CudaPass *pass) {
    forward(pass, false);
    loss(pass, NULL, pass->progress.hits);
}

void cuda_pass_gradient(const CudaPass *pass) {
    forward(pass, true);
    loss(pass, pass->ops.logits_gradient, NULL);
    backward(pass);
}

// The step is refused on the card, by a count of zero: to SGD the model is then idle.
static void hogwild(const CudaPass *pass) {
    const CudaNetPlan *plan = &pass->plan;
    size_t count = plan->spec.parameter_count;
    CudaStep applied = pass->step;
    applied.counts = pass->progress.applied;
    cuda_progress_judge(&pass->progress, plan->gradient, count, applied.stream);
    if (plan->atomic_updates)
        cuda_sgd_step_atomically(plan->weights, plan->velocity, plan->gradient, &plan->sgd, count, count, &applied);
    else
        cuda_sgd_step(plan->weights, plan->velocity, plan->gradient, &plan->sgd, count, count, &applied);
    cuda_progress_count(&pass->progress, applied.stream);
}

void cuda_pass_train(const CudaPass *pass) {
    const CudaNetPlan *plan = &pass->plan;
    cuda_pass_gradient(pass);
    if (plan->updates)
        hogwild(pass);
    else
        cuda_sgd_step(plan->weights, plan->velocity, plan->gradient, &plan->sgd, plan->spec.parameter_count,
                      plan->weights_stride, &pass->step);
}
