#include "nn/cuda_ops.h"

#include "nn/cuda_blas.h"

// A tensor of a product: how far its rows lie apart, and its models. Our matrices are stored row by row, cuBLAS's
// column by column: what is (R,C) to us is (C,R) to it. So each product below is written for the transposes, with the
// factors in reverse order.
typedef struct Factor {
    const float *at;
    int row;       // floats from one row to the next
    size_t stride; // floats from one model to the next
    cublasOperation_t as;
} Factor;

// product (rows, columns) of each model = a * b, where `inner` is summed over; in cuBLAS's view, columns first.
static void multiply(CudaBlas *blas, float *product, size_t product_stride, Factor a, Factor b, int columns, int rows,
                     int inner, int models) {
    const float one = 1, zero = 0;
    cublasStatus_t result =
        blas->multiply(blas->handle, a.as, b.as, columns, rows, inner, &one, a.at, a.row, (long long)a.stride, b.at,
                       b.row, (long long)b.stride, &zero, product, columns, (long long)product_stride, models);
    if (blas->failure == CUBLAS_STATUS_SUCCESS) blas->failure = result;
}

// A tensor of lanes (M, features,N).
static Factor lanes(const float *at, int features, cublasOperation_t as, const CudaStep *step) {
    return (Factor){at, step->samples, (size_t)features * (size_t)step->samples, as};
}

void cuda_linear_forward(float *out, const float *in, const float *weight, const float *bias, size_t stride, bool relu,
                         const Layer *layer, struct CudaBlas *blas, const CudaStep *step) {
    int ins = (int)shape_size(layer->in), outs = (int)shape_size(layer->out);
    // out (OUT,N) = weight (OUT,IN) * in (IN,N)
    multiply(blas, out, (size_t)outs * (size_t)step->samples, lanes(in, ins, CUBLAS_OP_N, step),
             (Factor){weight, ins, stride, CUBLAS_OP_N}, step->samples, outs, ins, step->models);
    cuda_linear_add_bias(out, bias, stride, relu, outs, step);
}

void cuda_linear_backward_input(float *in_gradient, const float *out_gradient, const float *weight, size_t stride,
                                const Layer *layer, struct CudaBlas *blas, const CudaStep *step) {
    int ins = (int)shape_size(layer->in), outs = (int)shape_size(layer->out);
    // in_gradient (IN,N) = weight^T (IN,OUT) * out_gradient (OUT,N)
    multiply(blas, in_gradient, (size_t)ins * (size_t)step->samples, lanes(out_gradient, outs, CUBLAS_OP_N, step),
             (Factor){weight, ins, stride, CUBLAS_OP_T}, step->samples, ins, outs, step->models);
}

void cuda_linear_backward_weight(float *weight_gradient, float *bias_gradient, const float *in,
                                 const float *out_gradient, size_t stride, const Layer *layer, struct CudaBlas *blas,
                                 const CudaStep *step) {
    int ins = (int)shape_size(layer->in), outs = (int)shape_size(layer->out);
    // weight_gradient (OUT,IN) = out_gradient (OUT,N) * in^T (N,IN)
    multiply(blas, weight_gradient, stride, lanes(in, ins, CUBLAS_OP_T, step),
             lanes(out_gradient, outs, CUBLAS_OP_N, step), ins, outs, step->samples, step->models);
    cuda_linear_sum_rows(bias_gradient, out_gradient, stride, outs, step);
}
