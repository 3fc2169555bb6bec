#include "fedavg/gpu/cuda_blocks.h"

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

void cuda_blocks_free(CudaBlocks *blocks) {
    cuda_share_free(&blocks->data_block);
    cuda_share_free(&blocks->slots_block);
    cuda_share_free(&blocks->weights_block);
    *blocks = (CudaBlocks){0};
}

float *cuda_blocks_vector(const CudaBlocks *blocks, const SlotPlan *slots, uint32_t index) {
    return (float *)(void *)(blocks->slots + slots_vector_offset(slots, index));
}

ServerState *cuda_blocks_state(const CudaBlocks *blocks, const SlotPlan *slots, uint32_t index) {
    return (ServerState *)(void *)(blocks->slots + slots_state_offset(slots, index));
}

int64_t *cuda_blocks_sum(const CudaBlocks *blocks, const SlotPlan *slots, uint32_t rank, uint32_t which) {
    return (int64_t *)(void *)(blocks->slots + slots_sum_offset(slots, rank, which));
}
