// Part of cuda_layer.h: convolutions and fully connected layers on a GPU.
#include "cuda_layer.h"
#include "nn/cuda/cuda_pass.h"

static double conv_bytes(const CudaPass *pass, const CudaOp *op) {
    return cuda_values_bytes(pass, op, 1, 1) + cuda_arrays_bytes(pass, layer_parameters(op->layer));
}

// A bias is added by the product's own launch, since the sums are in registers there.
static void conv_forward(const CudaCall *call) {
    const CudaOp *op = call->op;
    cuda_conv_forward(op->out, op->in, call->weight, op->layer->nobias ? NULL : call->bias, call->stride, op->layer,
                      call->step);
}

// A frozen layer still passes the gradient on.
static void conv_backward(const CudaCall *call) {
    const CudaOp *op = call->op;
    const Layer *layer = op->layer;
    if (op->in_gradient) {
        cuda_conv_backward_input(op->in_gradient, op->adds, op->out_gradient, call->weight, call->stride, layer,
                                 call->step);
        cuda_mark(call->pass, CUDA_PART_INPUT, op);
    }
    if (!call->gradient) return;
    cuda_conv_backward_weight(call->gradient, layer->nobias ? NULL : call->bias_gradient, call->pass->ops.scratch,
                              op->in, op->out_gradient, call->gradient_stride, layer, call->step);
    cuda_mark(call->pass, CUDA_PART_PARAMETERS, op);
}

// Behind cuBLAS's product the bias is added by a pass of its own, which reads and writes the output once more.
static double linear_bytes(const CudaPass *pass, const CudaOp *op) {
    return cuda_values_bytes(pass, op, 1, pass->blas ? 3 : 1) + cuda_arrays_bytes(pass, layer_parameters(op->layer));
}

static void linear_forward(const CudaCall *call) {
    const CudaOp *op = call->op;
    cuda_linear_forward(op->out, op->in, call->weight, op->layer->nobias ? NULL : call->bias, call->stride, op->relu,
                        op->layer, call->pass->blas, call->step);
}

// First the backward pass of the op's relu, in place in the output's gradient, unless the next op has included it.
static void linear_backward(const CudaCall *call) {
    const CudaOp *op = call->op;
    const Layer *layer = op->layer;
    if (op->relu && !op->relu_is_left) {
        cuda_relu_backward(op->out_gradient, op->out, shape_size(layer->out), call->step);
        cuda_mark(call->pass, CUDA_PART_BACK, op);
    }
    if (op->in_gradient) {
        cuda_linear_backward_input(op->in_gradient, op->out_gradient, op->relu_before ? op->in : NULL, call->weight,
                                   call->stride, layer, call->pass->blas, call->step);
        cuda_mark(call->pass, CUDA_PART_INPUT, op);
    }
    if (!call->gradient || call->steps) return;
    cuda_linear_backward_weight(call->gradient, call->bias_gradient, op->in, op->out_gradient, call->gradient_stride,
                                layer, call->pass->blas, call->step);
    cuda_mark(call->pass, CUDA_PART_PARAMETERS, op);
}

const CudaLayer cuda_conv_layer = {.traits = ADDS_TO_GRADIENT,
                                   .scratch = cuda_conv_scratch_floats,
                                   .forward = conv_forward,
                                   .backward = conv_backward,
                                   .bytes = conv_bytes};
const CudaLayer cuda_linear_layer = {.traits = JOINS_RELU_BEHIND | READS_RELU_OUTPUT | ENDS_RELU_BEFORE,
                                     .forward = linear_forward,
                                     .backward = linear_backward,
                                     .bytes = linear_bytes,
                                     .back_out = 2};
const CudaLayer cuda_linear_each_layer = {.traits = JOINS_RELU_BEHIND | READS_RELU_OUTPUT | ENDS_RELU_BEFORE,
                                          .forward = linear_forward,
                                          .backward = linear_backward,
                                          .bytes = linear_bytes,
                                          .back_out = 2};
