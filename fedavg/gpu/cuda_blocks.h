// The three blocks of the GPU's memory that the processes of a run share: the parent's to create, the workers' to
// open. config.gpu (fedavg/memory/layout.h) has the offsets of the arrays in them.
#ifndef SOUNDER_FEDAVG_GPU_CUDA_BLOCKS_H
#define SOUNDER_FEDAVG_GPU_CUDA_BLOCKS_H

#include <cuda_runtime_api.h>

#include "base/err.h"
#include "base/owned.h"
#include "datasets/dataset.h"
#include "fedavg/memory/layout.h"
#include "fedavg/rules/server/server_rule.h"
#include "nn/answers.h"
#include "nn/cuda/cuda_net.h"
#include "shm/cuda_share.h"

// All pointers are device memory and borrow from the blocks. A rank's generation is the word of its fence: a worker
// reads it once when it starts, and each of its kernels that writes shared memory reads it again and compares. When the
// worker is dead the parent raises the word, so that kernels which are still queued write nothing.
typedef struct CudaBlocks {
    CudaShare weights_block, slots_block, data_block;
    float *weights;                             // (parameters)
    uint64_t *updates;                          // Hogwild: steps applied in this round
    uint32_t *generations;                      // (MAX_WORKERS) of each rank's process: the word of its fence
    uint8_t *slots;                             // config.slots says where in it what lies
    const uint8_t *train_pixels, *test_pixels;  // (samples, C,H,W)
    const uint16_t *train_labels, *test_labels; // (samples)
} CudaBlocks;

// Parent: zeroed blocks, whose handles are stored in *gpu. Worker: opens the blocks that the handles name; UNAVAILABLE
// where CUDA IPC does not work. Nothing to free on failure.
Status cuda_blocks_create(CudaBlocks *blocks, GpuConfig *gpu, Error *err);
Status cuda_blocks_open(CudaBlocks *blocks, const GpuConfig *gpu, Error *err);
void cuda_blocks_free(CudaBlocks *blocks);

// The arrays of the slots block (parameters).
float *cuda_blocks_vector(const CudaBlocks *blocks, const SlotPlan *slots, uint32_t index);
ServerState *cuda_blocks_state(const CudaBlocks *blocks, const SlotPlan *slots, uint32_t index);
int64_t *cuda_blocks_sum(const CudaBlocks *blocks, const SlotPlan *slots, uint32_t rank, uint32_t which);

// Work of a parent or worker on its stream. `from` and `to` may be memory of the host or of the GPU. Both must be kept
// as they are until cuda_wait: CUDA does not promise that pageable host memory has been read when cuda_copy returns.
Status cuda_copy(void *to, const void *from, size_t bytes, cudaStream_t stream, Error *err);
Status cuda_clear(void *memory, size_t bytes, cudaStream_t stream, Error *err);

// Has the threads of this process sleep while they wait for the GPU, if there are as many workers as cores: the parent
// and the workers would take the cores from each other.
Status cuda_leave_cores(const RunConfig *config, Error *err);

// Waits for all work on the stream; UNAVAILABLE, with `what` it was, if some of it failed.
Status cuda_wait(cudaStream_t stream, Error *err, const char *what);

// The arrays that a parent or a worker owns, freed by one call, which serves an init that failed, too. All zeros: none.
typedef struct CudaArrays {
    Owned host;   // by own()
    Owned device; // the addresses of those of cuda_allocate
} CudaArrays;

// *pointer (count * item_bytes) = zeros in device memory; `what` it is for, for the error. A count of 0: NULL stays.
Status cuda_allocate(CudaArrays *arrays, void *pointer, size_t count, size_t item_bytes, const char *what, Error *err);
void cuda_arrays_free(CudaArrays *arrays);

// The test set on the GPU: one net in evaluation mode over all its samples.

// weights, pixels (data->test.count, C,H,W) and labels (data->test.count): device memory, borrowed. samples: how the
// one model sees them; NULL: as they are.
struct CudaSamples;
Status cuda_evaluator_init(CudaNet **net, float *weights, const uint8_t *pixels, const uint16_t *labels,
                           const struct CudaSamples *samples, const Spec *spec, const Dataset *data, bool tf32,
                           Error *err);

// Loss and hits of the weights as they are now; logits (test count, classes; host) of each sample, NULL if unused.
// Waits.
Status cuda_evaluator_run(BatchResult *result, float *logits, CudaNet *net, const Dataset *data, Error *err);

// cuda_evaluator_run with the answer to each sample (test count), whose label is the one that `samples` shows.
Status cuda_evaluator_answer(BatchResult *result, Answer *answers, CudaNet *net, const struct CudaSamples *samples,
                             const Dataset *data, Error *err);

#endif
