// The progress of a lockstep net's models in their tasks. It is stored and updated on the device, so that a captured
// step can be replayed any number of times without the host. cuda_gather begins a step, and cuda_softmax_cross_entropy
// moves the tasks to the next one.
#ifndef SOUNDER_NN_CUDA_CUDA_PROGRESS_H
#define SOUNDER_NN_CUDA_CUDA_PROGRESS_H

#include <cuda_runtime_api.h>
#include <stddef.h>
#include <stdint.h>

#include "base/host_device.h"
#include "base/rng.h"
#include "nn/cuda/cuda_net.h"

C_BEGIN

// Plain data, passed to kernels by value. All pointers are device memory.
typedef struct CudaProgress {
    int models, layers;
    uint32_t batch_size;
    // This step: each model's number of samples, its first sample, and the step's number in its noise. (M)
    uint32_t *counts, *firsts, *numbers;
    // The task: the next step's first sample, the number of samples left, and the next step's number. (M)
    uint32_t *next, *left, *next_numbers;
    RngKey *keys; // (layers + 1, M): of dropout, then of crops and flips
    // How models see the samples of the task: the plan's, or NULL.
    const SampleView *views;
    const uint16_t *labels_of;
    // Counters since the last fresh assignment. (M)
    double *loss_sums;
    uint32_t *hits;
    // Hogwild, one model. applied: counts, but 0 for a refused step.
    uint64_t *updates; // the plan's; NULL without Hogwild
    CudaFence fence;   // the plan's
    uint64_t *read_at; // *updates when this step began to read the weights
    uint32_t *applied;
    uint64_t *refused, *staleness; // counters; staleness: (CUDA_NET_BUCKETS), then the sum of all
} CudaProgress;

typedef struct CudaAssignment {
    CudaTask task;
    uint32_t model, fresh;
} CudaAssignment;

enum { CUDA_MOST_ASSIGNMENTS = 64 }; // per launch, as they are passed as a kernel's argument

// Each of the `count` assignments must be for another model.
void cuda_progress_assign(const CudaProgress *progress, const CudaAssignment *assignments, int count,
                          cudaStream_t stream);

// Hogwild: refuses this step if the gradient (count) is not finite, or the fence is closed.
void cuda_progress_judge(const CudaProgress *progress, const float *gradient, size_t count, cudaStream_t stream);

// Hogwild, after the weights have changed: counts the update and the number of other updates since the step began, or
// counts the refusal.
void cuda_progress_count(const CudaProgress *progress, cudaStream_t stream);

C_END

#endif
