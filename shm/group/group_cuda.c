// Part of group_shared.h: moves and combines memory of a GPU that ranks share through CUDA IPC.
#include "shm/group/group_shared.h"

#include <cuda_runtime_api.h>

#include "base/cuda_try.h"
#include "shm/group/group_combine.h"

static Status copy(void *to, const void *from, size_t bytes, Error *err) {
    CUDA_TRY(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, NULL), err,
             "cannot move %zu bytes on the GPU between ranks", bytes);
    return STATUS_OK;
}

static Status combine(void *out, const void *const *inputs, uint32_t ranks, size_t count, GroupType type, GroupOp op,
                      Error *err) {
    group_combine_cuda(out, inputs, ranks, count, type, op);
    CUDA_TRY(cudaGetLastError(), err, "cannot combine %zu %s of %u ranks on the GPU", count, group_type_name(type),
             ranks);
    return STATUS_OK;
}

// Kernels of two processes are not ordered, so the stream must have finished before other ranks are told.
static Status settle(Error *err) {
    CUDA_TRY(cudaStreamSynchronize(NULL), err, "what ranks exchange on the GPU has failed");
    return STATUS_OK;
}

static void attach(SharedGroup *shared, size_t slot_bytes) {
    shared->mover = (GroupMover){copy, copy, combine, settle};
    shared->device_slots = shared->device.memory;
    shared->payload_bytes = shared->device_slots + slot_bytes;
}

Status group_cuda_create(SharedGroup *shared, size_t slot_bytes, size_t ring_bytes, Error *err) {
    TRY(cuda_share_create(&shared->device, slot_bytes + ring_bytes, err));
    shared->header->device = shared->device.handle;
    attach(shared, slot_bytes);
    return STATUS_OK;
}

Status group_cuda_open(SharedGroup *shared, size_t slot_bytes, Error *err) {
    TRY(cuda_share_open(&shared->device, &shared->header->device, err));
    attach(shared, slot_bytes);
    return STATUS_OK;
}

void group_cuda_detach(SharedGroup *shared) {
    cuda_share_free(&shared->device);
}
