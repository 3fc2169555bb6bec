// Part of cuda_kernels.h: attention on a GPU, between its two linear layers.
#include "nn/cuda/cuda_attention.h"

#include <math.h>

#include "nn/cuda/cuda_ops.h"
#include "nn/kernels/sequence.h"

// Projections and their gradients (3 + 3), context and its gradient (1 + 1), and the shares.
size_t cuda_attention_kept_features(const Layer *layer) {
    const size_t steps = (size_t)layer->in.rows;
    return 8 * shape_size(layer->in) + (size_t)layer->groups * steps * steps;
}

// They are stored one after the other, with the samples innermost; the order is that in which the forward pass writes
// them.
static AttentionKept attention_kept(float *kept, const Layer *layer, const CudaStep *step) {
    const size_t columns = (size_t)step->models * (size_t)step->samples, steps = (size_t)layer->in.rows;
    const size_t tensor = shape_size(layer->in) * columns;
    AttentionKept at = {.projected = kept,
                        .steps = (uint32_t)steps,
                        .width = (uint32_t)layer->in.columns,
                        .heads = (uint32_t)layer->groups,
                        .samples = (uint32_t)step->samples,
                        .scale = 1 / sqrtf((float)(layer->in.columns / layer->groups)),
                        .causal = layer->causal};
    at.shares = at.projected + 3 * tensor;
    at.context = at.shares + (size_t)layer->groups * steps * steps * columns;
    at.projected_gradient = at.context + tensor;
    at.context_gradient = at.projected_gradient + 3 * tensor;
    return at;
}

// One launch projects all steps of all models; between the two projections the kernels of attention.cu.
void cuda_attention_forward(float *out, float *kept, const float *in, const float *weight, size_t stride,
                            const Layer *layer, const CudaStep *step) {
    const AttentionKept at = attention_kept(kept, layer, step);
    const Layer into = attention_input_product(layer), from = attention_output_product(layer);
    const size_t width = at.width;
    const float *second = weight + attention_input_parameters(layer);
    cuda_linear_product(at.projected, in, weight, weight + 3 * width * width, stride, false, &into, step);
    cuda_attention_mix(&at, step);
    cuda_linear_product(out, at.context, second, second + width * width, stride, false, &from, step);
}

// The order is that of the chain rule from the output back. in_gradient must be computed before the weights change,
// which is the caller's promise: the step follows later. The weight's gradients are last, since they read the
// projections' gradients that the kernels have left.
void cuda_attention_backward(float *gradient, float *in_gradient, float *kept, const float *in,
                             const float *out_gradient, const float *weight, size_t stride, size_t gradient_stride,
                             const Layer *layer, const CudaStep *step) {
    const AttentionKept at = attention_kept(kept, layer, step);
    const Layer into = attention_input_product(layer), from = attention_output_product(layer);
    const size_t width = at.width, second = attention_input_parameters(layer);
    cuda_linear_product_back(at.context_gradient, out_gradient, NULL, weight + second, stride, &from, step);
    cuda_attention_mix_back(&at, step);
    if (in_gradient) cuda_linear_product_back(in_gradient, at.projected_gradient, NULL, weight, stride, &into, step);
    if (!gradient) return;
    cuda_linear_gradient(gradient, gradient + 3 * width * width, in, at.projected_gradient, gradient_stride, &into,
                         step);
    gradient += second;
    cuda_linear_gradient(gradient, gradient + width * width, at.context, out_gradient, gradient_stride, &from, step);
}
