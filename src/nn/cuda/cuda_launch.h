// Kernel launches for the .cu files of src/nn: C++ only.
//
//   launch(kernel, blocks, threads, step->stream, out, in, sizes);
//   launch_items(kernel, items, step, out, in, items);             // `items` threads per model, see model_item; the
//                                                                  // kernel's last argument is step->counts
#ifndef SOUNDER_NN_CUDA_CUDA_LAUNCH_H
#define SOUNDER_NN_CUDA_CUDA_LAUNCH_H

#include <cuda_runtime.h>

#include "nn/cuda/cuda_index.h"
#include "nn/cuda/cuda_kernels.h"
#include "nn/cuda/cuda_net.h"

enum { ITEM_THREADS = 256 };

__device__ inline bool is_open(const CudaFence &fence) {
    return !fence.word || *fence.word == fence.expected;
}

// Launches a grid of one dimension. Errors show in cudaGetLastError.
template <typename... Parameters, typename... Arguments>
void launch(void (*kernel)(Parameters...), size_t blocks, uint32_t threads, cudaStream_t stream,
            Arguments... arguments) {
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3((unsigned)blocks);
    config.blockDim = dim3(threads);
    config.stream = stream;
    (void)cudaLaunchKernelEx(&config, kernel, arguments...);
}

// Whether a thread of launch_items has something to do. A block belongs to one model: those of an idle model end here,
// whole.
__device__ inline bool has_work(ModelItem at, uint32_t items, const uint32_t *counts) {
    return at.item < items && counts[at.model] > 0;
}

template <typename... Parameters, typename... Arguments>
void launch_items(void (*kernel)(Parameters...), uint32_t items, const CudaStep *step, Arguments... arguments) {
    launch(kernel, (size_t)step->models * parts_of(items, ITEM_THREADS), ITEM_THREADS, step->stream, arguments...,
           step->counts);
}

#endif
