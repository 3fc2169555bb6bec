#include "cuda_rules.h"

#include <float.h>

#include "fedavg/rules/aggregate.h"
#include "nn/cuda_launch.h"

// This file is compiled without fused operations (CMakeLists.txt): as on the CPU, each is rounded on its own.

namespace {

// What all server rules need of a weight, and leave behind: one thread a weight.
struct ServerLoad {
    uint32_t states;
    bool sums, tells;
    double scale;
};

__device__ int64_t sum_of(const CudaServerStep &at, uint32_t which, size_t i) {
    int64_t total = 0;
    for (int s = 0; s < at.slots; s++)
        if (at.used[s]) total += at.sums[((size_t)s * at.each + which) * at.stride + i];
    return total;
}

__device__ void publish(const CudaServerStep &at, size_t i, float weight) {
    at.weights[i] = weight;
    at.host_view[i] = weight;
    if (!(fabsf(weight) <= FLT_MAX)) atomicAdd(at.not_finite, 1u);
}

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
#undef SERVER_KERNEL

#define SERVER_ROW(name) name##_apply,
void (*const server_kernels[SERVER_RULE_COUNT])(CudaServerStep, ServerLoad, ServerTurn) = {SERVER_RULES(SERVER_ROW)};
#undef SERVER_ROW

size_t blocks_of(size_t count) {
    return (count + ITEM_THREADS - 1) / ITEM_THREADS;
}

} // namespace

void cuda_server_apply(const CudaServerStep *step, const ServerTurn *turn, uint32_t row, cudaStream_t stream) {
    const ServerRule *rule = server_rules[row];
    const ServerLoad load = {rule->states, rule->sums, rule->tells, 1.0 / (AGGREGATE_UNIT * step->arrived)};
    // What fails shows in cudaGetLastError, as with launches.
    (void)cudaMemsetAsync(step->not_finite, 0, sizeof *step->not_finite, stream);
    launch(server_kernels[row], blocks_of(step->count), ITEM_THREADS, stream, *step, load, *turn);
}
