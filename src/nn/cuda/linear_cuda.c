// Part of cuda_kernels.h: a linear layer on a GPU, by cuBLAS and the kernels of linear.cu.
#include "nn/cuda/cuda_ops.h"

#include "nn/cuda/cuda_blas.h"

// Sizes of a layer's products. There is one product per place, for all models at once.
typedef struct Sizes {
    int places, ins, outs, samples;
} Sizes;

// A layer over its whole input has one place, and a layer of each step as many as there are steps.
static Sizes sizes_of(const Layer *layer, const CudaStep *step) {
    return (Sizes){(int)linear_places(layer), (int)linear_ins(layer), (int)linear_outs(layer), step->samples};
}

// Place p of a tensor of lanes (M, places, features,N): as a factor, and as the result of a product.
static CudaFactor lanes(const float *at, int features, int p, cublasOperation_t as, const Sizes *of) {
    return cuda_blas_lanes(at, features, p, of->places, of->samples, as);
}

static CudaProduct become_lanes(float *at, int features, int p, const Sizes *of) {
    return cuda_blas_become_lanes(at, features, p, of->places, of->samples);
}

void cuda_linear_forward(float *out, const float *in, const float *weight, const float *bias, size_t stride, bool relu,
                         const Layer *layer, struct CudaBlas *blas, const CudaStep *step) {
    if (!blas) {
        cuda_linear_product(out, in, weight, bias, stride, relu, layer, step);
        return;
    }
    const Sizes of = sizes_of(layer, step);
    const CudaFactor weights = {weight, of.ins, stride, CUBLAS_OP_N};
    for (int p = 0; p < of.places; p++) // out (OUT,N) = weight (OUT,IN) * in (IN,N)
        cuda_blas_multiply(blas, become_lanes(out, of.outs, p, &of), lanes(in, of.ins, p, CUBLAS_OP_N, &of), weights,
                           of.samples, of.outs, of.ins, step->models);
    cuda_linear_add_bias(out, bias, stride, relu, of.places, of.outs, step);
}

void cuda_linear_backward_input(float *in_gradient, const float *out_gradient, const float *relu_out,
                                const float *weight, size_t stride, const Layer *layer, struct CudaBlas *blas,
                                const CudaStep *step) {
    if (!blas) {
        cuda_linear_product_back(in_gradient, out_gradient, relu_out, weight, stride, layer, step);
        return;
    }
    const Sizes of = sizes_of(layer, step);
    const CudaFactor weights = {weight, of.ins, stride, CUBLAS_OP_T};
    for (int p = 0; p < of.places; p++) // in_gradient (IN,N) = weight^T (IN,OUT) * out_gradient (OUT,N)
        cuda_blas_multiply(blas, become_lanes(in_gradient, of.ins, p, &of),
                           lanes(out_gradient, of.outs, p, CUBLAS_OP_N, &of), weights, of.samples, of.ins, of.outs,
                           step->models);
    if (relu_out) cuda_relu_backward(in_gradient, relu_out, shape_size(layer->in), step);
}

void cuda_linear_backward_weight(float *weight_gradient, float *bias_gradient, const float *in,
                                 const float *out_gradient, size_t stride, const Layer *layer, struct CudaBlas *blas,
                                 const CudaStep *step) {
    if (!blas) {
        cuda_linear_gradient(weight_gradient, bias_gradient, in, out_gradient, stride, layer, step);
        return;
    }
    const Sizes of = sizes_of(layer, step);
    for (int p = 0; p < of.places; p++) // weight_gradient (OUT,IN) += out_gradient (OUT,N) * in^T (N,IN)
        cuda_blas_multiply(blas, (CudaProduct){weight_gradient, stride, p > 0}, lanes(in, of.ins, p, CUBLAS_OP_T, &of),
                           lanes(out_gradient, of.outs, p, CUBLAS_OP_N, &of), of.ins, of.outs, of.samples,
                           step->models);
    cuda_linear_sum_rows(bias_gradient, out_gradient, stride, of.places, of.outs, step);
}
