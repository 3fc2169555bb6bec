// Part of cuda_layer.h: poolings, functions of one value, dropout, sums and joins on a GPU.
#include "cuda_layer.h"
#include "nn/cuda/cuda_pass.h"
#include "pick.h"
#include "swap.h"

// Poolings and functions ---------------------------------------------------------------------------------------------

// Max pooling takes the relu beside it into its own pass (op->relu); the average does not, as a sum does not commute
// with max(0, .).
static void pool_forward(const CudaCall *call) {
    const CudaOp *op = call->op;
    cuda_pool_forward(op->out, op->in, op->relu, op->layer, call->step);
}

static void pool_backward(const CudaCall *call) {
    const CudaOp *op = call->op;
    cuda_pool_backward(op->in_gradient, op->in, op->out_gradient, op->relu, op->layer, call->step);
    cuda_mark(call->pass, CUDA_PART_BACK, op);
}

// An average is linear: its backward pass reads no values.
static void average_forward(const CudaCall *call) {
    const CudaOp *op = call->op;
    cuda_average_forward(op->out, op->in, op->layer, call->step);
}

static void average_backward(const CudaCall *call) {
    const CudaOp *op = call->op;
    cuda_average_backward(op->in_gradient, op->out_gradient, op->layer, call->step);
    cuda_mark(call->pass, CUDA_PART_BACK, op);
}

// One row of an average's window, or all of them (pick.c): no kernel of its own.
static void pick_forward(const CudaCall *call) {
    const CudaOp *op = call->op;
    const Layer average = pick_as_average(op->layer);
    cuda_average_forward(op->out, op->in, &average, call->step);
}

static void pick_backward(const CudaCall *call) {
    const CudaOp *op = call->op;
    const Layer average = pick_as_average(op->layer);
    cuda_average_backward(op->in_gradient, op->out_gradient, &average, call->step);
    cuda_mark(call->pass, CUDA_PART_BACK, op);
}

static void swap_forward(const CudaCall *call) {
    const SwapSizes of = swap_sizes(call->op->layer);
    cuda_swap(call->op->out, call->op->in, of.first, of.second, of.plane, call->step);
}

// The inverse of an exchange of axes is the exchange of the sizes.
static void swap_backward(const CudaCall *call) {
    const CudaOp *op = call->op;
    const SwapSizes of = swap_sizes(op->layer);
    cuda_swap(op->in_gradient, op->out_gradient, of.second, of.first, of.plane, call->step);
    cuda_mark(call->pass, CUDA_PART_BACK, op);
}

static void activation_forward(const CudaCall *call) {
    const CudaOp *op = call->op;
    cuda_activation_forward(op->out, op->in, op->layer, call->step);
}

static void activation_backward(const CudaCall *call) {
    const CudaOp *op = call->op;
    cuda_activation_backward(op->in_gradient, op->in, op->out_gradient, op->layer, call->step);
    cuda_mark(call->pass, CUDA_PART_BACK, op);
}

static void prelu_forward(const CudaCall *call) {
    const CudaOp *op = call->op;
    cuda_prelu_forward(op->out, op->in, call->weight, call->stride, op->layer, call->step);
}

// Frozen slopes still pass the gradient on; those of a net's first layer have no input to pass it to.
static void prelu_backward(const CudaCall *call) {
    const CudaOp *op = call->op;
    if (op->in_gradient) {
        cuda_prelu_backward_input(op->in_gradient, op->in, op->out_gradient, call->weight, call->stride, op->layer,
                                  call->step);
        cuda_mark(call->pass, CUDA_PART_INPUT, op);
    }
    if (!call->gradient) return;
    cuda_prelu_backward_weight(call->gradient, op->in, op->out_gradient, call->gradient_stride, op->layer, call->step);
    cuda_mark(call->pass, CUDA_PART_PARAMETERS, op);
}

// In place -----------------------------------------------------------------------------------------------------------

// The features of a layer's output, from `first` on, in the tensors of all models.
static CudaRows rows_of(float *at, const Layer *layer, size_t first) {
    return (CudaRows){at, shape_size(layer->out), first};
}

// If another layer also reads the input, a layer that works in place works on a copy.
static void bring(const CudaCall *call, float *to, float *from, const Layer *layer) {
    if (to != from) cuda_add(rows_of(to, layer, 0), rows_of(from, layer, 0), shape_size(layer->out), false, call->step);
}

// Only a relu that no neighbour has taken becomes an op of its own.
static void relu_forward(const CudaCall *call) {
    const CudaOp *op = call->op;
    bring(call, op->out, op->in, op->layer);
    cuda_relu_forward(op->out, shape_size(op->layer->out), call->step);
}

static void relu_backward(const CudaCall *call) {
    const CudaOp *op = call->op;
    bring(call, op->in_gradient, op->out_gradient, op->layer);
    cuda_relu_backward(op->in_gradient, op->out, shape_size(op->layer->out), call->step);
    cuda_mark(call->pass, CUDA_PART_BACK, op);
}

// The mask is a byte per feature, which is written here and read by the backward pass.
static double dropout_bytes(const CudaPass *pass, const CudaOp *op) {
    const double keep = (double)pass->step.models * pass->step.samples * (double)dropout_features(op->layer);
    return cuda_values_bytes(pass, op, 1, 1) + keep;
}

// A look at the gradient drops nothing, but its backward pass reads the mask.
static float rate_of(const CudaCall *call) {
    return call->purpose == FOR_LOOK ? 0 : call->op->layer->rate;
}

// The mask is drawn on the GPU from the keys of the models' tasks: the host sends no random numbers. A pass for tests
// drops nothing.
static void dropout_forward(const CudaCall *call) {
    const CudaOp *op = call->op;
    const Layer *layer = op->layer;
    const size_t features = dropout_features(layer);
    if (call->purpose == FOR_TESTS) return bring(call, op->out, op->in, layer);
    const RngKey *keys = call->pass->progress.keys + (size_t)op->number * (size_t)call->step->models;
    cuda_dropout_forward(op->out, op->keep, op->in, keys, call->pass->progress.numbers, rate_of(call), features,
                         shape_size(layer->in) / features, call->step);
}

// The value over a relu's output is positive where that is, unless it was dropped.
static void dropout_backward(const CudaCall *call) {
    const CudaOp *op = call->op;
    const Layer *layer = op->layer;
    const size_t features = dropout_features(layer);
    cuda_dropout_backward(op->in_gradient, op->keep, op->out_gradient, op->relu_before ? op->out : NULL, rate_of(call),
                          features, shape_size(layer->in) / features, call->step);
    cuda_mark(call->pass, CUDA_PART_BACK, op);
}

// Two inputs ---------------------------------------------------------------------------------------------------------

// The output's gradient is the input's gradient, and from feature `first` on the second input's gradient.
static void pass_on(const CudaCall *call, size_t first) {
    const CudaOp *op = call->op;
    const Layer *layer = op->layer;
    const size_t own = shape_size(layer->in), other = shape_size(layer->out) - first;
    if (op->in_gradient && op->in_gradient != op->out_gradient)
        cuda_add((CudaRows){op->in_gradient, own, 0}, rows_of(op->out_gradient, layer, 0), own, false, call->step);
    if (op->other_gradient)
        cuda_add((CudaRows){op->other_gradient, other, 0}, rows_of(op->out_gradient, layer, first), other,
                 op->other_adds, call->step);
    cuda_mark(call->pass, CUDA_PART_BACK, op);
}

static void add_forward(const CudaCall *call) {
    const CudaOp *op = call->op;
    cuda_sum_forward(op->out, op->in, op->other, op->relu, shape_size(op->layer->out), call->step);
}

// A relu in the op stops the gradient in place (PASSES_GRADIENT: the output's gradient is then the input's).
static void add_backward(const CudaCall *call) {
    const CudaOp *op = call->op;
    if (!op->relu || op->relu_is_left) return pass_on(call, 0);
    cuda_sum_backward(op->out_gradient, op->other_gradient, op->other_adds, op->out, shape_size(op->layer->out),
                      call->step);
    cuda_mark(call->pass, CUDA_PART_BACK, op);
}

static void mul_forward(const CudaCall *call) {
    const CudaOp *op = call->op;
    const Layer *layer = op->layer;
    cuda_mul_forward(op->out, op->in, op->other, shape_size(layer->in), (size_t)layer->groups, shape_size(layer->out),
                     call->step);
}

// Each factor's gradient reads the other factor, so that neither may be overwritten before both are done.
static void mul_backward(const CudaCall *call) {
    const CudaOp *op = call->op;
    const Layer *layer = op->layer;
    const size_t in = shape_size(layer->in), other = (size_t)layer->groups, out = shape_size(layer->out);
    if (op->in_gradient)
        cuda_mul_backward(op->in_gradient, false, op->other, op->out_gradient, in, other, out, call->step);
    if (op->other_gradient)
        cuda_mul_backward(op->other_gradient, op->other_adds, op->in, op->out_gradient, other, in, out, call->step);
    cuda_mark(call->pass, CUDA_PART_BACK, op);
}

// Channels are the outermost axis of a model's tensor, so that the second input follows the first without gaps.
static void concat_forward(const CudaCall *call) {
    const CudaOp *op = call->op;
    const Layer *layer = op->layer;
    const size_t in = shape_size(layer->in), other = shape_size(layer->out) - in;
    cuda_add(rows_of(op->out, layer, 0), (CudaRows){op->in, in, 0}, in, false, call->step);
    cuda_add(rows_of(op->out, layer, in), (CudaRows){op->other, other, 0}, other, false, call->step);
}

static void concat_backward(const CudaCall *call) {
    pass_on(call, shape_size(call->op->layer->in));
}

// Bytes of the backward passes: pooling reads its input, writes the input's gradient and reads the output's; an average
// does not read its input; the others read and write three tensors of one size.
const CudaLayer cuda_pool_layer = {.traits = JOINS_RELU_BEHIND | JOINS_RELU_BEFORE,
                                   .forward = pool_forward,
                                   .backward = pool_backward,
                                   .back_in = 2,
                                   .back_out = 1};
const CudaLayer cuda_average_layer = {
    .forward = average_forward, .backward = average_backward, .back_in = 1, .back_out = 1};
const CudaLayer cuda_pick_layer = {.forward = pick_forward, .backward = pick_backward, .back_in = 1, .back_out = 1};
const CudaLayer cuda_swap_layer = {.forward = swap_forward, .backward = swap_backward, .back_in = 1, .back_out = 1};
const CudaLayer cuda_activation_layer = {.forward = activation_forward, .backward = activation_backward};
const CudaLayer cuda_prelu_layer = {.forward = prelu_forward, .backward = prelu_backward};
const CudaLayer cuda_relu_layer = {.forward = relu_forward, .backward = relu_backward};
const CudaLayer cuda_dropout_layer = {.traits = DROPS | ENDS_RELU_BEFORE,
                                      .forward = dropout_forward,
                                      .backward = dropout_backward,
                                      .bytes = dropout_bytes};
const CudaLayer cuda_add_layer = {
    .traits = JOINS_RELU_BEHIND | READS_RELU_OUTPUT, .forward = add_forward, .backward = add_backward, .in = 2};
const CudaLayer cuda_mul_layer = {.forward = mul_forward, .backward = mul_backward, .in = 2};
const CudaLayer cuda_concat_layer = {.forward = concat_forward, .backward = concat_backward};
