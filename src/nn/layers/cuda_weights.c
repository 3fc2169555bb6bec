// Convolutions and fully connected layers on a GPU: cuda_layer.h.
#include "cuda_layer.h"

static double conv_bytes(const CudaPass *pass, const CudaOp *op) {
    return cuda_values_bytes(pass, op, 1, 1) + cuda_arrays_bytes(pass, layer_parameters(op->layer));
}

static void conv_forward(const CudaPass *pass, const CudaOp *op, CudaPurpose purpose) {
    (void)purpose;
    const CudaNetPlan *plan = &pass->plan;
    cuda_conv_forward(op->out, op->in, plan->weights + op->layer->weight, plan->weights + op->layer->bias,
                      plan->weights_stride, op->layer, &pass->step);
}

static void conv_backward(const CudaPass *pass, const CudaOp *op, bool steps) {
    (void)steps;
    const CudaNetPlan *plan = &pass->plan;
    const Layer *layer = op->layer;
    if (op->in_gradient) {
        cuda_conv_backward_input(op->in_gradient, op->out_gradient, plan->weights + layer->weight, plan->weights_stride,
                                 layer, &pass->step);
        cuda_mark(pass, CUDA_PART_INPUT, op);
    }
    if (layer->frozen) return;
    cuda_conv_backward_weight(plan->gradient + layer->weight, plan->gradient + layer->bias, pass->ops.scratch, op->in,
                              op->out_gradient, plan->spec.parameter_count, layer, &pass->step);
    cuda_mark(pass, CUDA_PART_SLOPES, op);
}

// The bias is added afterwards.
static double linear_bytes(const CudaPass *pass, const CudaOp *op) {
    return cuda_values_bytes(pass, op, 1, 3) + cuda_arrays_bytes(pass, layer_parameters(op->layer));
}

static void linear_forward(const CudaPass *pass, const CudaOp *op, CudaPurpose purpose) {
    (void)purpose;
    const CudaNetPlan *plan = &pass->plan;
    cuda_linear_forward(op->out, op->in, plan->weights + op->layer->weight, plan->weights + op->layer->bias,
                        plan->weights_stride, op->relu, op->layer, pass->blas, &pass->step);
}

static void linear_backward(const CudaPass *pass, const CudaOp *op, bool steps) {
    const CudaNetPlan *plan = &pass->plan;
    const Layer *layer = op->layer;
    if (op->relu) {
        cuda_relu_backward(op->out_gradient, op->out, shape_size(layer->out), &pass->step);
        cuda_mark(pass, CUDA_PART_BACK, op);
    }
    if (op->in_gradient) {
        cuda_linear_backward_input(op->in_gradient, op->out_gradient, plan->weights + layer->weight,
                                   plan->weights_stride, layer, pass->blas, &pass->step);
        cuda_mark(pass, CUDA_PART_INPUT, op);
    }
    if (layer->frozen) return;
    const CudaDescent descent = cuda_pass_descent(pass);
    const bool now = steps && cuda_pass_steps_early(pass, layer);
    if (now)
        cuda_linear_step(&descent, op->in, op->out_gradient, layer, &pass->step);
    else
        cuda_linear_backward_weight(plan->gradient + layer->weight, plan->gradient + layer->bias, op->in,
                                    op->out_gradient, plan->spec.parameter_count, layer, pass->blas, &pass->step);
    cuda_mark(pass, now ? CUDA_PART_SLOPES_AND_STEP : CUDA_PART_SLOPES, op);
}

const CudaLayer cuda_conv_layer = {
    .scratch = cuda_conv_scratch_floats, .forward = conv_forward, .backward = conv_backward, .bytes = conv_bytes};
const CudaLayer cuda_linear_layer = {.traits = JOINS_RELU_BEHIND | READS_RELU_OUTPUT,
                                     .forward = linear_forward,
                                     .backward = linear_backward,
                                     .bytes = linear_bytes};
const CudaLayer cuda_linear_each_layer = {.traits = JOINS_RELU_BEHIND | READS_RELU_OUTPUT,
                                          .forward = linear_forward,
                                          .backward = linear_backward,
                                          .bytes = linear_bytes};
