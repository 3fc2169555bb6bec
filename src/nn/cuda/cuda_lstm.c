// Part of cuda_kernels.h: an LSTM on a GPU, step by step.
#include "nn/cuda/cuda_sequence.h"

#include "nn/cuda/cuda_blas.h"

// Sizes of the products.
typedef struct Sizes {
    int features, units, gates, samples, steps;
    size_t state_weight, bias; // offsets from the first parameter
} Sizes;

static Sizes sizes_of(const Layer *layer, const CudaStep *step) {
    const int units = lstm_units(layer), features = layer->in.columns;
    return (Sizes){.features = features,
                   .units = units,
                   .gates = 4 * units,
                   .samples = step->samples,
                   .steps = lstm_steps(layer),
                   .state_weight = 4 * (size_t)units * (size_t)features,
                   .bias = 4 * (size_t)units * (size_t)(features + units)};
}

// Per step four gates, a cell and an output; and the two gradients that go from step to step.
size_t cuda_lstm_kept_features(const Layer *layer) {
    return ((size_t)lstm_steps(layer) * 6 + 2) * (size_t)lstm_units(layer);
}

// The tensors of cuda_lstm_kept_features floats per column.
static LstmKept lstm_kept(float *kept, const Layer *layer, const CudaStep *step) {
    const size_t block = (size_t)step->models * (size_t)lstm_units(layer) * (size_t)step->samples;
    const size_t steps = (size_t)lstm_steps(layer);
    LstmKept at = {.gates = kept,
                   .steps = (uint32_t)steps,
                   .units = (uint32_t)lstm_units(layer),
                   .samples = (uint32_t)step->samples,
                   .last = layer->last};
    at.cells = at.gates + 4 * steps * block;
    at.outputs = at.cells + steps * block;
    at.output_gradient = at.outputs + steps * block;
    at.cell_gradient = at.output_gradient + block;
    return at;
}

// Blocks of lanes (rows,N) at step t of tensors (M, T, rows,N): as a factor, and as the result of a product.
static CudaFactor lanes_at(const float *tensor, int rows, int t, cublasOperation_t as, const Sizes *of) {
    return cuda_blas_lanes(tensor, rows, t, of->steps, of->samples, as);
}

static CudaProduct become_lanes(float *tensor, int rows, int t, const Sizes *of) {
    return cuda_blas_become_lanes(tensor, rows, t, of->steps, of->samples);
}

// Steps depend on each other, so each has two products of its own, over all models at once. The second adds to the
// first in cuBLAS: that saves a pass over the gates.
void cuda_lstm_forward(float *out, float *kept, const float *in, const float *weight, size_t stride, const Layer *layer,
                       struct CudaBlas *blas, const CudaStep *step) {
    const Sizes of = sizes_of(layer, step);
    const LstmKept at = lstm_kept(kept, layer, step);
    const CudaFactor inputs = {weight, of.features, stride, CUBLAS_OP_N};
    const CudaFactor states = {weight + of.state_weight, of.units, stride, CUBLAS_OP_N};
    for (int t = 0; t < of.steps; t++) {
        CudaProduct gates = become_lanes(at.gates, of.gates, t, &of);
        // gates (4H,N) = W (4H,F) * in (F,N) + U (4H,H) * previous outputs (H,N)
        cuda_blas_multiply(blas, gates, lanes_at(in, of.features, t, CUBLAS_OP_N, &of), inputs, of.samples, of.gates,
                           of.features, step->models);
        gates.adds = true;
        if (t > 0)
            cuda_blas_multiply(blas, gates, lanes_at(at.outputs, of.units, t - 1, CUBLAS_OP_N, &of), states, of.samples,
                               of.gates, of.units, step->models);
        cuda_lstm_step_forward(&at, out, weight + of.bias, stride, (uint32_t)t, step);
    }
}

// Adds step t's part to the gradient (M strided) of W and U: the products of the gates' gradients with the input and
// with the previous outputs. The last step, which the backward pass reaches first, overwrites the gradient.
static void add_gradient(float *gradient, size_t stride, const LstmKept *at, const float *in, int t, const Sizes *of,
                         struct CudaBlas *blas, const CudaStep *step) {
    const CudaFactor gates = lanes_at(at->gates, of->gates, t, CUBLAS_OP_N, of);
    const bool adds = t + 1 < of->steps;
    const CudaProduct inputs = {gradient, stride, adds}, states = {gradient + of->state_weight, stride, adds};
    // (4H,F) += gate gradients (4H,N) * in^T (N,F); U's are added likewise, except at the first step, which has no
    // previous outputs
    cuda_blas_multiply(blas, inputs, lanes_at(in, of->features, t, CUBLAS_OP_T, of), gates, of->features, of->gates,
                       of->samples, step->models);
    if (t > 0)
        cuda_blas_multiply(blas, states, lanes_at(at->outputs, of->units, t - 1, CUBLAS_OP_T, of), gates, of->units,
                           of->gates, of->samples, step->models);
    else if (!adds)
        // A sequence of one step has no previous outputs: nothing else would write the gradient of U.
        for (int m = 0; m < step->models; m++)
            (void)cudaMemsetAsync(gradient + (size_t)m * stride + of->state_weight, 0,
                                  (of->bias - of->state_weight) * sizeof *gradient, step->stream);
}

// Backward through time. The gates' gradients of a step overwrite its gates; their product with U gives the gradient of
// the previous output, which the next iteration reads.
void cuda_lstm_backward(float *gradient, float *in_gradient, float *kept, const float *in, const float *out_gradient,
                        const float *weight, size_t stride, size_t gradient_stride, const Layer *layer,
                        struct CudaBlas *blas, const CudaStep *step) {
    const Sizes of = sizes_of(layer, step);
    const LstmKept at = lstm_kept(kept, layer, step);
    const CudaFactor inputs = {weight, of.features, stride, CUBLAS_OP_T};
    const CudaFactor states = {weight + of.state_weight, of.units, stride, CUBLAS_OP_T};
    const size_t block = (size_t)of.units * (size_t)of.samples;
    const CudaProduct before = {at.output_gradient, block, false};
    for (int t = of.steps - 1; t >= 0; t--) {
        const CudaFactor gates = lanes_at(at.gates, of.gates, t, CUBLAS_OP_N, &of);
        cuda_lstm_step_backward(&at, out_gradient, (uint32_t)t, step);
        if (t > 0) // (H,N) = U^T (H,4H) * gradients (4H,N)
            cuda_blas_multiply(blas, before, gates, states, of.samples, of.units, of.gates, step->models);
        if (in_gradient)
            cuda_blas_multiply(blas, become_lanes(in_gradient, of.features, t, &of), gates, inputs, of.samples,
                               of.features, of.gates, step->models);
        if (gradient) add_gradient(gradient, gradient_stride, &at, in, t, &of, blas, step);
    }
    if (gradient) cuda_lstm_bias_gradient(gradient + of.bias, &at, gradient_stride, step);
}
