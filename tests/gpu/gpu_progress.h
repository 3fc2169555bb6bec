// Where the models of an op test stand in their tasks: what cuda_gather begins and cuda_softmax_cross_entropy ends.
#ifndef SOUNDER_TESTS_GPU_GPU_PROGRESS_H
#define SOUNDER_TESTS_GPU_GPU_PROGRESS_H

#include "gpu_tensor.h"
#include "nn/cuda/cuda_progress.h"

enum { GPU_PROGRESS_WORDS = 8 }; // a model

// As at the begin of a step with counts[m] samples from firsts[m] on. Counters are zero.
typedef struct GpuProgress {
    CudaProgress on_gpu;
    GpuTensor words, losses;
    size_t models;
} GpuProgress;

static inline GpuProgress gpu_progress(const uint32_t *firsts, const uint32_t *counts, size_t models,
                                       uint32_t batch_size) {
    GpuProgress progress = {.models = models};
    progress.words = gpu_zeros(GPU_PROGRESS_WORDS * models * sizeof(uint32_t));
    progress.losses = gpu_zeros(models * sizeof(double));
    uint32_t *at = gpu_at(progress.words);
    progress.on_gpu = (CudaProgress){.models = (int)models,
                                     .batch_size = batch_size,
                                     .counts = at,
                                     .firsts = at + models,
                                     .numbers = at + 2 * models,
                                     .next = at + 3 * models,
                                     .left = at + 4 * models,
                                     .next_numbers = at + 5 * models,
                                     .hits = at + 6 * models,
                                     .loss_sums = gpu_at(progress.losses)};
    const size_t bytes = models * sizeof(uint32_t);
    check_cuda(cudaMemcpy(progress.on_gpu.firsts, firsts, bytes, cudaMemcpyHostToDevice));
    check_cuda(cudaMemcpy(progress.on_gpu.counts, counts, bytes, cudaMemcpyHostToDevice));
    check_cuda(cudaMemcpy(progress.on_gpu.next, firsts, bytes, cudaMemcpyHostToDevice));
    check_cuda(cudaMemcpy(progress.on_gpu.left, counts, bytes, cudaMemcpyHostToDevice));
    return progress;
}

// One of its arrays. values: (models)
static inline void gpu_progress_read(uint32_t *values, const GpuProgress *progress, const uint32_t *array) {
    check_cuda(cudaDeviceSynchronize());
    check_cuda(cudaMemcpy(values, array, progress->models * sizeof *values, cudaMemcpyDeviceToHost));
}

static inline void gpu_progress_free(const GpuProgress *progress) {
    gpu_free(progress->words);
    gpu_free(progress->losses);
}

#endif
