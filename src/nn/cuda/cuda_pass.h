// One step of a net on the GPU: puts the step's launches on a stream, to run or to be captured.
#ifndef SOUNDER_NN_CUDA_CUDA_PASS_H
#define SOUNDER_NN_CUDA_CUDA_PASS_H

#include "nn/cuda/cuda_blas.h"
#include "nn/cuda/cuda_kernels.h"
#include "nn/cuda/cuda_net.h"
#include "nn/cuda/cuda_ops.h"
#include "nn/cuda/cuda_progress.h"
#include <stdbool.h>

// The parts of a step. A pass calls its mark after each of them.
typedef enum CudaPart {
    CUDA_PART_GATHER,
    CUDA_PART_FORWARD, // one op
    CUDA_PART_LOSS,
    CUDA_PART_BACK,                // an op without parameters, or the relu in a linear one
    CUDA_PART_INPUT,               // gradient of an op's input
    CUDA_PART_PARAMETERS,          // gradient of an op's parameters
    CUDA_PART_PARAMETERS_AND_STEP, // gradient and step of SGD of all linear layers in one
    CUDA_PART_STEP,                // all parameters that have not made their step
} CudaPart;

// The data of a step's launches. Owns nothing.
typedef struct CudaPass {
    CudaNetPlan plan;
    CudaOps ops;
    CudaProgress progress;
    CudaStep step;
    float *scale, *shift; // device (C)
    float *lr;            // device (1)
    CudaWholeStep whole;  // device
    CudaBlas *blas;
    void (*mark)(void *context, CudaPart part, const CudaOp *op); // NULL in a run; bench_card measures by it
    void *mark_context;
} CudaPass;

// The purpose of a pass.
typedef enum CudaPurpose { FOR_TESTS, FOR_LOOK, FOR_GRADIENT, FOR_STEP } CudaPurpose;

// One op's part of a pass.
typedef struct CudaCall {
    const CudaPass *pass;
    const CudaOp *op;
    const CudaStep *step;       // of the pass
    const float *weight, *bias; // of the layer's first model; those of the others are `stride` floats apart
    size_t stride;
    float *gradient, *bias_gradient; // of the layer's first model; other models' are `stride` floats apart
    size_t gradient_stride;
    CudaPurpose purpose;
    bool steps; // the layer's step of SGD follows the backward pass, which then computes no gradient of parameters
} CudaCall;

// Calls the mark of tools that measure a step part by part; a run has none.
static inline void cuda_mark(const CudaPass *pass, CudaPart part, const CudaOp *op) {
    if (pass->mark) pass->mark(pass->mark_context, part, op);
}

// Bytes of a tensor with `features` floats per sample, for all models.
static inline double cuda_lanes_bytes(const CudaPass *pass, size_t features) {
    return (double)sizeof(float) * pass->step.models * pass->step.samples * (double)features;
}

// Bytes of an array of parameters of all models.
static inline double cuda_arrays_bytes(const CudaPass *pass, size_t parameters) {
    return (double)sizeof(float) * pass->step.models * (double)parameters;
}

// Bytes of an op's input and output, read or written `in` and `out` times.
static inline double cuda_values_bytes(const CudaPass *pass, const CudaOp *op, double in, double out) {
    return in * cuda_lanes_bytes(pass, shape_size(op->layer->in)) +
           out * cuda_lanes_bytes(pass, shape_size(op->layer->out));
}

// The pass of a net whose tasks have been assigned, for tools. Borrowed.
Status cuda_net_pass(CudaNet *net, const CudaPass **pass, Error *err);

// The numbers of the pass's step of SGD.
CudaSgdUpdate cuda_pass_descent(const CudaPass *pass);

// Each of these makes the next step of every model's task. Failed launches show in cudaGetLastError and
// cuda_blas_check.
void cuda_pass_evaluate(const CudaPass *pass); // forward, loss and hits
void cuda_pass_look(const CudaPass *pass);     // forward, loss, gradient, added to the full one
void cuda_pass_gradient(const CudaPass *pass); // forward with dropout, loss, gradient
void cuda_pass_train(const CudaPass *pass);    // gradient and a step of SGD; Hogwild's if the plan counts updates

// A step of work that is captured once and then replayed: one launch from the CPU for a step of dozens of kernels, and
// one for several steps in a row.
//
//   CudaGraph graph = {.enqueue = cuda_pass_train, .pass = &pass, .blas = &blas};
//   TRY(cuda_graph_run(&graph, steps, err));            // asynchronous, on the pass's stream
//   cuda_graph_free(&graph);
//
// The first step is not captured but runs directly: libraries and kernels are loaded on first use, which can allocate
// memory, and allocation is forbidden in a capture.

// A graph has CUDA_GRAPH_STEPS steps, or fewer where these would be more than CUDA_GRAPH_NODES launches: a step of an
// lstm over 80 places has hundreds, and a graph costs time and memory of the GPU by its launches.
enum { CUDA_GRAPH_STEPS = 16, CUDA_GRAPH_NODES = 4800 };

// Puts the launches of one step on the pass's stream.
typedef void (*CudaEnqueue)(const CudaPass *pass);

typedef struct CudaGraph {
    CudaEnqueue enqueue;
    const CudaPass *pass; // borrowed
    CudaBlas *blas;       // borrowed; records failed products
    bool has_run;
    uint32_t at_once;                // steps of `several`; set with `single`
    cudaGraphExec_t single, several; // owned; NULL until they are used
} CudaGraph;

Status cuda_graph_run(CudaGraph *graph, uint32_t steps, Error *err);
void cuda_graph_free(CudaGraph *graph);

// Steps of training that leave the parameters from `first` to end - 1. Their pass is a copy whose spec has the tensors
// of the range frozen. Its ops are those of the net, whose layers learn: all gradients are computed, and some are
// unused.
typedef struct CudaHold {
    CudaPass pass;
    CudaGraph graph;
    size_t first, end;
} CudaHold;

// graph: of the steps that leave nothing. NULL without memory.
CudaHold *cuda_hold_new(const CudaGraph *graph, size_t first, size_t end);
void cuda_hold_free(CudaHold *hold); // NULL is allowed

#endif
