// Part of cuda_layer.h: layers of sequences on a GPU.
#include "cuda_layer.h"
#include "nn/cuda/cuda_pass.h"

// An embedding is the first layer, whose input is the batch's numbers as floats.
static void embedding_forward(const CudaCall *call) {
    const CudaOp *op = call->op;
    cuda_embedding_forward(op->out, op->in, call->weight, call->stride, op->layer, call->step);
}

// Whole numbers have no gradient.
static void embedding_backward(const CudaCall *call) {
    const CudaOp *op = call->op;
    if (call->gradient)
        cuda_embedding_backward(call->gradient, op->in, op->out_gradient, call->gradient_stride, op->layer, call->step);
    cuda_mark(call->pass, CUDA_PART_PARAMETERS, op);
}

static void positions_forward(const CudaCall *call) {
    const CudaOp *op = call->op;
    cuda_positions_forward(op->out, op->in, call->weight, call->stride, op->layer, call->step);
}

// The planner makes the output's gradient the input's (PASSES_GRADIENT); only the parameters are left.
static void positions_backward(const CudaCall *call) {
    const CudaOp *op = call->op;
    if (call->gradient)
        cuda_positions_backward(call->gradient, op->out_gradient, call->gradient_stride, op->layer, call->step);
    cuda_mark(call->pass, CUDA_PART_PARAMETERS, op);
}

// An lstm or a gru reads the weights of its states again at each step.
static double recurrent_bytes(const CudaPass *pass, const CudaOp *op) {
    const size_t units = (size_t)lstm_units(op->layer), again = (size_t)lstm_steps(op->layer) - 1;
    return cuda_values_bytes(pass, op, 1, 1) + cuda_lanes_bytes(pass, 2 * cuda_layer_statistics(op->layer)) +
           cuda_arrays_bytes(pass, layer_parameters(op->layer) + again * (size_t)lstm_gates(op->layer) * units * units);
}

// An attention reads its shares again, and the rows that they weigh.
static double attention_bytes(const CudaPass *pass, const CudaOp *op) {
    return cuda_values_bytes(pass, op, 1, 1) + cuda_lanes_bytes(pass, 2 * cuda_layer_statistics(op->layer)) +
           cuda_arrays_bytes(pass, layer_parameters(op->layer));
}

static void recurrent_forward(const CudaCall *call) {
    const CudaOp *op = call->op;
    cuda_recurrent_forward(op->out, op->statistics, op->in, call->weight, call->stride, op->layer, call->step);
}

// The gates' values are read and overwritten by their gradients: what the layer keeps serves one backward pass.
static void recurrent_backward(const CudaCall *call) {
    const CudaOp *op = call->op;
    cuda_recurrent_backward(call->gradient, op->in_gradient, op->statistics, op->in, op->out_gradient, call->weight,
                            call->stride, call->gradient_stride, op->layer, call->step);
    cuda_mark(call->pass, CUDA_PART_PARAMETERS, op);
}

// One weight holds both projections, in the order of PyTorch's state_dict.
static void attention_forward(const CudaCall *call) {
    const CudaOp *op = call->op;
    cuda_attention_forward(op->out, op->statistics, op->in, call->weight, call->stride, op->layer, call->step);
}

static void attention_backward(const CudaCall *call) {
    const CudaOp *op = call->op;
    cuda_attention_backward(call->gradient, op->in_gradient, op->statistics, op->in, op->out_gradient, call->weight,
                            call->stride, call->gradient_stride, op->layer, call->step);
    cuda_mark(call->pass, CUDA_PART_PARAMETERS, op);
}

const CudaLayer cuda_embedding_layer = {.forward = embedding_forward, .backward = embedding_backward};
const CudaLayer cuda_positions_layer = {
    .forward = positions_forward, .backward = positions_backward, .in = 3, .out = 2};
#define RECURRENT                                                                                                      \
    {                                                                                                                  \
        .statistics = cuda_recurrent_kept_features, .forward = recurrent_forward, .backward = recurrent_backward,      \
        .bytes = recurrent_bytes                                                                                       \
    }
const CudaLayer cuda_lstm_layer = RECURRENT, cuda_gru_layer = RECURRENT;
const CudaLayer cuda_attention_layer = {.statistics = cuda_attention_kept_features,
                                        .forward = attention_forward,
                                        .backward = attention_backward,
                                        .bytes = attention_bytes};
