// Part of cuda_pass.h: records a training step as a CUDA graph and replays it.
#include "nn/cuda/cuda_pass.h"

#include "base/cuda_try.h"

// Launches return no status: CUDA's last error and blas keep the failures since the last call of this function.
static Status launched(CudaGraph *graph, Error *err) {
    CUDA_TRY(cudaGetLastError(), err, "launching a step on the GPU");
    return cuda_blas_check(graph->blas, err);
}

// The captured graph is only the plan of the executable one, and is destroyed in any case. (cudaGraphInstantiate has
// other parameters in CUDA 11.)
static Status instantiate(cudaGraphExec_t *executable, cudaGraph_t captured, Error *err) {
    cudaError_t made = cudaGraphInstantiateWithFlags(executable, captured, 0);
    cudaError_t destroyed = cudaGraphDestroy(captured);
    if (made != cudaSuccess) *executable = NULL;
    CUDA_TRY(made, err, "making a graph of the steps");
    CUDA_TRY(destroyed, err, "discarding the captured steps");
    return STATUS_OK;
}

// Captures `steps` steps in a row as one graph. The stream must leave the capture even if a launch fails. A capture
// records launches with their arguments, so that everything that changes from step to step must be in device memory.
static Status capture(cudaGraphExec_t *executable, CudaGraph *graph, int steps, Error *err) {
    cudaStream_t stream = graph->pass->step.stream;
    // Thread-local, as another thread may allocate memory during the capture.
    CUDA_TRY(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), err, "capturing %d steps", steps);
    for (int s = 0; s < steps; s++)
        graph->enqueue(graph->pass);
    Status status = launched(graph, err);
    cudaGraph_t captured = NULL;
    cudaError_t ended = cudaStreamEndCapture(stream, &captured); // on failure, too: the stream must leave the capture
    if (status == STATUS_OK && ended != cudaSuccess) status = cuda_fail(err, ended, "capturing %d steps", steps);
    if (status == STATUS_OK) return instantiate(executable, captured, err);
    if (captured) cudaGraphDestroy(captured);
    return status;
}

// The first step runs directly (see the header). Then as many steps as fit run in graphs of CUDA_GRAPH_STEPS, the rest
// one by one.
Status cuda_graph_run(CudaGraph *graph, uint32_t steps, Error *err) {
    while (steps > 0) {
        if (!graph->has_run) {
            graph->enqueue(graph->pass);
            TRY(launched(graph, err));
            graph->has_run = true;
            steps--;
            continue;
        }
        int at_once = steps >= CUDA_GRAPH_STEPS ? CUDA_GRAPH_STEPS : 1;
        cudaGraphExec_t *executable = at_once == 1 ? &graph->single : &graph->several;
        if (!*executable) TRY(capture(executable, graph, at_once, err));
        CUDA_TRY(cudaGraphLaunch(*executable, graph->pass->step.stream), err, "launching %d steps", at_once);
        steps -= (uint32_t)at_once;
    }
    return STATUS_OK;
}

void cuda_graph_free(CudaGraph *graph) {
    if (graph->single) cudaGraphExecDestroy(graph->single);
    if (graph->several) cudaGraphExecDestroy(graph->several);
    graph->single = graph->several = NULL;
}
