// The way of a batch through the net on the GPU: puts the launches of one step on a stream, to run or to be captured.
#ifndef SOUNDER_NN_CUDA_CUDA_PASS_H
#define SOUNDER_NN_CUDA_CUDA_PASS_H

#include "nn/cuda/cuda_blas.h"
#include "nn/cuda/cuda_kernels.h"
#include "nn/cuda/cuda_net.h"
#include "nn/cuda/cuda_ops.h"
#include "nn/cuda/cuda_progress.h"
#include <stdbool.h>

// The parts of a step, behind each of which a pass can be looked at.
typedef enum CudaPart {
    CUDA_PART_GATHER,
    CUDA_PART_FORWARD, // of an op
    CUDA_PART_LOSS,
    CUDA_PART_BACK,                // of an op without parameters, or of the relu in a linear one
    CUDA_PART_INPUT,               // gradient of an op's input
    CUDA_PART_PARAMETERS,          // gradient of an op's parameters
    CUDA_PART_PARAMETERS_AND_STEP, // ... and their step of SGD in one
    CUDA_PART_STEP,                // of all parameters that have not made theirs
} CudaPart;

// Everything that the launches of a step need to know. Owns nothing.
typedef struct CudaPass {
    CudaNetPlan plan;
    CudaOps ops;
    CudaProgress progress;
    CudaStep step;
    float *scale, *shift; // device (C)
    float *lr;            // device (1)
    CudaWholeStep whole;  // device
    CudaBlas *blas;
    void (*mark)(void *context, CudaPart part, const CudaOp *op); // NULL, but for cuda_costs.h
    void *mark_context;
} CudaPass;

// What a net launches, for tools; its tasks have been assigned. Borrowed.
Status cuda_net_pass(CudaNet *net, const CudaPass **pass, Error *err);

// The numbers of the pass's steps of SGD.
CudaSgdUpdate cuda_pass_descent(const CudaPass *pass);

// Each goes on to the next step of every model's task. Launches that fail show in cudaGetLastError and cuda_blas_check.
void cuda_pass_evaluate(const CudaPass *pass); // forward, loss and hits
void cuda_pass_gradient(const CudaPass *pass); // forward with dropout, loss, gradient
void cuda_pass_train(const CudaPass *pass);    // and a step of SGD, Hogwild's if the plan counts updates

// A step of work that is captured once and then replayed: one launch from the CPU for a step of dozens of kernels, and
// one for CUDA_GRAPH_STEPS steps in a row.
//
//   CudaGraph graph = {.enqueue = cuda_pass_train, .pass = &pass, .blas = &blas};
//   TRY(cuda_graph_run(&graph, steps, err));            // asynchronous, on the pass's stream
//   cuda_graph_free(&graph);
//
// The very first step is not captured but runs directly: libraries and kernels load themselves on first use, which may
// allocate, and that is forbidden in a capture.

enum { CUDA_GRAPH_STEPS = 16 };

// Puts the launches of one step on the pass's stream.
typedef void (*CudaEnqueue)(const CudaPass *pass);

typedef struct CudaGraph {
    CudaEnqueue enqueue;
    const CudaPass *pass; // borrowed
    CudaBlas *blas;       // borrowed; keeps the failures of products
    bool has_run;
    cudaGraphExec_t single, several; // owned; NULL until they are needed
} CudaGraph;

Status cuda_graph_run(CudaGraph *graph, uint32_t steps, Error *err);
void cuda_graph_free(CudaGraph *graph);

#endif
