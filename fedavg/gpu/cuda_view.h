// The host's view of an array that the GPU writes: the new weights, after each round.
//
//   TRY(cuda_view_create(&view, bytes, gpu, err));
//   ... kernels write view.on_gpu ...
//   TRY(cuda_view_fetch(&view, stream, err));         // and wait for the stream: then view.on_host has the values
//   cuda_view_free(&view);
//
// The kind of its memory changes no bit.
#ifndef SOUNDER_FEDAVG_GPU_CUDA_VIEW_H
#define SOUNDER_FEDAVG_GPU_CUDA_VIEW_H

#include <cuda_runtime_api.h>

#include "base/err.h"

// Best first: both sides reach the memory in place, or the host has a copy of its own.
typedef enum ViewKind { VIEW_MANAGED, VIEW_PINNED, VIEW_COPIED } ViewKind;

typedef struct CudaView {
    ViewKind kind;
    float *on_gpu;  // owned
    float *on_host; // its values, readable by this process: on_gpu itself, or owned if VIEW_COPIED
    size_t bytes;
    int gpu;
} CudaView;

extern const char *const cuda_view_kinds[]; // "managed memory"

// Takes the best kind of memory that this GPU and its driver give; a line of the log says if that is not managed
// memory. On failure cuda_view_free frees what there is.
Status cuda_view_create(CudaView *view, size_t bytes, int gpu, Error *err);

// Asynchronous. Brings what the GPU has written to the host, unless it is stored there already.
Status cuda_view_fetch(const CudaView *view, cudaStream_t stream, Error *err);

void cuda_view_free(CudaView *view); // a view of zeros is freed already

#endif
