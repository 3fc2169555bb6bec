// The samples of a launch's clients as they see them (worker/view.h): each model of the launch gets a view of the data
// set on the GPU, and a label for each label of the data set.
//
//   TRY(cuda_samples_init(&samples, &arrays, memory, models, err));  // before the net, whose plan takes the arrays
//   cuda_samples_plan(&plan, &samples);
//   each launch: TRY(cuda_samples_train(&samples, jobs, count, round, stream, err));
//                ... steps, and a wait for the stream, which reads the host's arrays ...
//   cuda_samples_free(&samples), cuda_arrays_free(&arrays);
#ifndef SOUNDER_FEDAVG_GPU_CUDA_SAMPLES_H
#define SOUNDER_FEDAVG_GPU_CUDA_SAMPLES_H

#include <cuda_runtime_api.h>

#include "base/err.h"
#include "fedavg/gpu/cuda_blocks.h"
#include "fedavg/memory/run_memory.h"
#include "fedavg/worker/view.h"
#include "nn/cuda/cuda_net.h"

typedef struct CudaSamples {
    const RunMemory *memory;   // borrowed
    View view;                 // of one client after the other
    uint32_t models;           // of a launch, at most
    SampleView *views;         // device (models); NULL where clients see the data set as it is
    uint16_t *labels_of;       // device (models, classes); NULL where no label is replaced
    SampleView *host_views;    // (models)
    uint16_t *host_labels_of;  // (models, classes)
    uint16_t *false_labels_of; // (classes): an attacker's; NULL where no attack is on labels
} CudaSamples;

// Device bytes that they take.
size_t cuda_samples_bytes(const RunConfig *config, uint32_t models);

// arrays: the owner of the device arrays and the host's. To be freed also after a failure.
Status cuda_samples_init(CudaSamples *samples, CudaArrays *arrays, const RunMemory *memory, uint32_t models,
                         Error *err);
void cuda_samples_free(CudaSamples *samples);

// Fills in the plan's numbers of the data set and its views; pixels and labels are the caller's.
void cuda_samples_plan(CudaNetPlan *plan, const CudaSamples *samples);

// The models of jobs (count) train their clients in the round, test what the jobs of an evaluation say, or model 0 the
// test set.
Status cuda_samples_train(CudaSamples *samples, Job *const *jobs, uint32_t count, uint32_t round, cudaStream_t stream,
                          Error *err);
Status cuda_samples_test(CudaSamples *samples, Job *const *jobs, uint32_t count, uint32_t round, cudaStream_t stream,
                         Error *err);
Status cuda_samples_test_set(CudaSamples *samples, uint32_t round, cudaStream_t stream, Error *err);

// The most samples that the jobs of a launch name: all that clients train on, or all that are tested.
size_t cuda_samples_most(const RunMemory *memory);

// The indices of the training samples (count) that a client has in the round; borrowed.
const uint32_t *cuda_samples_of(const RunMemory *memory, uint32_t client, uint32_t round, uint32_t *count);

#endif
