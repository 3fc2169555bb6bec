#include "fedavg/gpu/cuda_blocks.h"

#include "base/cores.h"
#include "base/cuda_try.h"
#include "base/device.h"

// Parent and workers compute the pointers here and nowhere else, from offsets in the shared configuration: each process
// maps the blocks at addresses of its own, so that no pointer can be handed over.
static void bind(CudaBlocks *blocks, const GpuConfig *gpu) {
    uint8_t *weights = blocks->weights_block.memory, *data = blocks->data_block.memory;
    blocks->weights = (float *)(void *)weights;
    blocks->updates = (uint64_t *)(void *)(weights + gpu->updates_offset);
    blocks->generations = (uint32_t *)(void *)(weights + gpu->generations_offset);
    blocks->slots = blocks->slots_block.memory;
    blocks->train_pixels = data;
    blocks->train_labels = (const uint16_t *)(const void *)(data + gpu->train_labels_offset);
    blocks->test_pixels = data + gpu->test_pixels_offset;
    blocks->test_labels = (const uint16_t *)(const void *)(data + gpu->test_labels_offset);
}

// The handles go into the run's configuration in shared memory, from which workers open the blocks: the parent writes
// them before it starts the first worker.
Status cuda_blocks_create(CudaBlocks *blocks, GpuConfig *gpu, Error *err) {
    *blocks = (CudaBlocks){0};
    Status status;
    TRY_GOTO(fail, cuda_share_create(&blocks->weights_block, gpu->weights_bytes, err));
    TRY_GOTO(fail, cuda_share_create(&blocks->slots_block, gpu->slots_bytes, err));
    TRY_GOTO(fail, cuda_share_create(&blocks->data_block, gpu->data_bytes, err));
    gpu->weights_handle = blocks->weights_block.handle;
    gpu->slots_handle = blocks->slots_block.handle;
    gpu->data_handle = blocks->data_block.handle;
    bind(blocks, gpu);
    return STATUS_OK;
fail:
    cuda_blocks_free(blocks);
    return status;
}

// The offsets are in the configuration that the parent has completed before it started this process. CUDA IPC fails
// where processes may not share memory of the GPU (some containers and virtual GPUs); the error then says so.
Status cuda_blocks_open(CudaBlocks *blocks, const GpuConfig *gpu, Error *err) {
    *blocks = (CudaBlocks){0};
    Status status;
    TRY_GOTO(fail, cuda_share_open(&blocks->weights_block, &gpu->weights_handle, err));
    TRY_GOTO(fail, cuda_share_open(&blocks->slots_block, &gpu->slots_handle, err));
    TRY_GOTO(fail, cuda_share_open(&blocks->data_block, &gpu->data_handle, err));
    bind(blocks, gpu);
    return STATUS_OK;
fail:
    cuda_blocks_free(blocks);
    return status;
}

// Frees what the parent has created and closes what a worker has opened; shm/cuda_share.h knows which of the two it is.
void cuda_blocks_free(CudaBlocks *blocks) {
    cuda_share_free(&blocks->data_block);
    cuda_share_free(&blocks->slots_block);
    cuda_share_free(&blocks->weights_block);
    *blocks = (CudaBlocks){0};
}

// The layout of the slots is that of the shared memory of a run on the CPU (layout.h): only the base differs.
float *cuda_blocks_vector(const CudaBlocks *blocks, const SlotPlan *slots, uint32_t index) {
    return (float *)(void *)(blocks->slots + slots_vector_offset(slots, index));
}

ServerState *cuda_blocks_state(const CudaBlocks *blocks, const SlotPlan *slots, uint32_t index) {
    return (ServerState *)(void *)(blocks->slots + slots_state_offset(slots, index));
}

int64_t *cuda_blocks_sum(const CudaBlocks *blocks, const SlotPlan *slots, uint32_t rank, uint32_t which) {
    return (int64_t *)(void *)(blocks->slots + slots_sum_offset(slots, rank, which));
}

Status cuda_copy(void *to, const void *from, size_t bytes, cudaStream_t stream, Error *err) {
    if (bytes > 0)
        CUDA_TRY(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream), err, "copying %zu bytes", bytes);
    return STATUS_OK;
}

Status cuda_clear(void *memory, size_t bytes, cudaStream_t stream, Error *err) {
    CUDA_TRY(cudaMemsetAsync(memory, 0, bytes, stream), err, "clearing %zu bytes", bytes);
    return STATUS_OK;
}

// A launch that was refused (a bad configuration, a sticky error of an earlier kernel) shows only in cudaGetLastError;
// a kernel that fails while it runs shows at the synchronisation. Both are asked here, so that an error is reported
// beside the work that caused it.
Status cuda_wait(cudaStream_t stream, Error *err, const char *what) {
    CUDA_TRY(cudaGetLastError(), err, "%s", what);
    CUDA_TRY(cudaStreamSynchronize(stream), err, "%s", what);
    return STATUS_OK;
}

Status cuda_leave_cores(const RunConfig *config, Error *err) {
    if (config->workers < (uint32_t)cores_usable()) return STATUS_OK;
    return device_sleep_when_waiting((int)config->gpu.gpu, err);
}

// Clears the memory: models of a launch that have no client yet compute with it, and must not meet a NaN. cudaMemset
// does not wait for the GPU, and the parent's stream, which does not block, is not ordered after it.
Status cuda_allocate(CudaArrays *arrays, void *pointer, size_t count, size_t item_bytes, const char *what, Error *err) {
    const size_t bytes = count * item_bytes;
    if (bytes == 0) return STATUS_OK;
    void **memory = pointer, **note = own(&arrays->device, 1, sizeof *note);
    if (!note) return fail(err, STATUS_OS, "no memory for an address");
    CUDA_TRY(cudaMalloc(memory, bytes), err, "%zu bytes for %s", bytes, what);
    *note = *memory;
    CUDA_TRY(cudaMemset(*memory, 0, bytes), err, "clearing %zu bytes for %s", bytes, what);
    return cuda_wait(0, err, what);
}

// An address of NULL, which cudaFree takes, is that of an array that could not be allocated.
void cuda_arrays_free(CudaArrays *arrays) {
    for (void **note = NULL; (note = owned_before(&arrays->device, note));)
        cudaFree(*note);
    owned_free(&arrays->device);
    owned_free(&arrays->host);
}
