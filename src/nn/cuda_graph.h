// A step of work that is captured once and then replayed: one launch from the CPU for a step of dozens of kernels, and
// one for CUDA_GRAPH_STEPS steps in a row.
//
//   CudaGraph graph = {.enqueue = cuda_pass_train, .pass = &pass, .blas = &blas};
//   TRY(cuda_graph_run(&graph, steps, err));            // asynchronous, on the pass's stream
//   cuda_graph_free(&graph);
//
// The very first step is not captured but runs directly: libraries and kernels load themselves on first use, which may
// allocate, and that is forbidden in a capture.
#ifndef SOUNDER_NN_CUDA_GRAPH_H
#define SOUNDER_NN_CUDA_GRAPH_H

#include <stdbool.h>

#include "nn/cuda_pass.h"

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
