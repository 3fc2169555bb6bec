// Where the tensors of a net's layers lie in its arena, and how large the arena is.
#ifndef SOUNDER_NN_BUFFERS_H
#define SOUNDER_NN_BUFFERS_H

#include <stdbool.h>

#include "nn/flow.h"
#include "nn/kernels.h"
#include "nn/spec.h"

enum { ARENA_ALIGNMENT = 64 }; // bytes

// How many samples go through a net together. Its body, the layers before the first fully connected one, takes a chunk
// part by part: few samples, whose tensors are near. Its head takes all of the chunk at once: fully connected layers
// bring in their weights anew for each chunk. Tensors of the body are (parts, C,H,W,N), N being a part's samples.
typedef struct ChunkPlan {
    int head;    // number of the head's first layer; 0: there is no body
    int samples; // of a chunk
    int part;    // samples of a part; without a body those of the chunk
} ChunkPlan;

// Floats from one part's tensors to the next one's. 0: all parts use the same memory, one after the other.
typedef struct PartSteps {
    size_t in, out, other, in_gradient, out_gradient, sum, other_gradient, statistics, keep;
} PartSteps;

// Where a layer's tensors (C,H,W,N) lie in the arena; in a net's body those of the first part. Relu and dropout work in
// place where nobody else takes their input: in and out coincide.
typedef struct LayerBuffers {
    float *in, *out;    // in is NULL where net or head begin with a linear layer: the samples come as its rows
    float *other;       // add, concat: the other value
    bool works;         // there is something to do on the way back
    float *in_gradient; // NULL if nobody needs it
    bool adds;          // convolution: in_gradient is added to what others have written there
    float *out_gradient;
    float *sum;                      // what in_gradient is added to afterwards, or NULL
    float *other_gradient;           // add, concat: of the other value; NULL if nobody needs it
    bool other_adds;                 // others have written there before
    float *packed, *packed_gradient; // of a convolution
    float *gradient;                 // of all but plain linear layers: the gradients of their parameters
    float *statistics;               // of a norm; of an lstm or attention: what it keeps (sequence.h)
    float *rows;                     // of a linear layer: its input, sample by sample (with each, at each place)
    int8_t *keep;                    // dropout: (elements,N) or (channels,N)
    PartSteps steps;
} LayerBuffers;

typedef struct NetBuffers {
    ChunkPlan chunk;
    float *input; // (C,H,W,N), or (parts, C,H,W,N); NULL where the net begins with a linear layer
    LayerBuffers layers[SPEC_MAX_LAYERS];
    float *gradients[FLOW_MAX_SLOTS]; // where they lie: flow.h
    float *scratch;
    uint16_t *labels; // (N)
    float *targets;   // (N), with the squared loss
    uint8_t *images;  // (N, C,H,W) of a part, where training changes images
    int first_layer;  // the first with parameters: the way back ends there
} NetBuffers;

// As many samples as the cache holds: fat matrices for nets of linear layers, 16 for most others. Where the linear
// layers' weights do not fit the cache either, more: each chunk brings them in anew. through_blas: where a net's wide
// layers (linear_blas.h) outweigh its activations by far, hundreds of samples instead, for which OpenBLAS multiplies;
// the activations then take no more memory than those layers' weights. At least the whole batch where samples depend on
// each other. lanes: samples of a vector.
ChunkPlan buffers_chunk(const Spec *spec, int lanes, bool through_blas);

// Parts of `count` samples.
static inline int buffers_parts(const ChunkPlan *chunk, int count) {
    return (count + chunk->part - 1) / chunk->part;
}

// Says of which layers a relu is part: a convolution or norm rectifies what it gives while it has it at hand, and a
// pooling of maxima or a convolution gives gradients to none that the relu before it stopped. The values are the same
// to the bit, and the passes over them are saved. Only where nobody else reads what lies between, except that on the
// way back a convolution may be the last of several to give the relu gradients.
void buffers_join_relus(Spec *spec);

// Places everything for such chunks in the arena at `base`, aligned to ARENA_ALIGNMENT; with base NULL it only
// measures. Returns the bytes that the arena needs.
size_t buffers_carve(NetBuffers *buffers, char *base, const Spec *spec, const Kernels *kernels, ChunkPlan chunk);

// Where layer l's tensors of part `number` lie: in the arena's table, or else in *moved, which is the caller's.
const LayerBuffers *buffers_part(LayerBuffers *moved, const NetBuffers *buffers, int l, int number);

#endif
