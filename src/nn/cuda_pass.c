#include "cuda_pass.h"

#include "nn/buffers.h"

// For who looks at a step part by part; nobody does in a run.
static void mark(const CudaPass *pass, CudaPart part, const CudaOp *op) {
    if (pass->mark) pass->mark(pass->mark_context, part, op);
}

static void drop(const CudaPass *pass, const CudaOp *op, float *values) {
    size_t features = dropout_features(op->layer);
    cuda_dropout_apply(values, op->keep, op->layer->rate, features, shape_size(op->layer->in) / features, &pass->step);
}

static void drop_forward(const CudaPass *pass, const CudaOp *op) {
    const RngKey *keys = pass->progress.keys + (size_t)op->number * (size_t)pass->step.models;
    cuda_dropout_draw(op->keep, keys, pass->progress.numbers, op->layer->rate, dropout_features(op->layer),
                      &pass->step);
    drop(pass, op, op->out);
}

static void forward(const CudaPass *pass, bool training) {
    const CudaNetPlan *plan = &pass->plan;
    const CudaStep *step = &pass->step;
    cuda_gather(pass->ops.ops[0].in, plan->pixels, plan->order, &pass->progress, pass->scale, pass->shift,
                plan->spec.input, training && augment_is_on(&plan->spec.augment) ? &plan->spec.augment : NULL, step);
    mark(pass, CUDA_PART_GATHER, NULL);
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
        case LAYER_AVERAGE:
            cuda_average_forward(op->out, op->in, layer, step);
            break;
        case LAYER_ACTIVATION:
            cuda_activation_forward(op->out, op->in, layer, step);
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
        mark(pass, CUDA_PART_FORWARD, op);
    }
}

static void loss(const CudaPass *pass, float *gradient) {
    const CudaNetPlan *plan = &pass->plan;
    cuda_softmax_cross_entropy(gradient, &pass->progress, pass->ops.logits, plan->labels, plan->order,
                               plan->spec.classes, &pass->step);
    mark(pass, CUDA_PART_LOSS, NULL);
}

static CudaDescent descent_of(const CudaPass *pass) {
    const CudaNetPlan *plan = &pass->plan;
    return (CudaDescent){.weights = plan->weights,
                         .velocity = plan->velocity,
                         .stride = plan->weights_stride,
                         .parameters = plan->spec.parameter_count,
                         .lr = pass->lr,
                         .sgd = plan->sgd,
                         .shifts = plan->slope_shifts,
                         .pulls = plan->pulls};
}

// From so many samples on cuBLAS's product and a step of its own are the faster way.
enum { MOST_STEPPED_SAMPLES = 128 };

// Whether the way back moves a linear layer's weights as soon as it knows their slopes.
static bool steps_linear_layers(const CudaPass *pass) {
    return !pass->plan.updates && !pass->plan.slope_shifts && pass->step.samples <= MOST_STEPPED_SAMPLES;
}

static void linear_backward(const CudaPass *pass, const CudaOp *op, bool steps) {
    const CudaNetPlan *plan = &pass->plan;
    const Layer *layer = op->layer;
    if (op->relu) {
        cuda_relu_backward(op->out_gradient, op->out, shape_size(layer->out), &pass->step);
        mark(pass, CUDA_PART_BACK, op);
    }
    if (op->in_gradient) {
        cuda_linear_backward_input(op->in_gradient, op->out_gradient, plan->weights + layer->weight,
                                   plan->weights_stride, layer, pass->blas, &pass->step);
        mark(pass, CUDA_PART_INPUT, op);
    }
    const CudaDescent descent = descent_of(pass);
    if (steps)
        cuda_linear_step(&descent, op->in, op->out_gradient, layer, &pass->step);
    else
        cuda_linear_backward_weight(plan->gradient + layer->weight, plan->gradient + layer->bias, op->in,
                                    op->out_gradient, plan->spec.parameter_count, layer, pass->blas, &pass->step);
    mark(pass, steps ? CUDA_PART_SLOPES_AND_STEP : CUDA_PART_SLOPES, op);
}

static void conv_backward(const CudaPass *pass, const CudaOp *op) {
    const CudaNetPlan *plan = &pass->plan;
    const Layer *layer = op->layer;
    if (op->in_gradient) {
        cuda_conv_backward_input(op->in_gradient, op->out_gradient, plan->weights + layer->weight, plan->weights_stride,
                                 layer, &pass->step);
        mark(pass, CUDA_PART_INPUT, op);
    }
    cuda_conv_backward_weight(plan->gradient + layer->weight, plan->gradient + layer->bias, pass->ops.scratch, op->in,
                              op->out_gradient, plan->spec.parameter_count, layer, &pass->step);
    mark(pass, CUDA_PART_SLOPES, op);
}

// From the logits' gradient back to the first op with parameters, whose input gradient nobody needs. With `steps`,
// linear layers make their step of SGD on the way.
static void backward(const CudaPass *pass, bool steps) {
    for (int i = pass->ops.count - 1; i >= pass->ops.first; i--) {
        const CudaOp *op = &pass->ops.ops[i];
        switch (op->layer->kind) {
        case LAYER_CONV:
            conv_backward(pass, op);
            continue;
        case LAYER_LINEAR:
            linear_backward(pass, op, steps);
            continue;
        case LAYER_POOL:
            cuda_pool_backward(op->in_gradient, op->in, op->out_gradient, op->relu, op->layer, &pass->step);
            break;
        case LAYER_AVERAGE:
            cuda_average_backward(op->in_gradient, op->out_gradient, op->layer, &pass->step);
            break;
        case LAYER_ACTIVATION:
            cuda_activation_backward(op->in_gradient, op->in, op->out_gradient, op->layer, &pass->step);
            break;
        case LAYER_RELU:
            cuda_relu_backward(op->out_gradient, op->out, shape_size(op->layer->out), &pass->step);
            break;
        case LAYER_DROPOUT:
        case LAYER_DROPOUT2D:
            drop(pass, op, op->out_gradient);
            break;
        }
        mark(pass, CUDA_PART_BACK, op);
    }
}

void cuda_pass_evaluate(const CudaPass *pass) {
    forward(pass, false);
    loss(pass, NULL);
}

static void forward_and_back(const CudaPass *pass, bool steps) {
    forward(pass, true);
    loss(pass, pass->ops.logits_gradient);
    backward(pass, steps);
}

void cuda_pass_gradient(const CudaPass *pass) {
    forward_and_back(pass, false);
}

// The step is refused on the card, by a count of zero: to SGD the model is then idle.
static void hogwild(const CudaPass *pass) {
    const CudaNetPlan *plan = &pass->plan;
    const CudaDescent descent = descent_of(pass);
    size_t count = plan->spec.parameter_count;
    CudaStep applied = pass->step;
    applied.counts = pass->progress.applied;
    cuda_progress_judge(&pass->progress, plan->gradient, count, applied.stream);
    if (plan->atomic_updates)
        cuda_sgd_step_atomically(&descent, plan->gradient, 0, count, &applied);
    else
        cuda_sgd_step(&descent, plan->gradient, 0, count, &applied);
    cuda_progress_count(&pass->progress, applied.stream);
}

// The step of the convolutions' parameters, one launch for each run of neighbours: linear layers have made theirs.
static void step_convolutions(const CudaPass *pass, const CudaDescent *descent) {
    const CudaNetPlan *plan = &pass->plan;
    size_t first = 0, end = 0;
    for (int i = 0; i < pass->ops.count; i++) {
        const Layer *layer = pass->ops.ops[i].layer;
        if (layer->kind != LAYER_CONV) continue;
        if (layer->weight != end && end > first)
            cuda_sgd_step(descent, plan->gradient, first, end - first, &pass->step);
        if (layer->weight != end) first = layer->weight;
        end = layer->weight + conv_parameters(layer);
    }
    if (end > first) cuda_sgd_step(descent, plan->gradient, first, end - first, &pass->step);
}

void cuda_pass_train(const CudaPass *pass) {
    const CudaNetPlan *plan = &pass->plan;
    const CudaDescent descent = descent_of(pass);
    bool steps = steps_linear_layers(pass);
    forward_and_back(pass, steps);
    if (plan->updates)
        hogwild(pass);
    else if (steps)
        step_convolutions(pass, &descent);
    else
        cuda_sgd_step(&descent, plan->gradient, 0, plan->spec.parameter_count, &pass->step);
    mark(pass, CUDA_PART_STEP, NULL);
}
