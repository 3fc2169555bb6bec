// A net at work: forward and backward passes over mini-batches on one CPU core.
//
//   Net net;
//   TRY(net_init(&net, &spec, kernels_best(), err));
//   net_gradient(&net, gradient, &result, parameters, &batch, &noise);   // training: gradient of the mean loss
//   net_train_step(&net, parameters, velocity, &result, &sgd, NULL, &batch, &noise); // or gradient and update in one
//   net_evaluate(&net, &result, parameters, &batch);                     // no dropout, no gradient
//   net_free(&net);
//
// Activations live in one arena, batch innermost: (C,H,W,N) with N samples side by side. A batch runs depth-first in
// chunks, each through the whole net and back, and the gradients add up; so the arena fits the cache whatever the
// batch size. Through the layers before the first fully connected one a chunk goes part by part (ChunkPlan in
// buffers.h). N is the part's samples, rounded up to whole vectors, or 4 for batches of at most so many: a small batch
// costs no more than that. Lanes beyond the last sample start from zeros and add nothing to any gradient. Results
// depend only on the arguments (and the instruction set): same inputs, same bits. Steps with momentum are fastest
// after subnormals_flush (base/cores.h), which the program calls at its start. Wide linear layers multiply through
// OpenBLAS where many samples share the product (linear_blas.h): their bits depend on its version and core, too.
#ifndef SOUNDER_NN_NET_H
#define SOUNDER_NN_NET_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/rng.h"
#include "nn/kernels.h"
#include "nn/spec.h"
#include "nn/step.h"

enum { NET_BLAS_NAME_BYTES = 96 };

// Whom net_gradient tells that the gradients of all parameters from `first` on are complete: layer by layer, from the
// last one that has parameters (whose weight lies at `first`) to the first.
typedef struct GradientHook {
    void (*complete)(void *context, size_t first); // NULL after net_init: nobody
    void *context;
} GradientHook;

typedef struct Net {
    Spec spec;
    const Kernels *kernels;
    const Kernels *few;     // for batches of at most few->lanes samples; NULL: no other ones
    const Kernels *at_work; // of both, those of the batch that goes through the net
    void *arena;            // owned: activations, their gradients, packed weights
    size_t arena_bytes;
    struct NetBuffers *buffers; // owned: where each layer's tensors lie in the arena
    struct Blas *blas;          // owned: for the products of wide layers; NULL if the shapes want none
    _Atomic uint64_t *progress; // NULL after net_init; if set: grows by the samples of every chunk done, a sign of life
    GradientHook on_gradient;
    uint32_t steps;                // so far: they go through the weights to and fro
    bool rests;                    // the next step's velocity is zero, whatever lies there; false after it
    const float *start;            // where the next step finds the parameters, if elsewhere; NULL after it
    size_t still_first, still_end; // 0 after net_init: layers whose weights lie in this range are not moved by steps
} Net;

// Allocates the arena; opens OpenBLAS if the shapes want it (UNAVAILABLE if there is none). Leaves nothing to free on
// failure.
Status net_init(Net *net, const Spec *spec, const Kernels *kernels, Error *err);
void net_free(Net *net);

// What multiplies for the net's wide layers, with version and core ("OpenBLAS 0.3.21 SkylakeX"); empty if its shapes
// want none. For the record of a run, and to find out before it begins that OpenBLAS is missing (UNAVAILABLE).
Status net_blas_name(char name[NET_BLAS_NAME_BYTES], const Spec *spec, const Kernels *kernels, Error *err);

// gradient (parameter_count) = d(mean loss over the batch) / d(parameters), overwritten. With noise NULL there is no
// dropout. parameters (parameter_count) may lie in memory that others change (Hogwild).
void net_gradient(Net *net, float *gradient, BatchResult *result, const float *parameters, const Batch *batch,
                  const Noise *noise);

// One step of SGD: what net_gradient and then sgd_step do, within rounding, but layer by layer on the way back, so that
// no gradient is ever written to memory. velocity (parameter_count) starts as zeros; without momentum its values
// mean nothing. An empty batch changes nothing. shift (parameter_count), unless NULL, joins the gradient.
void net_train_step(Net *net, float *parameters, float *velocity, BatchResult *result, const Sgd *sgd,
                    const float *shift, const Batch *batch, const Noise *noise);

// Running statistics of batch norms become what the batch of the last net_gradient makes of them, whatever a step has
// made of them since; those that are frozen or stand still do not. net_train_step does so by itself.
void net_follow(const Net *net, float *parameters);

// Loss and hits of the net in evaluation mode.
void net_evaluate(Net *net, BatchResult *result, const float *parameters, const Batch *batch);

// logits (count, classes), sample-major, in evaluation mode: for tests and tools.
void net_logits(Net *net, float *logits, const float *parameters, const Batch *batch);

#endif
