// The functions of a run on the GPU, in two builds, one of which is linked: gpu_none.c, where the program has no CUDA,
// and cuda_parent.c, cuda_worker.c, .... Call them only after device_open has succeeded.
//
// The parent owns all memory that several processes use (shm/cuda_share.h): the weights, one slot per worker or client,
// the data set; workers import it, which is also the probe whether CUDA IPC works here. A process allocates for itself
// what it alone uses (local models, activations, the order of the samples). Sums, weights and metrics are those of the
// CPU within the rounding of the nets' arithmetic; the mean itself is exact as there.
#ifndef SOUNDER_FEDAVG_GPU_GPU_H
#define SOUNDER_FEDAVG_GPU_GPU_H

#include "base/device.h"
#include "base/err.h"
#include "datasets/dataset.h"
#include "fedavg/parent/parent_backend.h"
#include "fedavg/worker/worker_backend.h"
#include "nn/spec.h"
#include "nn/step.h"

const ParentBackend *parent_on_gpu(void); // NULL in a build without CUDA
const WorkerBackend *worker_on_gpu(void); // NULL in a build without CUDA

// Whether a run's processes can use an open GPU: UNAVAILABLE or OS with one sentence where its compute mode admits one
// process alone and there is no MPS (by_mps), or memory cannot be exported to workers. CUDA IPC may still refuse to
// open that memory, which only a worker can find out.
Status gpu_serves(const Device *device, bool by_mps, Error *err);

// Whether cuBLAS is there, without which some nets train on the CPU (cuda_net_needs_blas).
bool gpu_has_blas(void);

// Names the memory in which a run's host would see its model: "managed memory", "pinned memory" or "a copy".
Status gpu_view_memory(const char **name, const Device *device, Error *err);

// Fills in config->gpu but for the handles: sizes, offsets, and models_per_launch, which is `models`, or with 0 as
// many as the cohort (clients_per_round) gives each worker and the free memory holds. OS with the numbers, and how many
// workers would fit, when device->free_bytes do not hold it all. USAGE for a net that no GPU can compute so.
// UNAVAILABLE if the net's products are cuBLAS's, which is missing.
Status gpu_plan(RunConfig *config, const Device *device, const Spec *spec, const Dataset *data,
                uint32_t clients_per_round, uint32_t models, Error *err);

// Bytes of the GPU that a planned run takes, by what they are for.
typedef struct GpuNeed {
    uint64_t contexts, weights, data, activations; // weights: the global model, slots and local models
    uint64_t all;
} GpuNeed;

// After gpu_plan: what the run needs of device->free_bytes.
GpuNeed gpu_need(const RunConfig *config, const Spec *spec, const Dataset *data);

// Loss and hits of parameters (host) on the whole test set (host), for a program of one process. logits (test count,
// classes; host): of each sample; NULL: not wanted.
Status gpu_evaluate(BatchResult *result, float *logits, const float *parameters, const Spec *spec, const Dataset *data,
                    bool tf32, Error *err);

#endif
