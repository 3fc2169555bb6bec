// Part of cuda_layer.h: normalisation on a GPU.
#include "cuda_layer.h"
#include "nn/cuda/cuda_pass.h"

// A mean and a factor for each group and column.
static size_t norm_statistics(const Layer *layer) {
    return 2 * (size_t)layer->groups;
}

static void norm_forward(const CudaCall *call) {
    const CudaOp *op = call->op;
    cuda_norm_forward(op->out, op->statistics, op->in, call->weight, call->bias, call->stride, op->relu, op->layer,
                      call->step);
}

static void back(const CudaCall *call, CudaPart part, float *gradient, float *in_gradient) {
    const CudaOp *op = call->op;
    cuda_norm_backward(gradient, call->bias_gradient, in_gradient, op->statistics, op->in, op->out_gradient,
                       call->weight, call->bias, call->stride, call->gradient_stride, op->relu, op->layer, call->step);
    cuda_mark(call->pass, part, op);
}

// The input's gradient and the weight's are sums over different values, within a sample and over the samples, so they
// can be two kernels; both read the statistics of the forward pass.
static void norm_backward(const CudaCall *call) {
    const CudaOp *op = call->op;
    if (op->in_gradient && call->gradient && cuda_norm_backs_at_once(op->layer, call->step))
        return back(call, CUDA_PART_BACK, call->gradient, op->in_gradient);
    if (op->in_gradient) back(call, CUDA_PART_INPUT, NULL, op->in_gradient);
    if (call->gradient) back(call, CUDA_PART_PARAMETERS, call->gradient, NULL);
}

// Four floats per channel. They fit in a float per channel and column, as a model has at least four columns.
static size_t batch_norm_statistics(const Layer *layer) {
    return (size_t)layer->in.channels;
}

// In a step the batch moves the running statistics at once, unless they are frozen: no op reads them before the next
// step.
static void batch_norm_forward(const CudaCall *call) {
    const CudaOp *op = call->op;
    const Layer *layer = op->layer;
    float *running[2]; // means and variances
    for (size_t i = 0; i < 2; i++) {
        const size_t first = layer->bias + (1 + i) * norm_weights(layer);
        running[i] = call->purpose == FOR_STEP && !spec_freezes_at(&call->pass->plan.spec, first)
                         ? call->pass->plan.weights + first
                         : NULL;
    }
    cuda_batch_norm_forward(op->out, op->statistics, running[0], running[1], op->in, call->weight, call->stride,
                            call->purpose != FOR_TESTS, op->relu, layer, call->step);
}

// The weight's kernel comes first even if the layer is frozen: it computes the means that the input's gradient needs.
static void batch_norm_backward(const CudaCall *call) {
    const CudaOp *op = call->op;
    const Layer *layer = op->layer;
    cuda_batch_norm_backward_weight(call->gradient, op->statistics, op->in, op->out_gradient, call->weight,
                                    call->stride, call->gradient_stride, op->relu, layer, call->step);
    cuda_mark(call->pass, CUDA_PART_PARAMETERS, op);
    if (!op->in_gradient) return;
    cuda_batch_norm_backward_input(op->in_gradient, op->statistics, op->in, op->out_gradient, call->weight,
                                   call->stride, op->relu, layer, call->step);
    cuda_mark(call->pass, CUDA_PART_INPUT, op);
}

// A batch norm's values are read by the kernel of the statistics, too.
const CudaLayer cuda_norm_layer = {.traits = JOINS_RELU_BEHIND,
                                   .statistics = norm_statistics,
                                   .forward = norm_forward,
                                   .backward = norm_backward,
                                   .back_in = 2,
                                   .back_out = 1};
const CudaLayer cuda_batch_norm_layer = {.traits = JOINS_RELU_BEHIND,
                                         .statistics = batch_norm_statistics,
                                         .forward = batch_norm_forward,
                                         .backward = batch_norm_backward,
                                         .in = 2};
