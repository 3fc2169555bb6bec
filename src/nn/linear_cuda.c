#include "nn/cuda_ops.h"

#include "nn/cuda_blas.h"

// A tensor of lanes (M, features,N).
static CudaFactor lanes(const float *at, int features, cublasOperation_t as, const CudaStep *step) {
    return (CudaFactor){at, step->samples, (size_t)features * (size_t)step->samples, as};
}

void cuda_linear_forward(float *out, const float *in, const float *weight, const float *bias, size_t stride, bool relu,
                         const Layer *layer, struct CudaBlas *blas, const CudaStep *step) {
    int ins = (int)shape_size(layer->in), outs = (int)shape_size(layer->out);
    // out (OUT,N) = weight (OUT,IN) * in (IN,N)
    cuda_blas_multiply(blas, (CudaProduct){out, (size_t)outs * (size_t)step->samples, false},
                       lanes(in, ins, CUBLAS_OP_N, step), (CudaFactor){weight, ins, stride, CUBLAS_OP_N}, step->samples,
                       outs, ins, step->models);
    cuda_linear_add_bias(out, bias, stride, relu, outs, step);
}

void cuda_linear_backward_input(float *in_gradient, const float *out_gradient, const float *weight, size_t stride,
                                const Layer *layer, struct CudaBlas *blas, const CudaStep *step) {
    int ins = (int)shape_size(layer->in), outs = (int)shape_size(layer->out);
    // in_gradient (IN,N) = weight^T (IN,OUT) * out_gradient (OUT,N)
    cuda_blas_multiply(blas, (CudaProduct){in_gradient, (size_t)ins * (size_t)step->samples, false},
                       lanes(out_gradient, outs, CUBLAS_OP_N, step), (CudaFactor){weight, ins, stride, CUBLAS_OP_T},
                       step->samples, ins, outs, step->models);
}

void cuda_linear_backward_weight(float *weight_gradient, float *bias_gradient, const float *in,
                                 const float *out_gradient, size_t stride, const Layer *layer, struct CudaBlas *blas,
                                 const CudaStep *step) {
    int ins = (int)shape_size(layer->in), outs = (int)shape_size(layer->out);
    // weight_gradient (OUT,IN) = out_gradient (OUT,N) * in^T (N,IN)
    cuda_blas_multiply(blas, (CudaProduct){weight_gradient, stride, false}, lanes(in, ins, CUBLAS_OP_T, step),
                       lanes(out_gradient, outs, CUBLAS_OP_N, step), ins, outs, step->samples, step->models);
    cuda_linear_sum_rows(bias_gradient, out_gradient, stride, outs, step);
}
