// A layer on a GPU is one row, too: the launches of its op and the memory that it keeps. The rows are in the cuda_*.c
// files here and in cuda_table.c by LayerKind; text, parameters and traits are those of the layer's LayerType.
#ifndef SOUNDER_NN_LAYERS_CUDA_LAYER_H
#define SOUNDER_NN_LAYERS_CUDA_LAYER_H

#include "nn/layers/layer.h"

typedef enum CudaLayerTraits {
    JOINS_RELU_BEHIND = 1 << 0, // one op can compute it and the relu after it (CudaOp.relu)
    JOINS_RELU_BEFORE = 1 << 1, // one op can compute it and the relu before it
    READS_RELU_OUTPUT = 1 << 2, // with the relu, its backward pass reads its own value
    ENDS_RELU_BEFORE = 1 << 3,  // its backward pass can include that of the relu in the op before (CudaOp.relu_before)
    DROPS = 1 << 4,             // in training it keeps or drops features (CudaOp.keep)
    ADDS_TO_GRADIENT = 1 << 5,  // it can add its input's gradient to a gradient that is already there (CudaOp.adds)
} CudaLayerTraits;

typedef struct CudaCall CudaCall; // cuda_pass.h
typedef struct CudaPass CudaPass;
typedef struct CudaOp CudaOp; // cuda_ops.h

// The row of a layer on a GPU. Its functions put launches on the stream of the pass; none of them waits.
typedef struct CudaLayer {
    unsigned traits;                          // CudaLayerTraits
    size_t (*statistics)(const Layer *layer); // floats per column that it keeps for the backward pass; NULL: 0
    // Scratch floats, meaningless between ops, for `models` models with `samples` columns; NULL: 0.
    size_t (*scratch)(const Layer *layer, int models, int samples);

    void (*forward)(const CudaCall *call);
    void (*backward)(const CudaCall *call);

    // Bytes that the forward pass reads and writes, for bench_card; NULL: its input `in` times and its output `out`
    // times.
    double (*bytes)(const CudaPass *pass, const CudaOp *op);
    double in, out; // 0: 1
    // How often a backward pass without parameters reads or writes a tensor of its input's and of its output's size;
    // zeros: its output's size three times. The output of a relu in the op, if it reads that, counts once more.
    double back_in, back_out;
} CudaLayer;

#define DECLARE_CUDA_LAYER(kind, row) extern const CudaLayer cuda_##row;
LAYER_TYPES(DECLARE_CUDA_LAYER)

extern const CudaLayer *const cuda_layers[]; // by LayerKind

static inline const CudaLayer *cuda_layer(const Layer *layer) {
    return cuda_layers[layer->kind];
}

// Floats per column that the layer keeps for the backward pass.
static inline size_t cuda_layer_statistics(const Layer *layer) {
    return cuda_layer(layer)->statistics ? cuda_layer(layer)->statistics(layer) : 0;
}

#endif
