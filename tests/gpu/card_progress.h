// Where the models of an op test stand in their tasks: what cuda_gather begins and cuda_softmax_cross_entropy ends.
#ifndef SOUNDER_TESTS_GPU_CARD_PROGRESS_H
#define SOUNDER_TESTS_GPU_CARD_PROGRESS_H

#include "card_tensor.h"
#include "nn/cuda/cuda_progress.h"

enum { CARD_PROGRESS_WORDS = 8 }; // a model

// As at the begin of a step with counts[m] samples from firsts[m] on. Counters are zero.
typedef struct CardProgress {
    CudaProgress on_card;
    CardTensor words, losses;
    size_t models;
} CardProgress;

static inline CardProgress card_progress(const uint32_t *firsts, const uint32_t *counts, size_t models,
                                         uint32_t batch_size) {
    CardProgress progress = {.models = models};
    progress.words = card_zeros(CARD_PROGRESS_WORDS * models * sizeof(uint32_t));
    progress.losses = card_zeros(models * sizeof(double));
    uint32_t *at = card_at(progress.words);
    progress.on_card = (CudaProgress){.models = (int)models,
                                      .batch_size = batch_size,
                                      .counts = at,
                                      .firsts = at + models,
                                      .numbers = at + 2 * models,
                                      .next = at + 3 * models,
                                      .left = at + 4 * models,
                                      .next_numbers = at + 5 * models,
                                      .hits = at + 6 * models,
                                      .loss_sums = card_at(progress.losses)};
    const size_t bytes = models * sizeof(uint32_t);
    check_cuda(cudaMemcpy(progress.on_card.firsts, firsts, bytes, cudaMemcpyHostToDevice));
    check_cuda(cudaMemcpy(progress.on_card.counts, counts, bytes, cudaMemcpyHostToDevice));
    check_cuda(cudaMemcpy(progress.on_card.next, firsts, bytes, cudaMemcpyHostToDevice));
    check_cuda(cudaMemcpy(progress.on_card.left, counts, bytes, cudaMemcpyHostToDevice));
    return progress;
}

// One of its arrays. values: (models)
static inline void card_progress_read(uint32_t *values, const CardProgress *progress, const uint32_t *array) {
    check_cuda(cudaDeviceSynchronize());
    check_cuda(cudaMemcpy(values, array, progress->models * sizeof *values, cudaMemcpyDeviceToHost));
}

static inline void card_progress_free(const CardProgress *progress) {
    card_free(progress->words);
    card_free(progress->losses);
}

#endif
