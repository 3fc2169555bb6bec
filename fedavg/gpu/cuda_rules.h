// The rules (fedavg/rules) on the GPU: the same functions of one weight, the same bits.
#ifndef SOUNDER_FEDAVG_GPU_CUDA_RULES_H
#define SOUNDER_FEDAVG_GPU_CUDA_RULES_H

#include <cuda_runtime_api.h>
#include <stddef.h>
#include <stdint.h>

#include "base/host_device.h"
#include "fedavg/rules/local/local_rules.h"
#include "fedavg/rules/server/server_rules.h"
#include "nn/cuda/cuda_net.h"

C_BEGIN

// All pointers are device memory; everything is asynchronous on `stream`, and what goes wrong shows in
// cudaGetLastError.

// A step of the server rule. The sums of slot s, `each` of them (of updates, of changes), begin s * each * stride
// elements after `sums`.
typedef struct CudaServerStep {
    float *weights, *common;            // (count); common: NULL unless the rule tells the clients something
    ServerState *states[SERVER_STATES]; // (count)
    float *host_view;                   // (count) managed memory that gets the new weights, too
    uint32_t *not_finite;               // overwritten with how many of them are not finite
    const int64_t *sums;
    const uint8_t *used; // (slots): those that are not are left out
    int slots;
    uint32_t each;
    size_t stride, count;
    double arrived, factor; // as in ServerSums
} CudaServerStep;

// Sums, steps and judges in one kernel. row: of the server rule (server_rules.h); turn: as on the CPU.
void cuda_server_apply(const CudaServerStep *step, const ServerTurn *turn, uint32_t row, cudaStream_t stream);

// mean (count): of the second sums of the slots that `step` reads, by its divisor, as aggregate_mean.
void cuda_server_mean(float *mean, const CudaServerStep *step, cudaStream_t stream);

// Both (count): what is negative becomes zero, as in tensors_floor_variances.
void cuda_floor(float *weights, float *host_view, size_t count, cudaStream_t stream);

// The local rule of `models` clients; model m's arrays begin m * stride floats after these, its turn is turns[m].
typedef struct CudaTurns {
    const float *global, *common; // (count) of all models; common: NULL where the rule reads none
    const float *own, *state;     // (models strided; count); state: NULL where clients keep nothing
    const float *full_gradient;   // (models strided; count); NULL: zeros
    const LocalTurn *turns;       // (models)
    const float *pulls;           // (models): local_pull of each
    size_t count, stride;
    int models;
} CudaTurns;

// shifts (models strided; count), as local_shift.
void cuda_local_shift(float *shifts, const CudaTurns *at, uint32_t row, cudaStream_t stream);

// state_after (models strided; count), as local_conclude; unfit (models): overwritten with how many elements of each
// are not below the limit.
void cuda_local_conclude(float *state_after, uint32_t *unfit, const CudaTurns *at, float limit, uint32_t row,
                         cudaStream_t stream);

// changes (count) += what the models with a share keep more than before, in units of 2^-40.
void cuda_local_add_changes(int64_t *changes, const float *state_after, const double *shares, const CudaTurns *at,
                            const CudaFence *fence, cudaStream_t stream);

C_END

#endif
