// Layers of sequences on a GPU: cuda_layer.h.
#include "cuda_layer.h"

static const float *weight_of(const CudaPass *pass, const CudaOp *op) {
    return pass->plan.weights + op->layer->weight;
}

// NULL: the layer is frozen.
static float *gradient_of(const CudaPass *pass, const CudaOp *op) {
    return op->layer->frozen ? NULL : pass->plan.gradient + op->layer->weight;
}

static void embedding_forward(const CudaPass *pass, const CudaOp *op, CudaPurpose purpose) {
    (void)purpose;
    cuda_embedding_forward(op->out, op->in, weight_of(pass, op), pass->plan.weights_stride, op->layer, &pass->step);
}

// Whole numbers have no gradient.
static void embedding_backward(const CudaPass *pass, const CudaOp *op, bool steps) {
    (void)steps;
    float *gradient = gradient_of(pass, op);
    if (gradient)
        cuda_embedding_backward(gradient, op->in, op->out_gradient, pass->plan.spec.parameter_count, op->layer,
                                &pass->step);
    cuda_mark(pass, CUDA_PART_SLOPES, op);
}

static double positions_bytes(const CudaPass *pass, const CudaOp *op) {
    return cuda_values_bytes(pass, op, 3, 2);
}

static void positions_forward(const CudaPass *pass, const CudaOp *op, CudaPurpose purpose) {
    (void)purpose;
    cuda_positions_forward(op->out, op->in, weight_of(pass, op), pass->plan.weights_stride, op->layer, &pass->step);
}

static void positions_backward(const CudaPass *pass, const CudaOp *op, bool steps) {
    (void)steps;
    float *gradient = gradient_of(pass, op);
    if (gradient)
        cuda_positions_backward(gradient, op->out_gradient, pass->plan.spec.parameter_count, op->layer, &pass->step);
    cuda_mark(pass, CUDA_PART_SLOPES, op);
}

// An lstm's weights are read again at each step; an attention's shares, and the rows that they are of.
static double recurrent_bytes(const CudaPass *pass, const CudaOp *op) {
    return cuda_values_bytes(pass, op, 1, 1) + cuda_lanes_bytes(pass, 2 * cuda_layer_statistics(op->layer)) +
           lstm_steps(op->layer) * cuda_arrays_bytes(pass, layer_parameters(op->layer));
}

static void lstm_forward(const CudaPass *pass, const CudaOp *op, CudaPurpose purpose) {
    (void)purpose;
    cuda_lstm_forward(op->out, op->statistics, op->in, weight_of(pass, op), pass->plan.weights_stride, op->layer,
                      pass->blas, &pass->step);
}

static void lstm_backward(const CudaPass *pass, const CudaOp *op, bool steps) {
    (void)steps;
    cuda_lstm_backward(gradient_of(pass, op), op->in_gradient, op->statistics, op->in, op->out_gradient,
                       weight_of(pass, op), pass->plan.weights_stride, pass->plan.spec.parameter_count, op->layer,
                       pass->blas, &pass->step);
    cuda_mark(pass, CUDA_PART_SLOPES, op);
}

static void attention_forward(const CudaPass *pass, const CudaOp *op, CudaPurpose purpose) {
    (void)purpose;
    cuda_attention_forward(op->out, op->statistics, op->in, weight_of(pass, op), pass->plan.weights_stride, op->layer,
                           pass->blas, &pass->step);
}

static void attention_backward(const CudaPass *pass, const CudaOp *op, bool steps) {
    (void)steps;
    cuda_attention_backward(gradient_of(pass, op), op->in_gradient, op->statistics, op->in, op->out_gradient,
                            weight_of(pass, op), pass->plan.weights_stride, pass->plan.spec.parameter_count, op->layer,
                            pass->blas, &pass->step);
    cuda_mark(pass, CUDA_PART_SLOPES, op);
}

const CudaLayer cuda_embedding_layer = {.forward = embedding_forward, .backward = embedding_backward};
const CudaLayer cuda_positions_layer = {
    .forward = positions_forward, .backward = positions_backward, .bytes = positions_bytes};
const CudaLayer cuda_lstm_layer = {.statistics = cuda_lstm_kept_features,
                                   .forward = lstm_forward,
                                   .backward = lstm_backward,
                                   .bytes = recurrent_bytes};
const CudaLayer cuda_attention_layer = {.statistics = cuda_attention_kept_features,
                                        .forward = attention_forward,
                                        .backward = attention_backward,
                                        .bytes = recurrent_bytes};
