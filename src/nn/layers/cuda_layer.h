// A layer on a GPU is one row, too: what an op of it launches and what it keeps. The rows are in the cuda_*.c files
// here, in cuda_table.c by LayerKind; text, parameters and traits are those of the layer's LayerType.
#ifndef SOUNDER_NN_LAYERS_CUDA_LAYER_H
#define SOUNDER_NN_LAYERS_CUDA_LAYER_H

#include "nn/cuda/cuda_pass.h"
#include "nn/layers/layer.h"

// The purpose of a pass.
typedef enum CudaPurpose { FOR_TESTS, FOR_GRADIENT, FOR_STEP } CudaPurpose;

// One op's part of a pass.
typedef struct CudaCall {
    const CudaPass *pass;
    const CudaOp *op;
    const CudaStep *step;       // of the pass
    const float *weight, *bias; // of the layer's first model; those of the others are `stride` floats apart
    size_t stride;
    float *gradient, *bias_gradient; // on the backward pass; gradient is NULL if the layer is frozen
    size_t gradient_stride;
    CudaPurpose purpose;
    bool steps; // the backward pass makes the layer's step of SGD, too
} CudaCall;

typedef enum CudaLayerTraits {
    JOINS_RELU_BEHIND = 1 << 0, // one op may compute it and the relu behind it (CudaOp.relu)
    JOINS_RELU_BEFORE = 1 << 1, // ... or the relu before it
    READS_RELU_OUTPUT = 1 << 2, // with the relu, its backward pass reads its own value
    DROPS = 1 << 3,             // in training it keeps or drops features (CudaOp.keep)
} CudaLayerTraits;

typedef struct CudaLayer {
    unsigned traits;                          // CudaLayerTraits
    size_t (*statistics)(const Layer *layer); // floats that a column keeps for the backward pass; NULL: 0
    // Floats that are forgotten between ops, of `models` models with `samples` columns; NULL: 0.
    size_t (*scratch)(const Layer *layer, int models, int samples);

    void (*forward)(const CudaCall *call);
    void (*backward)(const CudaCall *call);

    // Bytes that the forward pass reads and writes, for cuda_costs.h; NULL: those of its input and its output.
    double (*bytes)(const CudaPass *pass, const CudaOp *op);
    double back_in,
        back_out; // how often a backward pass without parameters reads or writes tensors like its input, its
                  // output; zeros: its output's three times
} CudaLayer;

#define DECLARE_CUDA_LAYER(kind, row) extern const CudaLayer cuda_##row;
LAYER_TYPES(DECLARE_CUDA_LAYER)
#undef DECLARE_CUDA_LAYER

extern const CudaLayer *const cuda_layers[]; // by LayerKind

static inline const CudaLayer *cuda_layer(const Layer *layer) {
    return cuda_layers[layer->kind];
}

// Floats that a column of the layer keeps.
static inline size_t cuda_layer_statistics(const Layer *layer) {
    return cuda_layer(layer)->statistics ? cuda_layer(layer)->statistics(layer) : 0;
}

// For tools that look at a step part by part; a run has none.
static inline void cuda_mark(const CudaPass *pass, CudaPart part, const CudaOp *op) {
    if (pass->mark) pass->mark(pass->mark_context, part, op);
}

// Bytes of a tensor with that many floats a sample, of all models.
static inline double cuda_lanes_bytes(const CudaPass *pass, size_t features) {
    return (double)sizeof(float) * pass->step.models * pass->step.samples * (double)features;
}

// Bytes of an array of parameters of all models.
static inline double cuda_arrays_bytes(const CudaPass *pass, size_t parameters) {
    return (double)sizeof(float) * pass->step.models * (double)parameters;
}

// Bytes of an op's input and output, each read or written so many times.
static inline double cuda_values_bytes(const CudaPass *pass, const CudaOp *op, double in, double out) {
    return in * cuda_lanes_bytes(pass, shape_size(op->layer->in)) +
           out * cuda_lanes_bytes(pass, shape_size(op->layer->out));
}

#endif
