// Part of gpu.h: checks beyond the opening of a GPU, which a run of several processes needs.
#include <cuda_runtime_api.h>

#include "base/cuda_try.h"
#include "fedavg/gpu/cuda_view.h"
#include "fedavg/gpu/gpu.h"
#include "nn/cuda/cuda_blas.h"
#include "shm/cuda_share.h"

// A parent and its workers are several processes. Without MPS an exclusive GPU shuts the workers out as long as the
// parent has its context, with an error that names neither the mode nor the parent.
static Status check_compute_mode(const Device *device, bool by_mps, Error *err) {
    int mode = cudaComputeModeDefault;
    CUDA_TRY(cudaDeviceGetAttribute(&mode, cudaDevAttrComputeMode, device->index), err,
             "cannot read the compute mode of GPU %d", device->index);
    if (by_mps || mode == cudaComputeModeDefault) return STATUS_OK;
    return fail(err, STATUS_UNAVAILABLE,
                "GPU %d (%s) serves one process at a time (its compute mode is exclusive), but a run has several; use "
                "--mps start, or set the mode: nvidia-smi -i %d -c DEFAULT",
                device->index, device->name, device->index);
}

Status gpu_serves(const Device *device, bool by_mps, Error *err) {
    CudaShare block;
    TRY(check_compute_mode(device, by_mps, err));
    TRY(cuda_share_create(&block, sizeof(uint64_t), err));
    cuda_share_free(&block);
    return STATUS_OK;
}

bool gpu_has_blas(void) {
    Error err;
    return cuda_blas_find(&err) == STATUS_OK;
}

Status gpu_view_memory(const char **name, const Device *device, Error *err) {
    CudaView view;
    const Status status = cuda_view_create(&view, sizeof(float), device->index, err);
    *name = cuda_view_kinds[view.kind];
    cuda_view_free(&view);
    return status;
}
