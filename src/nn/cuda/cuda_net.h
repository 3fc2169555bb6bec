// Many nets at work on one GPU: M models of one architecture in lockstep, each on its own samples.
//
//   TRY(cuda_net_init(&net, &plan, err));
//   TRY(cuda_net_assign(&net, m, &task, fresh, err));        // for each model: what it trains on from now on
//   TRY(cuda_net_train(&net, steps, err));                  // steps of SGD: graph replays, a handful of launches
//   TRY(cuda_net_results(&net, results, err));              // waits; sums of the losses since the assignment
//   cuda_net_free(&net);
//
// The data set, the order of the samples, weights, velocities and gradients are device memory of the caller's (plan),
// so that they may be imported from another process. Activations are the net's own. One local step is captured once in
// a CUDA graph; a second graph holds several in a row, and a local epoch is a few launches. What changes between steps
// (step number, counts, first sample) is kept and advanced on the device.
//
// The same calls give the same bits in every run. A model's bits depend neither on its place among the models nor on
// what the others do, so that a client may be trained again in other company; they do depend on M and on the batch
// size, for which cuBLAS and the convolutions choose how they divide their sums, and for cuBLAS on the GPU's number of
// multiprocessors, of which a slice of a GPU (MIG) or a client of MPS with a share of the threads has fewer.
#ifndef SOUNDER_NN_CUDA_CUDA_NET_H
#define SOUNDER_NN_CUDA_CUDA_NET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "nn/spec.h"
#include "nn/step.h"

#ifdef __cplusplus
extern "C" {
#endif

// Whether the work of a process still counts. What a process has asked of the GPU may begin after its death: kernels
// that write what processes share do nothing once somebody has changed the word.
typedef struct CudaFence {
    const uint32_t *word; // device; NULL: always open
    uint32_t expected;
} CudaFence;

// How a step follows from a gradient where not as plain SGD: all zeros for that.
typedef struct CudaOptimizer {
    bool nesterov;
    Adam adam;      // where there are squares
    float *squares; // (M strided by parameters) device, of the caller's; NULL: SGD
    double clip;    // the length that a model's gradient may have; 0: any
} CudaOptimizer;

// Device pointers, all of the caller's.
typedef struct CudaNetPlan {
    Spec spec;
    int models;          // M
    uint32_t batch_size; // samples of one model in one step, at most
    bool tf32;           // products may round their factors to 10 bits
    Sgd sgd;
    const uint8_t *pixels;      // the data set: (samples, C,H,W)
    const uint16_t *labels;     // (samples)
    const uint32_t *order;      // indices of samples, see CudaTask; NULL: samples themselves are numbered
    float scale[16], shift[16]; // by channel, host values
    float *weights;             // (M strided) parameters
    size_t weights_stride;      // floats; 0: all models share one array, which then only M = 1 may train (Hogwild)
    float *velocity;            // (M strided by parameters); NULL: only gradients and evaluation are wanted
    CudaOptimizer optimizer;
    const float *gradient_shifts; // (M strided by parameters): joins every gradient; NULL: none
    const float *pulls;           // (M): on top of the weight decay; where there are gradient_shifts
    float *gradient;              // (M strided by parameters); NULL: only evaluation is wanted. Scratch of training
    uint64_t *updates;            // Hogwild: steps applied by everybody so far, counted on the device; NULL otherwise
    bool atomic_updates;          // Hogwild: one atomic add a weight instead of plain stores
    CudaFence fence;              // Hogwild: the weights are written only while it is open
} CudaNetPlan;

// What model m does: steps through order[first] ... order[first + count - 1] in batches. Its batch b is number
// noise.step + b of its dropout noise.
typedef struct CudaTask {
    uint32_t first, count; // count 0: idle
    Noise noise;
} CudaTask;

typedef struct CudaNet CudaNet;

// Device bytes of the net itself, besides what the plan points to.
size_t cuda_net_bytes(const Spec *spec, int models, uint32_t batch_size);

// USAGE for a plan that cannot work, UNAVAILABLE without cuBLAS, OS for want of memory: nothing to free then.
Status cuda_net_init(CudaNet **net, const CudaNetPlan *plan, Error *err);
void cuda_net_free(CudaNet *net); // NULL is allowed

// Asynchronous, and not even a launch: what was assigned goes to the GPU with the next call below. With `fresh`, the
// model's loss sum and hits start from zero. Models that were never assigned anything are idle.
Status cuda_net_assign(CudaNet *net, int model, const CudaTask *task, bool fresh, Error *err);

// The learning rate from the next step on; that of the plan until then.
Status cuda_net_set_lr(CudaNet *net, float lr, Error *err);

// Asynchronous. `steps` steps of SGD on all models; a model that has come to its end idles. With updates (Hogwild), a
// step whose gradient is not finite is not applied; staleness is counted.
Status cuda_net_train(CudaNet *net, uint32_t steps, Error *err);

// Asynchronous. The gradient of one step (into plan.gradient; zeros for idle models), no update; and on to the next
// step.
Status cuda_net_gradient(CudaNet *net, Error *err);

// Asynchronous. Loss and hits of the next `steps` batches of each task in evaluation mode, no dropout.
Status cuda_net_evaluate(CudaNet *net, uint32_t steps, Error *err);

// Waits for the stream. results (M): since the last fresh assignment.
Status cuda_net_results(CudaNet *net, BatchResult *results, Error *err);

// Hogwild, after cuda_net_results: refused steps, and the sum of staleness and its histogram (buckets) since the last
// call; the last bucket counts that many updates or more. buckets: 1 to CUDA_NET_BUCKETS.
enum { CUDA_NET_BUCKETS = 64 };
Status cuda_net_staleness(CudaNet *net, uint64_t *refused, uint64_t *sum, uint64_t *histogram, int buckets, Error *err);

// Waits. logits (count, classes) of the next `count` samples of model 0's task, sample-major, host memory: for tests
// and tools.
Status cuda_net_logits(CudaNet *net, float *logits, uint32_t count, Error *err);

// The stream everything above runs on (a cudaStream_t), for copies that must be ordered with it.
void *cuda_net_stream(CudaNet *net);

#ifdef __cplusplus
}
#endif

#endif
