// The way of one chunk through a net and back, on the CPU: forward.c and backward.c, of which net.c makes whole
// batches.
#ifndef SOUNDER_NN_PASS_H
#define SOUNDER_NN_PASS_H

#include "nn/buffers.h"
#include "nn/net.h"

// Neighbours in a batch: `count` samples from `first` on, in `samples` lanes.
typedef struct Chunk {
    uint32_t first;
    int count, samples;
} Chunk;

// What a batch's way through the net and back is for: a gradient, or a step of SGD.
typedef struct Pass {
    const float *parameters;
    float *stepping;    // where they lie after a step, there or elsewhere; NULL: they are not to change
    float *gradient;    // or the velocity, if they are
    const float *shift; // of the gradients, if they are; NULL: none
    Sgd sgd;
    const Noise *noise;
    uint32_t count; // samples of the batch
} Pass;

// At most `most` of the `left` samples from `first` on, in whole vectors of lanes.
static inline Chunk net_chunk(const Net *net, uint32_t first, uint32_t left, int most) {
    const int count = left < (uint32_t)most ? (int)left : most, lanes = net->at_work->lanes;
    return (Chunk){first, count, (count + lanes - 1) / lanes * lanes};
}

// Part `number` of the chunk, as the net's body takes it.
static inline Chunk net_part(const Net *net, Chunk chunk, int number) {
    const int part = net->buffers->chunk.part, before = number * part;
    return net_chunk(net, chunk.first + (uint32_t)before, (uint32_t)(chunk.count - before), part);
}

// From the samples that have been loaded to the last layer's output. noise: NULL in evaluation, which drops nothing.
// trains: batch norms take the batch's statistics.
void net_forward(Net *net, const float *parameters, const Noise *noise, bool trains, Chunk chunk);

// Chunks add up; the batch's last one completes the gradient, or the step.
static inline bool pass_is_last(const Pass *pass, Chunk chunk) {
    return chunk.first + (uint32_t)chunk.count == pass->count;
}

// Whether the pass leaves all of the layer's parameters as they are: they are frozen, or the step leaves them out.
bool pass_leaves_layer(const Net *net, const Layer *layer, const Pass *pass);

// A step finds `count` parameters from `first` on elsewhere than it leaves them: copies them, if that is so.
void pass_bring_along(const Pass *pass, size_t first, size_t count);

// Leaves `count` parameters as they are: a step only brings them along, a gradient gets zeros.
void pass_leave(const Pass *pass, size_t first, size_t count);

// Whether training leaves the tensor that begins with that parameter as it is.
bool net_leaves(const Net *net, size_t parameter);

// From the logits' gradient back to the first layer with parameters, whose input gradient nobody needs. Chunks add up;
// the batch's last one completes the gradient, or the step.
void net_backward(Net *net, const Pass *pass, Chunk chunk);

#endif
