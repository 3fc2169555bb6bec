// The layers that an ONNX graph has become so far: their text, their weights, and what they take.
#ifndef SOUNDER_NN_ONNX_ONNX_LAYERS_H
#define SOUNDER_NN_ONNX_ONNX_LAYERS_H

#include <stdbool.h>

#include "base/err.h"
#include "nn/onnx/onnx_net.h"

enum { ONNX_LAYER_BYTES = 192 };

typedef struct OnnxLayer {
    char text[ONNX_LAYER_BYTES]; // "conv 16 3 pad 1", without names
    int source;                  // as in Layer
    int other;                   // add, concat: likewise; otherwise SPEC_INPUT
    bool named;                  // some layer but the next one takes what it gives
    Shape out;
    size_t outs;    // rows of the weight: outputs, or channels, each with a bias; lstm: its biases; embedding: none;
                    // attention: all numbers behind the first weight
    bool is_each;   // what becomes of the values of the last axis depends on these alone, and there are its outputs
    bool has_bias;  // the file gave it one: another summand of each value of a sequence's steps is positions
    bool is_rigid;  // no factor or summand of its outputs can become part of its weights
    size_t weights; // floats of the weight
    float *weight, *bias;
    float *running; // batchnorm: means and variances (2 outs), malloc'ed; otherwise NULL
} OnnxLayer;

typedef struct OnnxLayers {
    OnnxLayer of[SPEC_MAX_LAYERS];
    int count;
} OnnxLayers;

// Adds a layer that takes `source` and gives samples of shape `out`; the text is printf style.
Status onnx_layers_add(OnnxLayers *layers, int source, Shape out, Error *err, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

// Room for the last layer's weight and bias, which are zeros.
Status onnx_layers_weigh(OnnxLayers *layers, size_t outs, size_t weights, Error *err);

// The layer then gives gain[i] times what it gave, plus shift[i], for each of its outputs (outs): in its weights. NULL:
// 1, or 0.
void onnx_layer_scale(OnnxLayer *layer, const float *gain, const float *shift);

// An lstm's gates, `block` numbers each, in ONNX's order (input, output, forget, cell) from the order here and in
// PyTorch (input, forget, cell, output), or back. Returns what follows them in `to`.
float *onnx_gates_to(float *to, const float *from, size_t block);
float *onnx_gates_from(float *to, const float *from, size_t block);

// Takes the last `count` layers away again.
void onnx_layers_drop(OnnxLayers *layers, int count);

// The net's text and parameters. USAGE if it is too long.
Status onnx_layers_finish(OnnxNet *net, OnnxLayers *layers, const char *path, Error *err);

void onnx_layers_free(OnnxLayers *layers);

#endif
