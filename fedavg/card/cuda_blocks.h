// The three blocks of the card's memory that the processes of a run share: the parent's to create, the workers' to
// open. config.card (fedavg/memory/layout.h) says where in them what lies.
#ifndef SOUNDER_FEDAVG_CARD_CUDA_BLOCKS_H
#define SOUNDER_FEDAVG_CARD_CUDA_BLOCKS_H

#include "base/err.h"
#include "shm/cuda_share.h"
#include "fedavg/memory/layout.h"

// All pointers are device memory and borrow from the blocks.
typedef struct CudaBlocks {
    CudaShare weights_block, slots_block, data_block;
    float *weights;                             // (parameters)
    uint64_t *updates;                          // Hogwild: steps applied in this round
    uint8_t *slots;                             // stride config.card.slot_bytes
    const uint8_t *train_pixels, *train_labels; // (samples, C,H,W), (samples)
    const uint8_t *test_pixels, *test_labels;
} CudaBlocks;

// Parent: zeroed blocks, whose handles go into card. Worker: what those handles name; UNAVAILABLE where CUDA IPC does
// not work. Nothing to free on failure.
Status cuda_blocks_create(CudaBlocks *blocks, CardConfig *card, Error *err);
Status cuda_blocks_open(CudaBlocks *blocks, const CardConfig *card, Error *err);
void cuda_blocks_free(CudaBlocks *blocks);

// Slot `index` as its algorithm sees it.
int64_t *cuda_blocks_sum(const CudaBlocks *blocks, const CardConfig *card, uint32_t rank);   // fedavg (parameters)
float *cuda_blocks_floats(const CudaBlocks *blocks, const CardConfig *card, uint32_t index); // others (parameters)

#endif
