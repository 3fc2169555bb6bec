// The rules (fedavg/rules) on the card: the same functions of one weight, the same bits.
#ifndef SOUNDER_FEDAVG_CARD_CUDA_RULES_H
#define SOUNDER_FEDAVG_CARD_CUDA_RULES_H

#include <cuda_runtime_api.h>
#include <stddef.h>
#include <stdint.h>

#include "fedavg/rules/local_rules.h"
#include "fedavg/rules/server_rules.h"

#ifdef __cplusplus
extern "C" {
#endif

// All pointers are device memory; everything is asynchronous on `stream`, and what goes wrong shows in
// cudaGetLastError.

// A step of the server rule. The sums of slot s, `each` of them (of updates, of changes), begin s * each * stride elements
// after `sums`.
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

void cuda_server_apply(const CudaServerStep *step, const ServerTurn *turn, uint32_t row, cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
