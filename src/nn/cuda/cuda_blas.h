// cuBLAS, for the products of linear layers. The first net on a GPU opens it; it is never linked, so that a program on
// the CPU neither needs nor loads it.
//
//   CudaBlas blas;
//   TRY(cuda_blas_open(&blas, stream, tf32, err));
//   cuda_linear_forward(..., &blas, &step);      // any number of products, captured in a graph or not
//   TRY(cuda_blas_check(&blas, err));            // did all of them reach the stream?
//   cuda_blas_close(&blas);
//
// It computes in a workspace of its own on one stream. Captured products need that, and it makes their bits the same in
// every run (cuBLAS documentation, "Results reproducibility").
#ifndef SOUNDER_NN_CUDA_CUDA_BLAS_H
#define SOUNDER_NN_CUDA_CUDA_BLAS_H

#include <cublas_v2.h>
#include <stdbool.h>

#include "base/err.h"

enum { CUDA_BLAS_WORKSPACE_BYTES = 32 << 20 }; // NVIDIA's recommendation for Hopper; older GPUs need less

typedef struct CudaBlas {
    void *library;         // owned
    cublasHandle_t handle; // owned
    void *workspace;       // owned, device memory
    __typeof__(cublasSgemmStridedBatched) *multiply;
    __typeof__(cublasDestroy) *destroy;
    cublasStatus_t failure; // of the first product that failed since the last check
} CudaBlas;

// tf32: products may round their factors to 10 bits and use tensor cores. Everything runs on `stream`. UNAVAILABLE if
// there is no cuBLAS; nothing to close on failure.
Status cuda_blas_open(CudaBlas *blas, cudaStream_t stream, bool tf32, Error *err);

// Whether cuBLAS can be loaded; UNAVAILABLE as cuda_blas_open says it. Takes no memory of the GPU.
Status cuda_blas_find(Error *err);

// A CudaBlas of zeros is closed already.
void cuda_blas_close(CudaBlas *blas);

// A factor of a product. Our matrices are stored row by row, cuBLAS's column by column: our (R,C) is its (C,R). So
// products are written for the transposes, with the factors in reverse order.
typedef struct CudaFactor {
    const float *at;
    int row;       // floats from one row to the next
    size_t stride; // floats from one model to the next
    cublasOperation_t as;
} CudaFactor;

typedef struct CudaProduct {
    float *at; // rows of `columns` floats
    size_t stride;
} CudaProduct;

// product (rows, columns) of each model = a * b, summed over `inner`; in cuBLAS's view, columns first.
void cuda_blas_multiply(CudaBlas *blas, CudaProduct product, CudaFactor a, CudaFactor b, int columns, int rows,
                        int inner, int models);

// Whether every product since the last check was accepted. NULL: there were none.
Status cuda_blas_check(CudaBlas *blas, Error *err);

#endif
