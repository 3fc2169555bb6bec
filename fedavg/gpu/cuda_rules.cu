#include "cuda_rules.h"

#include <float.h>

#include "fedavg/rules/sum/aggregate.h"
#include "nn/cuda/cuda_launch.h"

// This file is compiled without fused operations (CMakeLists.txt): as on the CPU, each is rounded on its own.

namespace {

// The numbers that all server rules need of a weight, and leave there: one thread per weight.
struct ServerLoad {
    uint32_t states;
    bool sums, tells;
    double scale;
};

// Slots are integers: their order changes no bit. One that is not used holds sums of an earlier round.
__device__ int64_t sum_of(const CudaServerStep &at, uint32_t which, size_t i) {
    int64_t total = 0;
    for (int s = 0; s < at.slots; s++)
        if (at.used[s]) total += at.sums[((size_t)s * at.each + which) * at.stride + i];
    return total;
}

// The host's view gets the weight in the pass that computes it. The test finds infinities and NaNs: every comparison
// with a NaN is false.
__device__ void publish(const CudaServerStep &at, size_t i, float weight) {
    at.weights[i] = weight;
    at.host_view[i] = weight;
    if (!(fabsf(weight) <= FLT_MAX)) atomicAdd(at.not_finite, 1u);
}

// One kernel per server rule, made of the function that the CPU uses: which rule a run has is known before the launch,
// so that no thread branches on it. A rule's states are read and written as far as it has any; the loops over them are
// unrolled, so that they stay in registers. The sum of the slots is never stored: each slot is read once, here.
#define SERVER_KERNEL(name)                                                                                            \
    __global__ void __launch_bounds__(ITEM_THREADS)                                                                    \
        name##_apply(CudaServerStep at, ServerLoad load, ServerTurn turn) {                                            \
        const size_t i = (size_t)blockIdx.x * ITEM_THREADS + threadIdx.x;                                              \
        if (i >= at.count) return;                                                                                     \
        ServerState state[SERVER_STATES] = {};                                                                         \
        float common = 0;                                                                                              \
        const Update update = {(double)sum_of(at, 0, i) * load.scale * at.factor, load.sums ? sum_of(at, 1, i) : 0};   \
        _Pragma("unroll") for (uint32_t s = 0; s < SERVER_STATES; s++) if (s < load.states) state[s] =                 \
            at.states[s][i];                                                                                           \
        publish(at, i, (float)server_##name((double)at.weights[i], update, state, &common, &turn));                    \
        _Pragma("unroll") for (uint32_t s = 0; s < SERVER_STATES; s++) if (s < load.states) at.states[s][i] =          \
            state[s];                                                                                                  \
        if (load.tells) at.common[i] = common;                                                                         \
    }
SERVER_RULES(SERVER_KERNEL)

#define SERVER_APPLY(name) name##_apply,
void (*const server_kernels[SERVER_RULE_COUNT])(CudaServerStep, ServerLoad, ServerTurn) = {SERVER_RULES(SERVER_APPLY)};

__global__ void __launch_bounds__(ITEM_THREADS) second_mean(float *mean, CudaServerStep at) {
    const size_t i = (size_t)blockIdx.x * ITEM_THREADS + threadIdx.x;
    if (i < at.count) mean[i] = (float)((double)sum_of(at, 1, i) / (AGGREGATE_UNIT * at.arrived));
}

// As parameter_at of local_rules.c.
__device__ Parameter parameter_at(const CudaTurns &at, const ModelItem &item) {
    const size_t place = item.model * at.stride + item.item;
    return {at.global[item.item], at.own[place], at.state ? at.state[place] : 0, at.common ? at.common[item.item] : 0,
            at.full_gradient ? at.full_gradient[place] : 0};
}

// One thread per weight of a model.
#define LOCAL_KERNELS(name)                                                                                            \
    __global__ void __launch_bounds__(ITEM_THREADS) name##_shifts(float *shifts, CudaTurns at) {                       \
        const ModelItem item = model_item(blockIdx.x, threadIdx.x, ITEM_THREADS, (uint32_t)at.count);                  \
        if (item.item >= at.count) return;                                                                             \
        const Parameter p = parameter_at(at, item);                                                                    \
        shifts[item.model * at.stride + item.item] =                                                                   \
            local_##name##_shift(&p, &at.turns[item.model]) - at.pulls[item.model] * p.global;                         \
    }                                                                                                                  \
    __global__ void __launch_bounds__(ITEM_THREADS)                                                                    \
        name##_keeps(float *state_after, uint32_t *unfit, CudaTurns at, float limit) {                                 \
        const ModelItem item = model_item(blockIdx.x, threadIdx.x, ITEM_THREADS, (uint32_t)at.count);                  \
        if (item.item >= at.count) return;                                                                             \
        const Parameter p = parameter_at(at, item);                                                                    \
        const float state = local_##name##_keep(&p, &at.turns[item.model]);                                            \
        state_after[item.model * at.stride + item.item] = state;                                                       \
        if (!(fabsf(state) < limit)) atomicAdd(&unfit[item.model], 1u);                                                \
    }
LOCAL_RULES(LOCAL_KERNELS)

#define SHIFT_KERNEL(name) name##_shifts,
void (*const shift_kernels[LOCAL_RULE_COUNT])(float *, CudaTurns) = {LOCAL_RULES(SHIFT_KERNEL)};
#define KEEP_KERNEL(name) name##_keeps,
void (*const keep_kernels[LOCAL_RULE_COUNT])(float *, uint32_t *, CudaTurns, float) = {LOCAL_RULES(KEEP_KERNEL)};

// One thread a weight: the models one after the other, all into one integer.
__global__ void __launch_bounds__(ITEM_THREADS)
    add_changes(int64_t *changes, const float *state_after, const float *state, const double *shares, size_t count,
                size_t stride, int models, CudaFence fence) {
    const size_t i = (size_t)blockIdx.x * ITEM_THREADS + threadIdx.x;
    if (i >= count || !is_open(fence)) return;
    int64_t total = changes[i];
    for (int m = 0; m < models; m++) {
        const size_t place = (size_t)m * stride + i;
        const double change = (double)state_after[place] - (double)state[place];
        if (shares[m] > 0) total += __double2ll_rn(change * AGGREGATE_UNIT);
    }
    changes[i] = total;
}

// After the step, on the tensors of variances alone: the square root of a negative one would be no number.
__global__ void __launch_bounds__(ITEM_THREADS) floor_at_zero(float *weights, float *host_view, size_t count) {
    const size_t i = (size_t)blockIdx.x * ITEM_THREADS + threadIdx.x;
    if (i < count && weights[i] < 0) weights[i] = host_view[i] = 0;
}

size_t blocks_of(size_t count) {
    return (count + ITEM_THREADS - 1) / ITEM_THREADS;
}

} // namespace

void cuda_server_apply(const CudaServerStep *step, const ServerTurn *turn, uint32_t row, cudaStream_t stream) {
    const ServerRule *rule = server_rules[row];
    const ServerLoad load = {rule->states, rule->sums, rule->tells, 1.0 / (AGGREGATE_UNIT * step->arrived)};
    // A failure shows in cudaGetLastError, as with launches.
    (void)cudaMemsetAsync(step->not_finite, 0, sizeof *step->not_finite, stream);
    launch(server_kernels[row], blocks_of(step->count), ITEM_THREADS, stream, *step, load, *turn);
}

void cuda_server_mean(float *mean, const CudaServerStep *step, cudaStream_t stream) {
    launch(second_mean, blocks_of(step->count), ITEM_THREADS, stream, mean, *step);
}

void cuda_floor(float *weights, float *host_view, size_t count, cudaStream_t stream) {
    launch(floor_at_zero, blocks_of(count), ITEM_THREADS, stream, weights, host_view, count);
}

void cuda_local_shift(float *shifts, const CudaTurns *at, uint32_t row, cudaStream_t stream) {
    launch(shift_kernels[row], (size_t)at->models * blocks_of(at->count), ITEM_THREADS, stream, shifts, *at);
}

void cuda_local_conclude(float *state_after, uint32_t *unfit, const CudaTurns *at, float limit, uint32_t row,
                         cudaStream_t stream) {
    (void)cudaMemsetAsync(unfit, 0, (size_t)at->models * sizeof *unfit, stream);
    launch(keep_kernels[row], (size_t)at->models * blocks_of(at->count), ITEM_THREADS, stream, state_after, unfit, *at,
           limit);
}

void cuda_local_add_changes(int64_t *changes, const float *state_after, const double *shares, const CudaTurns *at,
                            const CudaFence *fence, cudaStream_t stream) {
    launch(add_changes, blocks_of(at->count), ITEM_THREADS, stream, changes, state_after, at->state, shares, at->count,
           at->stride, at->models, *fence);
}
