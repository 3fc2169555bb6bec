// The forward and backward pass of one chunk on the CPU. batches.c makes whole batches of them.
#ifndef SOUNDER_NN_PASS_H
#define SOUNDER_NN_PASS_H

#include <string.h>

#include "nn/buffers.h"
#include "nn/net.h"

// Neighbours in a batch: `count` samples from number `first` on, in `samples` lanes.
typedef struct Chunk {
    uint32_t first;
    int count, samples;
} Chunk;

// One batch's pass through the net, which computes a gradient or makes a step of SGD.
typedef struct Pass {
    const float *parameters;
    float *stepping;    // the parameters after the step, in the same place or another; NULL: compute a gradient
    float *gradient;    // the gradient, or the velocity of a step
    const float *shift; // added to the gradient of a step; NULL: nothing
    Sgd sgd;
    const Noise *noise;
    uint32_t count; // samples of the batch
} Pass;

// One layer's part of a pass over a chunk, or over a part of it.
typedef struct LayerCall {
    const Net *net;
    const Kernels *kernels; // of this batch
    const Layer *layer;
    const LayerBuffers *at;
    const float *weight, *bias; // the layer's parameters from Layer.weight and from Layer.bias on
    float *scratch;             // LayerRoom.scratch floats
    const Noise *noise;         // NULL: no dropout
    bool trains;
    const Pass *pass; // NULL on the forward pass
    Chunk chunk;
    int count, samples; // of the chunk
} LayerCall;

// A term that a step adds to the loss. add is called after the backward pass of the last layer, and adds the term's
// gradient to that of the layer's input. The term's data has it as its first member (contrast.h).
typedef struct NetTerm {
    void (*add)(const LayerCall *call);
} NetTerm;

// Fills in all fields but noise, trains and pass.
static inline LayerCall layer_call(const Net *net, int l, const LayerBuffers *at, const float *parameters,
                                   Chunk chunk) {
    const Layer *layer = &net->spec.layers[l];
    return (LayerCall){.net = net,
                       .kernels = net->at_work,
                       .layer = layer,
                       .at = at,
                       .weight = parameters + layer->weight,
                       .bias = parameters + layer->bias,
                       .scratch = net->buffers->scratch,
                       .chunk = chunk,
                       .count = chunk.count,
                       .samples = chunk.samples};
}

// For a layer that works in place: if another layer also reads its input, it works on a copy of it, of its output's
// size.
static inline void layer_copy(const LayerCall *call, float *to, const float *from) {
    if (to != from) memcpy(to, from, shape_size(call->layer->out) * (size_t)call->samples * sizeof *to);
}

// The chunk of at most `most` of the `left` samples from `first` on, rounded up to whole vectors of lanes.
static inline Chunk net_chunk(const Net *net, uint32_t first, uint32_t left, int most) {
    const int count = left < (uint32_t)most ? (int)left : most, lanes = net->at_work->lanes;
    return (Chunk){first, count, (count + lanes - 1) / lanes * lanes};
}

// Part `number` of the chunk, of the size that the net's body works on.
static inline Chunk net_part(const Net *net, Chunk chunk, int number) {
    const int part = net->buffers->chunk.part, before = number * part;
    return net_chunk(net, chunk.first + (uint32_t)before, (uint32_t)(chunk.count - before), part);
}

// Computes the layers' outputs from the loaded samples on. noise: NULL in evaluation, which drops nothing. trains:
// batch norms use the batch's statistics.
void net_forward(Net *net, const float *parameters, const Noise *noise, bool trains, Chunk chunk);

// Whether the chunk is the batch's last one. Chunks add up; the last one completes the gradient, or the step.
static inline bool pass_is_last(const Pass *pass, Chunk chunk) {
    return chunk.first + (uint32_t)chunk.count == pass->count;
}

// Whether the pass leaves the layer's parameters unchanged: they are frozen, or in the range that steps leave out.
bool pass_leaves_layer(const Net *net, const Layer *layer, const Pass *pass);

// Copies `count` parameters from `first` on to the place after the step, if that is not where the pass reads them.
void pass_bring_along(const Pass *pass, size_t first, size_t count);

// For `count` parameters that the pass leaves unchanged: a step only copies them, a gradient becomes zero there.
void pass_leave(const Pass *pass, size_t first, size_t count);

// Whether training leaves the tensor that begins with this parameter unchanged.
bool net_leaves(const Net *net, size_t parameter);

// The backward pass from the logits' gradient to the first layer with parameters, whose input gradient is not needed.
// Chunks add up; the batch's last one completes the gradient, or the step.
void net_backward(Net *net, const Pass *pass, Chunk chunk);

#endif
