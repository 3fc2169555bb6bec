// The places of a net's tensors in its arena, and the arena's size.
//
// The arena is one block of memory that is allocated once per net. The plan decides which values and gradients share
// memory (flow.h) and how many samples go through the net together, so that a chunk's working set fits the cache.
#ifndef SOUNDER_NN_BUFFERS_H
#define SOUNDER_NN_BUFFERS_H

#include <stdbool.h>

#include "nn/flow.h"
#include "nn/kernels.h"
#include "nn/spec.h"

enum { ARENA_ALIGNMENT = 64 }; // bytes

// The number of samples that go through a net together. The body, all layers before the first fully connected one,
// takes a chunk part by part: a part has few samples, so that its tensors stay in the near cache. The head takes the
// whole chunk at once, as a fully connected layer reads all its weights again for each chunk. Tensors of the body are
// (parts, C,H,W,N), where N is the number of samples of a part.
typedef struct ChunkPlan {
    int head;    // number of the head's first layer; 0: there is no body
    int samples; // of a chunk
    int part;    // samples of a part; those of the chunk if there is no body
} ChunkPlan;

// Floats between the tensors of one part and those of the next. 0: all parts use one place, one after the other.
typedef struct PartSteps {
    size_t in, out, other, in_gradient, out_gradient, sum, other_gradient, statistics, keep;
} PartSteps;

// The tensors (C,H,W,N) of a layer; in a net's body those of the first part. Relu and dropout work in place if no other
// layer reads their input: in and out are then one tensor.
typedef struct LayerBuffers {
    float *in, *out;    // in is NULL if the net or its head begins with this linear layer: samples are in rows
    float *other;       // add, mul, concat: the second input
    bool works;         // its backward pass has something to do
    float *in_gradient; // NULL if no earlier layer learns
    bool adds;          // convolution: in_gradient is added to what is already there
    float *out_gradient;
    float *sum;                      // the tensor that in_gradient is added to afterwards, or NULL
    float *other_gradient;           // gradient of the second input; NULL if no earlier layer learns
    bool other_adds;                 // other_gradient is added to what is already there
    float *packed, *packed_gradient; // convolution: its weight and the weight's gradient in the ops' layout
    float *gradient;                 // gradient of its parameters; NULL for plain linear layers, which need none
    float *statistics;               // of a norm; for an lstm or attention the tensors of sequence.h
    float *rows;                     // linear layer: its input, one row per sample (with each, per place and sample)
    int8_t *keep;                    // dropout: (elements,N) or (channels,N)
    PartSteps steps;
} LayerBuffers;

// Every pointer is into the arena, which net_init allocates; the table itself is small.
typedef struct NetBuffers {
    ChunkPlan chunk;
    float *input; // (C,H,W,N), or (parts, C,H,W,N); NULL if the net begins with a linear layer
    LayerBuffers layers[SPEC_MAX_LAYERS];
    float *gradients[FLOW_MAX_SLOTS]; // the slots of flow.h
    float *scratch;
    uint16_t *labels; // (N)
    float *targets;   // (N), with the squared loss; (classes,N), with several labels per sample
    uint8_t *images;  // (N, C,H,W) of a part, if training crops, flips or marks images
} NetBuffers;

// Plans the number of samples. A chunk has as many samples as the cache holds: wide matrices for nets of linear layers,
// 16 samples for most others. If the linear layers' weights do not fit the cache either, it has more, as each chunk
// reads them again. through_blas: if a net's wide layers (linear_blas.h) outweigh its activations by far, a chunk has
// hundreds of samples, for which OpenBLAS multiplies; the activations then take no more memory than those layers'
// weights. If samples depend on each other, a chunk has at least the whole batch. lanes: samples of a vector.
ChunkPlan buffers_chunk(const Spec *spec, int lanes, bool through_blas);

// Number of parts that `count` samples make.
static inline int buffers_parts(const ChunkPlan *chunk, int count) {
    return (count + chunk->part - 1) / chunk->part;
}

// Fuses relus with their neighbours: a convolution or norm before a relu rectifies its output while it is in registers,
// and a max pooling or convolution after a relu includes the relu's backward pass in its own. This saves a pass over
// the values, and the bits are the same. A relu is fused only if no other layer reads the value between, except that on
// the backward pass a convolution may be the last of several readers of the relu.
void buffers_join_relus(Spec *spec);

// Places all tensors for such chunks in the arena at `base`, which is aligned to ARENA_ALIGNMENT; if base is NULL it
// only measures. Returns the arena's size in bytes.
size_t buffers_carve(NetBuffers *buffers, char *base, const Spec *spec, const Kernels *kernels, ChunkPlan chunk);

// The tensors of layer l for part `number`: an entry of the table in `buffers`, or else *moved, which the caller owns.
const LayerBuffers *buffers_part(LayerBuffers *moved, const NetBuffers *buffers, int l, int number);

#endif
