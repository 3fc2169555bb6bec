// Part of cuda_kernels.h: a linear layer on a GPU, by cuBLAS or by products of our own. cuBLAS would launch a product
// for each place of a layer of each step; ours takes all places of all models at once.
#include "nn/cuda/cuda_ops.h"

#include "nn/cuda/cuda_blas.h"

// Whether cuBLAS multiplies. blas: NULL if the net has none.
static bool uses(const struct CudaBlas *blas, const Layer *layer) {
    return blas && linear_places(layer) == 1;
}

// A tensor of lanes (M, features,N): as a factor, and as the result of a product.
static CudaFactor lanes(const float *at, size_t features, cublasOperation_t as, const CudaStep *step) {
    return (CudaFactor){at, step->samples, features * (size_t)step->samples, as};
}

static CudaProduct become_lanes(float *at, size_t features, const CudaStep *step) {
    return (CudaProduct){at, features * (size_t)step->samples};
}

void cuda_linear_forward(float *out, const float *in, const float *weight, const float *bias, size_t stride, bool relu,
                         const Layer *layer, struct CudaBlas *blas, const CudaStep *step) {
    if (!uses(blas, layer)) {
        cuda_linear_product(out, in, weight, bias, stride, relu, layer, step);
        return;
    }
    const size_t ins = linear_ins(layer), outs = linear_outs(layer);
    // out (OUT,N) = weight (OUT,IN) * in (IN,N)
    cuda_blas_multiply(blas, become_lanes(out, outs, step), lanes(in, ins, CUBLAS_OP_N, step),
                       (CudaFactor){weight, (int)ins, stride, CUBLAS_OP_N}, step->samples, (int)outs, (int)ins,
                       step->models);
    if (bias)
        cuda_linear_add_bias(out, bias, stride, relu, (int)outs, step);
    else if (relu)
        cuda_relu_forward(out, outs, step);
}

void cuda_linear_backward_input(float *in_gradient, const float *out_gradient, const float *relu_out,
                                const float *weight, size_t stride, const Layer *layer, struct CudaBlas *blas,
                                const CudaStep *step) {
    if (!uses(blas, layer)) {
        cuda_linear_product_back(in_gradient, out_gradient, relu_out, weight, stride, layer, step);
        return;
    }
    const size_t ins = linear_ins(layer), outs = linear_outs(layer);
    // in_gradient (IN,N) = weight^T (IN,OUT) * out_gradient (OUT,N)
    cuda_blas_multiply(blas, become_lanes(in_gradient, ins, step), lanes(out_gradient, outs, CUBLAS_OP_N, step),
                       (CudaFactor){weight, (int)ins, stride, CUBLAS_OP_T}, step->samples, (int)ins, (int)outs,
                       step->models);
    if (relu_out) cuda_relu_backward(in_gradient, relu_out, ins, step);
}

void cuda_linear_backward_weight(float *weight_gradient, float *bias_gradient, const float *in,
                                 const float *out_gradient, size_t stride, const Layer *layer, struct CudaBlas *blas,
                                 const CudaStep *step) {
    if (!uses(blas, layer)) {
        cuda_linear_gradient(weight_gradient, bias_gradient, in, out_gradient, stride, layer, step);
        return;
    }
    const size_t ins = linear_ins(layer), outs = linear_outs(layer);
    // weight_gradient (OUT,IN) = out_gradient (OUT,N) * in^T (N,IN)
    cuda_blas_multiply(blas, (CudaProduct){weight_gradient, stride}, lanes(in, ins, CUBLAS_OP_T, step),
                       lanes(out_gradient, outs, CUBLAS_OP_N, step), (int)ins, (int)outs, step->samples, step->models);
    if (!layer->nobias) cuda_linear_sum_rows(bias_gradient, out_gradient, stride, (int)outs, step);
}
