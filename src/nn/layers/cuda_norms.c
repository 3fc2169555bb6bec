// Normalisation on a GPU: cuda_layer.h.
#include "cuda_layer.h"

// Both read their input in several passes.
static double norm_bytes(const CudaPass *pass, const CudaOp *op) {
    return cuda_values_bytes(pass, op, 3, 2);
}

static size_t norm_statistics(const Layer *layer) {
    return 2 * (size_t)layer->groups;
}

static void norm_forward(const CudaPass *pass, const CudaOp *op, CudaPurpose purpose) {
    (void)purpose;
    const CudaNetPlan *plan = &pass->plan;
    cuda_norm_forward(op->out, op->statistics, op->in, plan->weights + op->layer->weight,
                      plan->weights + op->layer->bias, plan->weights_stride, op->layer, &pass->step);
}

static void norm_backward(const CudaPass *pass, const CudaOp *op, bool steps) {
    (void)steps;
    const CudaNetPlan *plan = &pass->plan;
    const Layer *layer = op->layer;
    if (op->in_gradient) {
        cuda_norm_backward_input(op->in_gradient, op->statistics, op->in, op->out_gradient,
                                 plan->weights + layer->weight, plan->weights_stride, layer, &pass->step);
        cuda_mark(pass, CUDA_PART_INPUT, op);
    }
    if (layer->frozen) return;
    cuda_norm_backward_weight(plan->gradient + layer->weight, plan->gradient + layer->bias, op->statistics, op->in,
                              op->out_gradient, plan->spec.parameter_count, layer, &pass->step);
    cuda_mark(pass, CUDA_PART_SLOPES, op);
}

// Four of each channel: there are as many columns, or more.
static size_t batch_norm_statistics(const Layer *layer) {
    return (size_t)layer->in.channels;
}

// A batch that is for a step moves what is not frozen of the running statistics, too: none is read before the next.
static void batch_norm_forward(const CudaPass *pass, const CudaOp *op, CudaPurpose purpose) {
    const CudaNetPlan *plan = &pass->plan;
    const Layer *layer = op->layer;
    float *running[2]; // means and variances
    for (size_t i = 0; i < 2; i++) {
        const size_t first = layer->bias + (1 + i) * norm_weights(layer);
        running[i] = purpose == FOR_STEP && !spec_freezes_at(&plan->spec, first) ? plan->weights + first : NULL;
    }
    cuda_batch_norm_forward(op->out, op->statistics, running[0], running[1], op->in, plan->weights + layer->weight,
                            plan->weights_stride, purpose != FOR_TESTS, layer, &pass->step);
}

static void batch_norm_backward(const CudaPass *pass, const CudaOp *op, bool steps) {
    (void)steps;
    const CudaNetPlan *plan = &pass->plan;
    const Layer *layer = op->layer;
    cuda_batch_norm_backward_weight(layer->frozen ? NULL : plan->gradient + layer->weight, op->statistics, op->in,
                                    op->out_gradient, plan->spec.parameter_count, layer, &pass->step);
    cuda_mark(pass, CUDA_PART_SLOPES, op);
    if (!op->in_gradient) return;
    cuda_batch_norm_backward_input(op->in_gradient, op->statistics, op->in, op->out_gradient,
                                   plan->weights + layer->weight, plan->weights_stride, layer, &pass->step);
    cuda_mark(pass, CUDA_PART_INPUT, op);
}

const CudaLayer cuda_norm_layer = {
    .statistics = norm_statistics, .forward = norm_forward, .backward = norm_backward, .bytes = norm_bytes};
const CudaLayer cuda_batch_norm_layer = {.statistics = batch_norm_statistics,
                                         .forward = batch_norm_forward,
                                         .backward = batch_norm_backward,
                                         .bytes = norm_bytes};
