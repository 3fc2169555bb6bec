// Many nets at work on one GPU: M models of one architecture in lockstep, each on its own samples.
//
//   TRY(cuda_net_init(&net, &plan, err));
//   TRY(cuda_net_assign(&net, m, &task, fresh, err));        // for each model: its samples
//   TRY(cuda_net_train(&net, steps, err));                  // steps of SGD: graph replays, a handful of launches
//   TRY(cuda_net_results(&net, results, err));              // waits; sums of the losses since the assignment
//   cuda_net_free(&net);
//
// The caller allocates the device memory of the data set, the order of the samples, weights, velocities and gradients
// (plan), so that it can be imported from another process. The net allocates its activations. One local step is
// captured once in a CUDA graph, and a second graph holds several steps in a row, so that a local epoch takes a few
// launches. Everything that changes between steps (step number, counts, first sample) is stored and updated on the
// device.
//
// The same calls give the same bits in every run. A model's bits depend neither on its place among the models nor on
// the other models, nor on M, so that a client can be trained again beside other clients. They do depend on the batch
// size, by which the convolutions divide their sums. Those of cuBLAS depend also on M and on the GPU's number of
// multiprocessors: a slice of a GPU (MIG) or an MPS client with a share of the threads has fewer.
#ifndef SOUNDER_NN_CUDA_CUDA_NET_H
#define SOUNDER_NN_CUDA_CUDA_NET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/host_device.h"
#include "nn/sample_view.h"
#include "nn/spec.h"
#include "nn/step.h"

C_BEGIN

// A fence against processes that have died. Work that a process has put on the GPU can begin after its death: kernels
// that write shared memory write nothing once the parent has changed the word.
typedef struct CudaFence {
    const uint32_t *word; // device; NULL: always open
    uint32_t expected;
} CudaFence;

// The optimizer, if it is not plain SGD; all zeros for plain SGD.
typedef struct CudaOptimizer {
    bool nesterov;
    Adam adam;         // used if there are squares
    float *squares;    // (M strided) device memory that the caller owns; NULL: SGD
    double *forgotten; // (M, 2) of adam_next: ones at first; device memory that the caller owns; NULL: SGD
    double clip;       // the greatest length of a model's gradient; 0: unlimited
} CudaOptimizer;

// All pointers are device memory that the caller owns.
typedef struct CudaNetPlan {
    Spec spec;
    int models;          // M
    uint32_t batch_size; // samples of one model in one step, at most
    bool tf32;           // products may round their factors to 10 bits
    Sgd sgd;
    const uint8_t *pixels;      // the data set: (samples, C,H,W); with floats float32, at an address that suits them
    const uint16_t *labels;     // (samples); float32 if the spec has squared_loss, or (classes) of each with label_rows
    const float *class_weights; // (classes): what a sample of each class counts in a step; NULL: 1
    bool floats;                // samples enter as they are, without scale and shift
    const SampleView *views;    // (M): how each model sees its samples; NULL: as they are
    const uint16_t *labels_of;  // (M, classes): the label that replaces each label; NULL: none is replaced
    bool noisy;                 // some views have noise
    const uint32_t *order;      // numbers of samples, see CudaTask; NULL: tasks count samples themselves
    float scale[16], shift[16]; // by channel, host values
    float *weights;             // (M strided) parameters
    size_t weights_stride;      // floats; 0: all models share one array, which can be trained only if M is 1 (Hogwild)
    size_t stride;              // floats from one model to the next in all other arrays (M strided): cuda_net_stride
    float *velocity;            // (M strided); NULL: the net never trains
    CudaOptimizer optimizer;
    const float *gradient_shifts; // (M strided): joins every gradient; NULL: nothing
    const float *pulls;           // (M): added to the weight decay, if there are gradient_shifts
    float *gradient;              // (M strided); NULL: the net only evaluates. Scratch of training
    float *full_gradient;         // (M strided), with totals: of cuda_net_look; NULL: unused
    const uint32_t *totals;       // (M): samples of each model's task
    uint64_t *updates;            // Hogwild: number of steps of all processes, counted on the device; NULL otherwise
    bool atomic_updates;          // Hogwild: one atomic addition per weight instead of plain stores
    CudaFence fence;              // Hogwild: weights are written only while it is open
} CudaNetPlan;

// The work of one model: steps through order[first] ... order[first + count - 1] in batches. Batch b has number
// noise.step + b in its dropout noise.
typedef struct CudaTask {
    uint32_t first, count; // count 0: idle
    Noise noise;
} CudaTask;

// The distance between models at which a tensor of every model is aligned as that of the first model is, at up to 256
// bytes.
static inline size_t cuda_net_stride(size_t parameters) {
    return (parameters + 63) / 64 * 64;
}

typedef struct CudaNet CudaNet;

// Device bytes that the net allocates itself, without the plan's arrays.
size_t cuda_net_bytes(const Spec *spec, int models, uint32_t batch_size, bool needs_blas);

// Whether the products of linear layers of a whole sample are cuBLAS's: with tf32, and in a training of large batches.
// All other products are our own, whose bits depend neither on the number of models nor on the GPU.
bool cuda_net_needs_blas(uint32_t batch_size, bool tf32, bool trains);

// Whether a GPU can compute such a net: USAGE for too large batches, or too many models or channels. Needs no GPU.
Status cuda_net_check(const Spec *spec, int models, uint32_t batch_size, Error *err);

// USAGE for a plan that cannot work, UNAVAILABLE without cuBLAS, OS without enough memory; then there is nothing to
// free.
Status cuda_net_init(CudaNet **net, const CudaNetPlan *plan, Error *err);
void cuda_net_free(CudaNet *net); // NULL is allowed

// Asynchronous, without a launch: the assignment goes to the GPU with the next call below. With `fresh`, the model's
// loss sum and hits restart from zero. Models without an assignment are idle.
Status cuda_net_assign(CudaNet *net, int model, const CudaTask *task, bool fresh, Error *err);

// Sets the learning rate of all later steps; until then it is the plan's. Steps of another rate must have been waited
// for (cuda_net_results).
Status cuda_net_set_lr(CudaNet *net, float lr, Error *err);

// Later steps of training leave the parameters from `first` to end - 1, whole tensors, as they are. first == end: none.
// A net knows CUDA_NET_HOLDS such ranges: USAGE for one more.
enum { CUDA_NET_HOLDS = 2 };
Status cuda_net_hold(CudaNet *net, size_t first, size_t end, Error *err);

// Asynchronous. Makes `steps` steps of SGD on all models; a model whose samples are used up idles. With updates
// (Hogwild), a step with a gradient that is not finite is refused, and staleness is counted.
Status cuda_net_train(CudaNet *net, uint32_t steps, Error *err);

// Asynchronous. Computes the gradient of one step (into plan.gradient; an idle model's means nothing) without an
// update, and moves on to the next step.
Status cuda_net_gradient(CudaNet *net, Error *err);

// Asynchronous. Adds the gradients of the next `steps` batches to plan.full_gradient, each with its share of the task's
// samples: without dropout, crops and flips.
Status cuda_net_look(CudaNet *net, uint32_t steps, Error *err);

// Asynchronous. Loss and hits of the next `steps` batches of each task in evaluation mode, no dropout.
Status cuda_net_evaluate(CudaNet *net, uint32_t steps, Error *err);

// Waits for the stream. results (M): sums since the last fresh assignment.
Status cuda_net_results(CudaNet *net, BatchResult *results, Error *err);

// Hogwild, after cuda_net_results: the number of refused steps, the sum of staleness, and its histogram (buckets),
// since the last call; the last bucket counts that many updates or more. buckets: 1 to CUDA_NET_BUCKETS.
enum { CUDA_NET_BUCKETS = 64 };
Status cuda_net_staleness(CudaNet *net, uint64_t *refused, uint64_t *sum, uint64_t *histogram, int buckets, Error *err);

// Waits. logits (count, classes) of the next `count` samples of model 0's task, sample-major, host memory: for tests
// and tools.
Status cuda_net_logits(CudaNet *net, float *logits, uint32_t count, Error *err);

// The stream (a cudaStream_t) of all calls above, for copies that must be ordered with them.
void *cuda_net_stream(CudaNet *net);

C_END

#endif
