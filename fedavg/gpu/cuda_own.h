// The parameters that stay with the clients of a launch (rules/local/personal_rules.h), around their training on the
// GPU: some of the model's, or all of a second model, which is trained before the shared one.
//
//   TRY(cuda_own_init(&own, &arrays, memory, models, err));
//   each launch: TRY(cuda_own_begin(&own, weights, jobs, count, stream, err));  // added to the global weights
//                ... they train ...
//                TRY(cuda_own_conclude(&own, &rows, weights, global, jobs, count, stream, err)); // new rows
//   cuda_arrays_free(&arrays);
#ifndef SOUNDER_FEDAVG_GPU_CUDA_OWN_H
#define SOUNDER_FEDAVG_GPU_CUDA_OWN_H

#include <cuda_runtime_api.h>

#include "base/err.h"
#include "fedavg/gpu/cuda_blocks.h"
#include "fedavg/gpu/cuda_state_rows.h"
#include "fedavg/memory/run_memory.h"

typedef struct CudaOwn {
    const RunMemory *memory; // borrowed
    uint32_t floats;         // of a row; 0: no parameters stay
    float *rows;             // device (models, floats)
    uint32_t *places;        // device (floats): the parameter that a float of a row belongs to
    float *initial;          // device (parameters): what rows of a second model are added to; NULL: the global weights
} CudaOwn;

// Device bytes of the arrays.
uint64_t cuda_own_bytes(const RunConfig *config, uint32_t models);

// Without such parameters the calls below do nothing. arrays: their owner.
Status cuda_own_init(CudaOwn *self, CudaArrays *arrays, const RunMemory *memory, uint32_t models, Error *err);

// weights (models strided): the local models, which are copies of the global one; they become the clients' own.
// Asynchronous.
Status cuda_own_begin(const CudaOwn *self, float *weights, Job *const *jobs, uint32_t count, cudaStream_t stream,
                      Error *err);

// The trained parameters that stay go into the clients' new rows; in the weights they become the global ones again, so
// that updates are without them. Waits.
Status cuda_own_conclude(const CudaOwn *self, const CudaStateRows *rows, float *weights, const float *global,
                         Job *const *jobs, uint32_t count, cudaStream_t stream, Error *err);

#endif
