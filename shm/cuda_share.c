#include "shm/cuda_share.h"

#include <assert.h>
#include <cuda_runtime_api.h>
#include <string.h>
#include <sys/random.h>

#include "base/cuda_try.h"

static_assert(sizeof(cudaIpcMemHandle_t) == CUDA_SHARE_HANDLE_BYTES, "CUDA's handle fits ours exactly");

// The nonce's place follows from the allocation's size alone, which owner and importers both know.
static void *nonce_place(void *memory, uint64_t bytes) {
    return (char *)memory + bytes - sizeof(uint64_t);
}

// Writes zeros and the nonce, and gets the handle that names the allocation.
static Status prepare(CudaShare *block, uint64_t bytes, Error *err) {
    uint64_t nonce;
    if (getrandom(&nonce, sizeof nonce, 0) != sizeof nonce)
        return fail_errno(err, STATUS_OS, "no random number for a block of GPU memory");
    CUDA_TRY(cudaMemset(block->memory, 0, bytes), err, "cannot clear %llu bytes of GPU memory",
             (unsigned long long)bytes);
    CUDA_TRY(cudaMemcpy(nonce_place(block->memory, bytes), &nonce, sizeof nonce, cudaMemcpyHostToDevice), err,
             "cannot write to GPU memory");
    // Neither call has waited for the GPU, and other streams and processes are not ordered after these writes.
    CUDA_TRY(cudaDeviceSynchronize(), err, "cannot clear %llu bytes of GPU memory", (unsigned long long)bytes);
    cudaIpcMemHandle_t handle;
    CUDA_TRY(cudaIpcGetMemHandle(&handle, block->memory), err,
             "GPU memory cannot be shared between processes here (CUDA IPC needs Linux, and neither WSL nor a virtual "
             "GPU; or use --device cpu)");
    memcpy(block->handle.handle, &handle, sizeof handle);
    block->handle.bytes = bytes;
    block->handle.nonce = nonce;
    return STATUS_OK;
}

Status cuda_share_create(CudaShare *block, size_t bytes, Error *err) {
    *block = (CudaShare){0};
    if (bytes > SIZE_MAX - CUDA_SHARE_UNIT_BYTES - sizeof(uint64_t))
        return fail(err, STATUS_OS, "%zu bytes of GPU memory are more than there can be", bytes);
    size_t units = (bytes + sizeof(uint64_t) + CUDA_SHARE_UNIT_BYTES - 1) / CUDA_SHARE_UNIT_BYTES;
    size_t allocation = units * CUDA_SHARE_UNIT_BYTES;
    CUDA_TRY(cudaMalloc(&block->memory, allocation), err, "cannot allocate %zu MiB of GPU memory", allocation >> 20);
    block->bytes = allocation - sizeof(uint64_t);
    Status status = prepare(block, allocation, err);
    if (status != STATUS_OK) cuda_share_free(block);
    return status;
}

static Status check_nonce(const CudaShare *block, Error *err) {
    uint64_t nonce;
    CUDA_TRY(cudaMemcpy(&nonce, nonce_place(block->memory, block->handle.bytes), sizeof nonce, cudaMemcpyDeviceToHost),
             err, "cannot read GPU memory that another process shares");
    if (nonce != block->handle.nonce)
        return fail(err, STATUS_UNAVAILABLE,
                    "GPU memory of the parent process shows other contents here (CUDA IPC needs both processes on one "
                    "GPU and in one PID namespace: docker run --pid=host; or use --device cpu)");
    return STATUS_OK;
}

Status cuda_share_open(CudaShare *block, const CudaShareHandle *handle, Error *err) {
    *block = (CudaShare){0};
    if (handle->bytes == 0 || handle->bytes % CUDA_SHARE_UNIT_BYTES != 0)
        return fail(err, STATUS_SOFTWARE, "a handle for %llu bytes of GPU memory: no whole number of 2 MiB",
                    (unsigned long long)handle->bytes);
    cudaIpcMemHandle_t name;
    memcpy(&name, handle->handle, sizeof name);
    CUDA_TRY(cudaIpcOpenMemHandle(&block->memory, name, cudaIpcMemLazyEnablePeerAccess), err,
             "cannot open GPU memory of the parent process (CUDA IPC needs Linux, not WSL, and both processes on one "
             "GPU and in one PID namespace: docker run --pid=host --ipc=host; or use --device cpu)");
    block->bytes = handle->bytes - sizeof(uint64_t);
    block->imported = true;
    block->handle = *handle;
    Status status = check_nonce(block, err);
    if (status != STATUS_OK) cuda_share_free(block);
    return status;
}

void cuda_share_free(CudaShare *block) {
    // Errors of these calls belong to earlier work, whose caller has reported them; the end of the process frees what
    // they cannot.
    if (block->memory && block->imported) cudaIpcCloseMemHandle(block->memory);
    if (block->memory && !block->imported) cudaFree(block->memory);
    cudaGetLastError();
    *block = (CudaShare){0};
}
