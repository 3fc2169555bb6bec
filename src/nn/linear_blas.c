// OpenBLAS multiplies; the loops here do the rest of an op: bias, padding, and the step. They pass over the weight in
// memory once more, which costs little beside a product of LINEAR_MANY_SAMPLES samples.
#include "linear_blas.h"

#include <string.h>

// The inputs (IN,count) from `in`, or from rows if that is NULL.
static BlasMatrix inputs(const float *in, const float *rows, const Layer *layer, size_t samples) {
    return in ? (BlasMatrix){in, samples, false} : (BlasMatrix){rows, linear_row_floats(layer), true};
}

// The outputs start as the bias, and OpenBLAS adds the product: one pass less than adding the bias afterwards.
void linear_blas_forward(float *out, const Blas *blas, const float *in, const float *rows, const float *weight,
                         const float *bias, const Layer *layer, int count, int samples) {
    size_t outs = (size_t)layer->out.channels, ins = shape_size(layer->in), n = (size_t)samples;
    for (size_t o = 0; o < outs; o++)
        for (size_t s = 0; s < n; s++)
            out[o * n + s] = bias ? bias[o] : 0;
    blas->multiply(blas, out, n, (BlasMatrix){weight, ins, false}, inputs(in, rows, layer, n), 1, outs, (size_t)count,
                   ins);
}

// OpenBLAS writes the first `count` columns; the others must become zeros.
void linear_blas_backward_input(float *in_gradient, const Blas *blas, const float *out_gradient, const float *weight,
                                const Layer *layer, int count, int samples) {
    size_t outs = (size_t)layer->out.channels, ins = shape_size(layer->in), n = (size_t)samples, used = (size_t)count;
    blas->multiply(blas, in_gradient, n, (BlasMatrix){weight, ins, true}, (BlasMatrix){out_gradient, n, false}, 0, ins,
                   used, outs);
    for (size_t i = 0; i < ins && used < n; i++)
        memset(in_gradient + i * n + used, 0, (n - used) * sizeof *in_gradient);
}

// OpenBLAS can multiply its output by `keep` and add. So decay and shift join the velocity before the product, and the
// product adds the gradient; the step follows when it is complete.
void linear_blas_backward_weight(float *weight_gradient, float *weight, const Blas *blas, const float *in,
                                 const float *rows, const float *out_gradient, const SgdUpdate *descent,
                                 const Layer *layer, int count, int samples) {
    size_t outs = (size_t)layer->out.channels, ins = shape_size(layer->in), n = (size_t)samples, weights = outs * ins;
    float keep = descent->keep;
    if (descent->before) memcpy(weight, descent->before, weights * sizeof *weight);
    if (weight && (descent->weight_decay != 0 || descent->shift)) {
        for (size_t i = 0; i < weights; i++) {
            float decay = descent->weight_decay * weight[i] + (descent->shift ? descent->shift[i] : 0);
            // With keep 0 the product does not read the velocity.
            weight_gradient[i] = keep == 0 ? decay : keep * weight_gradient[i] + decay;
        }
        keep = 1;
    }
    BlasMatrix transposed = inputs(in, rows, layer, n);
    transposed.transposed = !transposed.transposed;
    blas->multiply(blas, weight_gradient, ins, (BlasMatrix){out_gradient, n, false}, transposed, keep, outs, ins,
                   (size_t)count);
    if (!weight) return;
    for (size_t i = 0; i < weights; i++)
        weight[i] -= descent->lr * weight_gradient[i];
}
