// The way of a batch through the net on the card: puts the launches of one step on a stream, to run or to be captured.
#ifndef SOUNDER_NN_CUDA_PASS_H
#define SOUNDER_NN_CUDA_PASS_H

#include "nn/cuda_blas.h"
#include "nn/cuda_kernels.h"
#include "nn/cuda_net.h"
#include "nn/cuda_ops.h"
#include "nn/cuda_progress.h"

// Everything that the launches of a step need to know. Owns nothing.
typedef struct CudaPass {
    CudaNetPlan plan;
    CudaOps ops;
    CudaProgress progress;
    CudaStep step;
    float *scale, *shift; // device (C)
    CudaBlas *blas;
} CudaPass;

// Each goes on to the next step of every model's task. Launches that fail show in cudaGetLastError and cuda_blas_check.
void cuda_pass_evaluate(const CudaPass *pass); // forward, loss and hits
void cuda_pass_gradient(const CudaPass *pass); // forward with dropout, loss, gradient
void cuda_pass_train(const CudaPass *pass);    // and a step of SGD, Hogwild's if the plan counts updates

#endif
