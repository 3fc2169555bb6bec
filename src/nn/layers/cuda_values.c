// Layers without parameters on a GPU: poolings, functions of one value, dropout, sums and joins: cuda_layer.h.
#include "cuda_layer.h"

// Poolings and functions ---------------------------------------------------------------------------------------------

static void pool_forward(const CudaPass *pass, const CudaOp *op, CudaPurpose purpose) {
    (void)purpose;
    cuda_pool_forward(op->out, op->in, op->relu, op->layer, &pass->step);
}

static void pool_backward(const CudaPass *pass, const CudaOp *op, bool steps) {
    (void)steps;
    cuda_pool_backward(op->in_gradient, op->in, op->out_gradient, op->relu, op->layer, &pass->step);
    cuda_mark(pass, CUDA_PART_BACK, op);
}

static void average_forward(const CudaPass *pass, const CudaOp *op, CudaPurpose purpose) {
    (void)purpose;
    cuda_average_forward(op->out, op->in, op->layer, &pass->step);
}

static void average_backward(const CudaPass *pass, const CudaOp *op, bool steps) {
    (void)steps;
    cuda_average_backward(op->in_gradient, op->out_gradient, op->layer, &pass->step);
    cuda_mark(pass, CUDA_PART_BACK, op);
}

static void activation_forward(const CudaPass *pass, const CudaOp *op, CudaPurpose purpose) {
    (void)purpose;
    cuda_activation_forward(op->out, op->in, op->layer, &pass->step);
}

static void activation_backward(const CudaPass *pass, const CudaOp *op, bool steps) {
    (void)steps;
    cuda_activation_backward(op->in_gradient, op->in, op->out_gradient, op->layer, &pass->step);
    cuda_mark(pass, CUDA_PART_BACK, op);
}

// In place -----------------------------------------------------------------------------------------------------------

static CudaRows rows_of(float *at, const Layer *layer, size_t first) {
    return (CudaRows){at, shape_size(layer->out), first};
}

// Layers that work in place work on a copy where other layers read their input, too.
static void bring(const CudaPass *pass, float *to, float *from, const Layer *layer) {
    if (to != from)
        cuda_add(rows_of(to, layer, 0), rows_of(from, layer, 0), shape_size(layer->out), false, &pass->step);
}

static void relu_forward(const CudaPass *pass, const CudaOp *op, CudaPurpose purpose) {
    (void)purpose;
    bring(pass, op->out, op->in, op->layer);
    cuda_relu_forward(op->out, shape_size(op->layer->out), &pass->step);
}

static void relu_backward(const CudaPass *pass, const CudaOp *op, bool steps) {
    (void)steps;
    bring(pass, op->in_gradient, op->out_gradient, op->layer);
    cuda_relu_backward(op->in_gradient, op->out, shape_size(op->layer->out), &pass->step);
    cuda_mark(pass, CUDA_PART_BACK, op);
}

static double dropout_bytes(const CudaPass *pass, const CudaOp *op) {
    const double keep = (double)pass->step.models * pass->step.samples * (double)dropout_features(op->layer);
    return cuda_values_bytes(pass, op, 2, 0) + 2 * keep;
}

static void drop(const CudaPass *pass, const CudaOp *op, float *values) {
    const size_t features = dropout_features(op->layer);
    cuda_dropout_apply(values, op->keep, op->layer->rate, features, shape_size(op->layer->in) / features, &pass->step);
}

static void dropout_forward(const CudaPass *pass, const CudaOp *op, CudaPurpose purpose) {
    bring(pass, op->out, op->in, op->layer);
    if (purpose == FOR_TESTS) return;
    const RngKey *keys = pass->progress.keys + (size_t)op->number * (size_t)pass->step.models;
    cuda_dropout_draw(op->keep, keys, pass->progress.numbers, op->layer->rate, dropout_features(op->layer),
                      &pass->step);
    drop(pass, op, op->out);
}

static void dropout_backward(const CudaPass *pass, const CudaOp *op, bool steps) {
    (void)steps;
    bring(pass, op->in_gradient, op->out_gradient, op->layer);
    drop(pass, op, op->in_gradient);
    cuda_mark(pass, CUDA_PART_BACK, op);
}

// Two inputs ---------------------------------------------------------------------------------------------------------

static double add_bytes(const CudaPass *pass, const CudaOp *op) {
    return cuda_values_bytes(pass, op, 3, 2);
}

// The other value is added to the features from `first` on, or copied there.
static void combine(const CudaPass *pass, const CudaOp *op, size_t first, bool adds) {
    const Layer *layer = op->layer;
    const size_t in = shape_size(layer->in), other = shape_size(layer->out) - first;
    cuda_add(rows_of(op->out, layer, 0), (CudaRows){op->in, in, 0}, in, false, &pass->step);
    cuda_add(rows_of(op->out, layer, first), (CudaRows){op->other, other, 0}, other, adds, &pass->step);
}

// The output's gradient is that of the input, and from feature `first` on that of the other value.
static void pass_on(const CudaPass *pass, const CudaOp *op, size_t first) {
    const Layer *layer = op->layer;
    const size_t own = shape_size(layer->in), other = shape_size(layer->out) - first;
    if (op->in_gradient && op->in_gradient != op->out_gradient)
        cuda_add((CudaRows){op->in_gradient, own, 0}, rows_of(op->out_gradient, layer, 0), own, false, &pass->step);
    if (op->other_gradient)
        cuda_add((CudaRows){op->other_gradient, other, 0}, rows_of(op->out_gradient, layer, first), other,
                 op->other_adds, &pass->step);
    cuda_mark(pass, CUDA_PART_BACK, op);
}

static void add_forward(const CudaPass *pass, const CudaOp *op, CudaPurpose purpose) {
    (void)purpose;
    combine(pass, op, 0, true);
}

static void add_backward(const CudaPass *pass, const CudaOp *op, bool steps) {
    (void)steps;
    pass_on(pass, op, 0);
}

static void concat_forward(const CudaPass *pass, const CudaOp *op, CudaPurpose purpose) {
    (void)purpose;
    combine(pass, op, shape_size(op->layer->in), false);
}

static void concat_backward(const CudaPass *pass, const CudaOp *op, bool steps) {
    (void)steps;
    pass_on(pass, op, shape_size(op->layer->in));
}

const CudaLayer cuda_pool_layer = {.traits = JOINS_RELU_BEHIND | JOINS_RELU_BEFORE,
                                   .forward = pool_forward,
                                   .backward = pool_backward,
                                   .back_in = 2,
                                   .back_out = 1};
const CudaLayer cuda_average_layer = {
    .forward = average_forward, .backward = average_backward, .back_in = 1, .back_out = 1};
const CudaLayer cuda_activation_layer = {.forward = activation_forward, .backward = activation_backward};
const CudaLayer cuda_relu_layer = {.forward = relu_forward, .backward = relu_backward};
const CudaLayer cuda_dropout_layer = {
    .traits = DROPS, .forward = dropout_forward, .backward = dropout_backward, .bytes = dropout_bytes};
const CudaLayer cuda_dropout2d_layer = {
    .traits = DROPS, .forward = dropout_forward, .backward = dropout_backward, .bytes = dropout_bytes};
const CudaLayer cuda_add_layer = {.forward = add_forward, .backward = add_backward, .bytes = add_bytes};
const CudaLayer cuda_concat_layer = {.forward = concat_forward, .backward = concat_backward};
