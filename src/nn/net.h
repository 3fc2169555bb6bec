// A net at work: forward and backward passes over mini-batches on one CPU core.
//
//   Net net;
//   TRY(net_init(&net, &spec, kernels_best(), err));
//   net_gradient(&net, gradient, &result, parameters, &batch, &noise);   // training: gradient of the mean loss
//   net_train_step(&net, parameters, velocity, &result, &sgd, NULL, &batch, &noise); // or gradient and update in one
//   net_evaluate(&net, &result, parameters, &batch);                     // no dropout, no gradient
//   net_free(&net);
//
// Activations are stored in one arena, batch innermost: (C,H,W,N) with N samples side by side. A batch runs depth-first
// in chunks, each through the whole net and back, and the gradients add up: the arena then fits the cache whatever the
// batch size. Through the layers before the first fully connected one a chunk goes part by part (ChunkPlan in
// buffers.h). N is the number of samples of a part, rounded up to whole vectors, or to vectors of 4 for batches of at
// most 4 samples: a small batch costs no more than its samples. Lanes after the last sample start from zeros and add
// nothing to any gradient.
//
// Results depend only on the arguments and the instruction set: same inputs, same bits. Wide linear layers multiply
// through OpenBLAS if many samples share the product (linear_blas.h): their bits depend on its version and core, too.
// Steps with momentum are fastest after subnormals_flush (base/cores.h), which the program calls at its start.
#ifndef SOUNDER_NN_NET_H
#define SOUNDER_NN_NET_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "nn/blas.h"
#include "nn/kernels.h"
#include "nn/spec.h"
#include "nn/step.h"

// A callback of net_gradient: the gradients of all parameters from `first` on are complete. It is called once per layer
// with parameters, from the last one (whose weight begins at `first`) to the first, so that a caller can send gradients
// while the backward pass continues.
typedef struct GradientHook {
    void (*complete)(void *context, size_t first); // NULL after net_init: no callback
    void *context;
} GradientHook;

// A net belongs to one thread. It copies its spec; parameters, gradients and velocities are the caller's and are given
// with each call.
typedef struct Net {
    Spec spec;
    const Kernels *kernels;
    const Kernels *few;     // for batches of at most few->lanes samples; NULL: `kernels` for them, too
    const Kernels *at_work; // `kernels` or `few`: the one of the current batch
    void *arena;            // owned: activations, their gradients, packed weights
    size_t arena_bytes;
    struct NetBuffers *buffers; // owned: the places of each layer's tensors in the arena
    Blas *blas;                 // owned: for the products of wide layers; NULL if the net has none
    _Atomic uint64_t *progress; // if not NULL, grows by the samples of every chunk: a sign of life; NULL after net_init
    const float *class_weights; // (classes) what a sample of each class counts in a step; NULL after net_init: 1
    struct Answer *answers; // if not NULL, net_evaluate writes its answers there (spec_answers); NULL after net_init
    GradientHook on_gradient;
    uint32_t steps;                // made so far; every second step goes through the weights in reverse order
    const struct NetTerm *term;    // of the loss of the next steps (pass.h); NULL after net_init: none
    bool rests;                    // the next step takes its velocity as zero, whatever is stored; false after it
    const float *start;            // the parameters that the next step starts from, if not those that it changes
    size_t still_first, still_end; // steps leave the layers whose weights are in this range unchanged; 0 after net_init
} Net;

// Allocates the arena; opens OpenBLAS if a layer is wide enough for it (UNAVAILABLE if there is none). There is nothing
// to free on failure.
Status net_init(Net *net, const Spec *spec, const Kernels *kernels, Error *err);
void net_free(Net *net);

// The library that multiplies for the net's wide layers, with version and core ("OpenBLAS 0.3.21 SkylakeX"); empty if
// no layer is wide. For the record of a run, and to report a missing OpenBLAS before it begins (UNAVAILABLE).
Status net_blas_name(char name[BLAS_NAME_BYTES], const Spec *spec, const Kernels *kernels, Error *err);

// gradient (parameter_count) = d(mean loss over the batch) / d(parameters), overwritten; of targets, half of that
// (regression.h). noise is NULL for no dropout.
// parameters (parameter_count) may be memory that other processes change (Hogwild).
void net_gradient(Net *net, float *gradient, BatchResult *result, const float *parameters, const Batch *batch,
                  const Noise *noise);

// One step of SGD: as net_gradient followed by sgd_step, within rounding, but layer by layer during the backward pass,
// so that no gradient is written to memory. velocity (parameter_count) starts as zeros; without momentum its values
// have no meaning. An empty batch changes nothing. shift (parameter_count) joins the gradient, unless it is NULL.
void net_train_step(Net *net, float *parameters, float *velocity, BatchResult *result, const Sgd *sgd,
                    const float *shift, const Batch *batch, const Noise *noise);

// Moves the running statistics of batch norms in `parameters` by the batch of the last net_gradient, and overwrites
// what a step has made of them. Frozen statistics, and those in the still range, do not move. net_train_step calls it
// itself.
void net_follow(const Net *net, float *parameters);

// Loss and hits of the net in evaluation mode.
void net_evaluate(Net *net, BatchResult *result, const float *parameters, const Batch *batch);

// The answers to `count` samples (spec_answers of each) by their logits (count, classes) and their labels.
void net_answers_of(struct Answer *answers, const float *logits, const uint16_t *labels, uint32_t count,
                    const Spec *spec);

// logits (count, classes), sample-major, in evaluation mode: for tests and tools.
void net_logits(Net *net, float *logits, const float *parameters, const Batch *batch);

#endif
