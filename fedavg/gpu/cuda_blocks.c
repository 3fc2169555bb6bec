#include "fedavg/gpu/cuda_blocks.h"

static void bind(CudaBlocks *blocks, const CardConfig *card) {
    uint8_t *weights = blocks->weights_block.memory, *data = blocks->data_block.memory;
    blocks->weights = (float *)(void *)weights;
    blocks->updates = (uint64_t *)(void *)(weights + card->updates_offset);
    blocks->generations = (uint32_t *)(void *)(weights + card->generations_offset);
    blocks->slots = blocks->slots_block.memory;
    blocks->train_pixels = data;
    blocks->train_labels = (const uint16_t *)(const void *)(data + card->train_labels_offset);
    blocks->test_pixels = data + card->test_pixels_offset;
    blocks->test_labels = (const uint16_t *)(const void *)(data + card->test_labels_offset);
}

Status cuda_blocks_create(CudaBlocks *blocks, CardConfig *card, Error *err) {
    *blocks = (CudaBlocks){0};
    Status status;
    TRY_GOTO(fail, cuda_share_create(&blocks->weights_block, card->weights_bytes, err));
    TRY_GOTO(fail, cuda_share_create(&blocks->slots_block, card->slots_bytes, err));
    TRY_GOTO(fail, cuda_share_create(&blocks->data_block, card->data_bytes, err));
    card->weights_handle = blocks->weights_block.handle;
    card->slots_handle = blocks->slots_block.handle;
    card->data_handle = blocks->data_block.handle;
    bind(blocks, card);
    return STATUS_OK;
fail:
    cuda_blocks_free(blocks);
    return status;
}

Status cuda_blocks_open(CudaBlocks *blocks, const CardConfig *card, Error *err) {
    *blocks = (CudaBlocks){0};
    Status status;
    TRY_GOTO(fail, cuda_share_open(&blocks->weights_block, &card->weights_handle, err));
    TRY_GOTO(fail, cuda_share_open(&blocks->slots_block, &card->slots_handle, err));
    TRY_GOTO(fail, cuda_share_open(&blocks->data_block, &card->data_handle, err));
    bind(blocks, card);
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
