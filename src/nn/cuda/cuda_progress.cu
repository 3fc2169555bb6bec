#include "cuda_progress.h"

#include <float.h>

#include "nn/cuda/cuda_launch.h"

namespace {

// Passed to the kernel by value: no copy to the device is needed, and the host's array may be reused at once.
struct Assignments {
    CudaAssignment of[CUDA_MOST_ASSIGNMENTS];
};

// A thread per assignment. The keys of dropout and crops are derived here once per task, not in every step.
__global__ void __launch_bounds__(CUDA_MOST_ASSIGNMENTS)
    assign(CudaProgress progress, const Assignments assignments, uint32_t count) {
    if (threadIdx.x >= count) return;
    const CudaAssignment &assignment = assignments.of[threadIdx.x];
    const CudaTask &task = assignment.task;
    uint32_t m = assignment.model;
    progress.next[m] = task.first;
    progress.left[m] = task.count;
    progress.next_numbers[m] = task.noise.step;
    for (int l = 0; l < progress.layers; l++)
        progress.keys[l * progress.models + (int)m] =
            rng_key(task.noise.seed, RNG_DROPOUT, task.noise.round, task.noise.client, (uint32_t)l);
    progress.keys[progress.layers * progress.models + (int)m] =
        augment_key(task.noise.seed, task.noise.round, task.noise.client);
    if (assignment.fresh) {
        progress.loss_sums[m] = 0;
        progress.hits[m] = 0;
    }
}

// Hogwild's weights are shared: one step with a NaN would spoil all processes' work, so the step is refused as a whole
// before any weight changes. One launch before the step costs a read of the gradient; a step that had to be taken back
// would need a copy of the weights.
__global__ void __launch_bounds__(ITEM_THREADS) judge(CudaProgress progress, const float *gradient, uint32_t count) {
    uint32_t i = blockIdx.x * ITEM_THREADS + threadIdx.x;
    if (i >= count) return;
    if (i == 0 && !is_open(progress.fence)) *progress.applied = 0;
    // False for a NaN, too. All threads that find such a value store the same zero.
    if (!(fabsf(gradient[i]) <= FLT_MAX)) *progress.applied = 0;
}

// Staleness is the number of updates by others between this step's reading of the weights and its own update. One
// thread is enough, as a run of Hogwild has one model per process. The counter is shared by processes, hence the
// addition for the whole system; it also gives this update its place in the order of all.
__global__ void __launch_bounds__(1) count_update(CudaProgress progress) {
    if (*progress.counts == 0) return;
    if (*progress.applied == 0) {
        ++*progress.refused;
        return;
    }
    uint64_t before = atomicAdd_system((unsigned long long *)progress.updates, 1ull); // of all processes
    uint64_t others = before - *progress.read_at;
    progress.staleness[others < CUDA_NET_BUCKETS ? others : CUDA_NET_BUCKETS - 1]++;
    progress.staleness[CUDA_NET_BUCKETS] += others;
}

} // namespace

void cuda_progress_assign(const CudaProgress *progress, const CudaAssignment *assignments, int count,
                          cudaStream_t stream) {
    Assignments by_value = {};
    for (int i = 0; i < count; i++)
        by_value.of[i] = assignments[i];
    launch(assign, 1, CUDA_MOST_ASSIGNMENTS, stream, *progress, by_value, (uint32_t)count);
}

void cuda_progress_judge(const CudaProgress *progress, const float *gradient, size_t count, cudaStream_t stream) {
    launch(judge, parts_of((uint32_t)count, ITEM_THREADS), ITEM_THREADS, stream, *progress, gradient, (uint32_t)count);
}

void cuda_progress_count(const CudaProgress *progress, cudaStream_t stream) {
    launch(count_update, 1, 1, stream, *progress);
}
