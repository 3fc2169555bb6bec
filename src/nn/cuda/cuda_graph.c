// Part of cuda_pass.h: records a training step as a CUDA graph and replays it.
#include "nn/cuda/cuda_pass.h"

#include <stdlib.h>

#include "base/cuda_try.h"

// Launches return no status: CUDA's last error and blas keep the failures since the last call of this function.
static Status launched(const CudaGraph *graph, Error *err) {
    CUDA_TRY(cudaGetLastError(), err, "launching a step on the GPU");
    return cuda_blas_check(graph->blas, err);
}

// The captured graph is only the plan of the executable one, and is destroyed in any case. (cudaGraphInstantiate has
// other parameters in CUDA 11.) *nodes: of the graph.
static Status instantiate(cudaGraphExec_t *executable, size_t *nodes, cudaGraph_t captured, Error *err) {
    cudaError_t counted = cudaGraphGetNodes(captured, NULL, nodes);
    cudaError_t made = cudaGraphInstantiateWithFlags(executable, captured, 0);
    cudaError_t destroyed = cudaGraphDestroy(captured);
    if (made != cudaSuccess) *executable = NULL;
    CUDA_TRY(counted, err, "counting what the steps launch");
    CUDA_TRY(made, err, "making a graph of the steps");
    CUDA_TRY(destroyed, err, "discarding the captured steps");
    return STATUS_OK;
}

// Captures `steps` steps in a row as one graph. The stream must leave the capture even if a launch fails. A capture
// records launches with their arguments, so that everything that changes from step to step must be in device memory.
static Status capture(cudaGraphExec_t *executable, size_t *nodes, const CudaGraph *graph, uint32_t steps, Error *err) {
    cudaStream_t stream = graph->pass->step.stream;
    // Thread-local, as another thread may allocate memory during the capture.
    CUDA_TRY(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), err, "capturing %u steps", steps);
    for (uint32_t s = 0; s < steps; s++)
        graph->enqueue(graph->pass);
    Status status = launched(graph, err);
    cudaGraph_t captured = NULL;
    cudaError_t ended = cudaStreamEndCapture(stream, &captured); // on failure, too: the stream must leave the capture
    if (status == STATUS_OK && ended != cudaSuccess) status = cuda_fail(err, ended, "capturing %u steps", steps);
    if (status == STATUS_OK) return instantiate(executable, nodes, captured, err);
    if (captured) cudaGraphDestroy(captured);
    return status;
}

// The graph of one step is made first, and tells how many steps the other one has.
static Status make_single(CudaGraph *graph, Error *err) {
    size_t nodes = 1;
    TRY(capture(&graph->single, &nodes, graph, 1, err));
    const size_t fitting = CUDA_GRAPH_NODES / nodes;
    graph->at_once = fitting < 1 ? 1 : fitting > CUDA_GRAPH_STEPS ? CUDA_GRAPH_STEPS : (uint32_t)fitting;
    return STATUS_OK;
}

// The first step runs directly (see the header). Then as many steps as fit run in graphs of several, the rest one by
// one.
Status cuda_graph_run(CudaGraph *graph, uint32_t steps, Error *err) {
    while (steps > 0) {
        if (!graph->has_run) {
            graph->enqueue(graph->pass);
            TRY(launched(graph, err));
            graph->has_run = true;
            steps--;
            continue;
        }
        if (!graph->single) TRY(make_single(graph, err));
        const uint32_t at_once = steps >= graph->at_once ? graph->at_once : 1;
        size_t nodes;
        if (at_once > 1 && !graph->several) TRY(capture(&graph->several, &nodes, graph, at_once, err));
        cudaGraphExec_t executable = at_once > 1 ? graph->several : graph->single;
        CUDA_TRY(cudaGraphLaunch(executable, graph->pass->step.stream), err, "launching %u steps", at_once);
        steps -= at_once;
    }
    return STATUS_OK;
}

void cuda_graph_free(CudaGraph *graph) {
    if (graph->single) cudaGraphExecDestroy(graph->single);
    if (graph->several) cudaGraphExecDestroy(graph->several);
    graph->single = graph->several = NULL;
}

CudaHold *cuda_hold_new(const CudaGraph *graph, size_t first, size_t end) {
    CudaHold *hold = malloc(sizeof *hold);
    if (!hold) return NULL;
    *hold = (CudaHold){.pass = *graph->pass, .first = first, .end = end};
    hold->graph = (CudaGraph){.enqueue = graph->enqueue, .pass = &hold->pass, .blas = graph->blas};
    Spec *spec = &hold->pass.plan.spec;
    for (int t = 0; t < spec->tensor_count; t++)
        if (spec->tensors[t].first >= first && spec->tensors[t].first < end)
            spec->tensors[t].frozen = spec->freezes = true;
    return hold;
}

void cuda_hold_free(CudaHold *hold) {
    if (hold) cuda_graph_free(&hold->graph);
    free(hold);
}
