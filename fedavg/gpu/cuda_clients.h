// The local rule's part of a launch's clients (rules/local/local_rules.h), around their training on the GPU.
//
//   TRY(cuda_clients_init(&clients, &arrays, memory, models, err)); // before the net, which takes shifts and pulls
//   each launch: TRY(cuda_clients_begin(&clients, jobs, count, round, blocks, weights, stream, err));
//                ... they train ...
//                TRY(cuda_clients_conclude(&clients, &rows, fits, jobs, count, err)); // their state is in new rows
//                cuda_clients_add_changes(&clients, changes, shares, fence);
//   cuda_arrays_free(&arrays);
#ifndef SOUNDER_FEDAVG_GPU_CUDA_CLIENTS_H
#define SOUNDER_FEDAVG_GPU_CUDA_CLIENTS_H

#include <cuda_runtime_api.h>

#include "base/err.h"
#include "fedavg/gpu/cuda_blocks.h"
#include "fedavg/gpu/cuda_rules.h"
#include "fedavg/gpu/cuda_state_rows.h"
#include "fedavg/memory/run_memory.h"

typedef struct CudaClients {
    const RunMemory *memory;             // borrowed
    cudaStream_t stream;                 // borrowed, of this launch
    uint32_t row, models;                // of the local rule; of a launch, at most
    CudaTurns at;                        // of this launch
    float *shifts, *state, *state_after; // device (models strided); NULL where the rule does without
    float *full_gradient;                // device (models strided): at the global weights; NULL: unused
    uint32_t *totals;                    // device (models): samples of each client; NULL: unused
    float *pulls;                        // device (models)
    LocalTurn *turns;                    // device (models)
    uint32_t *unfit;                     // device (models)
    LocalTurn *host_turns;               // (models)
    float *host_pulls;                   // (models)
    uint32_t *host_unfit;                // (models)
    uint32_t *host_totals;               // (models)
} CudaClients;

// How many arrays of a model's size a client needs for its rule: none if that adds nothing to the client's gradients.
uint32_t cuda_clients_arrays(const RunConfig *config);

// Where the rule adds nothing to any gradient, shifts stays NULL and the calls below do nothing. arrays: the owner of
// the clients' arrays.
Status cuda_clients_init(CudaClients *clients, CudaArrays *arrays, const RunMemory *memory, uint32_t models,
                         Error *err);

// weights (models strided): the local models, into which the caller has copied the global one.
Status cuda_clients_begin(CudaClients *clients, Job *const *jobs, uint32_t count, uint32_t round,
                          const CudaBlocks *blocks, const float *weights, cudaStream_t stream, Error *err);

// The next training is that of second models, each pulled to the global one (PersonalPlan.lambda). Waits.
Status cuda_clients_pull(CudaClients *clients, uint32_t count, const CudaBlocks *blocks, const float *weights,
                         cudaStream_t stream, Error *err);

// fits (count): whether what each client would keep is finite and small enough to be summed over all. Waits.
Status cuda_clients_conclude(CudaClients *clients, const CudaStateRows *rows, bool *fits, Job *const *jobs,
                             uint32_t count, Error *err);

// changes (parameters) += those of the models with a share (device). Only for rules whose clients keep a state.
void cuda_clients_add_changes(const CudaClients *clients, int64_t *changes, const double *shares,
                              const CudaFence *fence);

// The next launch is plain training, to which the rule adds nothing (fine-tuning before an evaluation).
Status cuda_clients_rest(CudaClients *clients, cudaStream_t stream, Error *err);

#endif
