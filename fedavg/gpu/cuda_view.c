#include "cuda_view.h"

#include <stdbool.h>
#include <stdlib.h>

#include "base/cuda_try.h"
#include "base/log.h"
#include "fedavg/gpu/cuda_blocks.h"

const char *const cuda_view_kinds[] = {
    [VIEW_MANAGED] = "managed memory", [VIEW_PINNED] = "pinned memory", [VIEW_COPIED] = "a copy"};

// Advice for the view: it stays in the host's memory, and the GPU writes it there across the bus. Without it every
// page would change sides twice a round, each time by a fault.
static cudaError_t keep_on_host(const CudaView *view) {
#if CUDART_VERSION >= 13000
    const struct cudaMemLocation host = {.type = cudaMemLocationTypeHost};
    const struct cudaMemLocation gpu = {.type = cudaMemLocationTypeDevice, .id = view->gpu};
#else
    const int host = cudaCpuDeviceId, gpu = view->gpu;
#endif
    cudaError_t error = cudaMemAdvise(view->on_gpu, view->bytes, cudaMemAdviseSetPreferredLocation, host);
    if (error != cudaSuccess) return error;
    return cudaMemAdvise(view->on_gpu, view->bytes, cudaMemAdviseSetAccessedBy, gpu);
}

// Managed memory must be one that both sides may touch while kernels run. A GPU may say that it has such memory, and a
// container or a virtual GPU still refuse the allocation or the advice.
static bool allocate_managed(CudaView *view) {
    int concurrent = 0;
    view->kind = VIEW_MANAGED;
    bool given = cudaDeviceGetAttribute(&concurrent, cudaDevAttrConcurrentManagedAccess, view->gpu) == cudaSuccess &&
                 concurrent &&
                 cudaMallocManaged((void **)&view->on_gpu, view->bytes, cudaMemAttachGlobal) == cudaSuccess;
    if (given && keep_on_host(view) == cudaSuccess) return true;
    if (given) cudaFree(view->on_gpu);
    view->on_gpu = NULL;
    cudaGetLastError(); // clears the error, which the first wait would report
    return false;
}

// Pinned memory is mapped for the GPU and read by the host in place. It may be limited (WSL).
static bool allocate_pinned(CudaView *view) {
    view->kind = VIEW_PINNED;
    if (cudaHostAlloc((void **)&view->on_gpu, view->bytes, cudaHostAllocMapped) == cudaSuccess) return true;
    view->on_gpu = NULL;
    cudaGetLastError();
    return false;
}

static Status allocate_copied(CudaView *view, Error *err) {
    view->kind = VIEW_COPIED;
    CUDA_TRY(cudaMalloc((void **)&view->on_gpu, view->bytes), err, "%zu bytes for the host's view of the model",
             view->bytes);
    view->on_host = malloc(view->bytes);
    if (view->on_host) return STATUS_OK;
    return fail(err, STATUS_OS, "no memory for a view of the model of %zu bytes", view->bytes);
}

Status cuda_view_create(CudaView *view, size_t bytes, int gpu, Error *err) {
    *view = (CudaView){.bytes = bytes, .gpu = gpu};
    if (!allocate_managed(view) && !allocate_pinned(view)) TRY(allocate_copied(view, err));
    if (view->kind != VIEW_COPIED) view->on_host = view->on_gpu;
    if (view->kind != VIEW_MANAGED)
        log_info("GPU %d has no managed memory that it and the host may use at the same time: the host's view of the "
                 "model is %s",
                 view->gpu, cuda_view_kinds[view->kind]);
    return STATUS_OK;
}

Status cuda_view_fetch(const CudaView *view, cudaStream_t stream, Error *err) {
    if (view->kind == VIEW_PINNED) return STATUS_OK;
    if (view->kind == VIEW_COPIED) return cuda_copy(view->on_host, view->on_gpu, view->bytes, stream, err);
#if CUDART_VERSION >= 13000
    const struct cudaMemLocation host = {.type = cudaMemLocationTypeHost};
    CUDA_TRY(cudaMemPrefetchAsync(view->on_gpu, view->bytes, host, 0, stream), err, "fetching the model");
#else
    CUDA_TRY(cudaMemPrefetchAsync(view->on_gpu, view->bytes, cudaCpuDeviceId, stream), err, "fetching the model");
#endif
    return STATUS_OK;
}

void cuda_view_free(CudaView *view) {
    view->kind == VIEW_PINNED ? cudaFreeHost(view->on_gpu) : cudaFree(view->on_gpu);
    if (view->kind == VIEW_COPIED) free(view->on_host);
    *view = (CudaView){0};
}
