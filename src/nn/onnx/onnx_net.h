// Nets in ONNX's files: what a file says as a net's text (spec.h) and its weights, as far as the layers reach.
//
//   OnnxNet net;
//   TRY(onnx->read(&net, "net.onnx", (Shape){1, 28, 28}, err)); // of the module that app/run/onnx_file.h loads
//   ... net.text is what spec_parse reads; net.parameters are its parameters ...
//   free(net.parameters);
//
// Understood are the ops that exporters write for such layers: Conv, Gemm and MatMul with constant weights, MaxPool,
// AveragePool, GlobalAveragePool, ReduceMean over an image, Relu, LeakyRelu, Clip from 0 to 6, Tanh, Sigmoid, Gelu and
// its pattern of Erf, Dropout, InstanceNormalization (also between two Reshapes, which is how group normalisation is
// written), GroupNormalization, LayerNormalization of whole samples or of rows (or its parts), Add and Concat of two
// values, Flatten, Reshape with what computes its shape, and a Softmax or LogSoftmax at the end, which follows a net by
// itself.
// Of sequences: a Gather of a constant table's rows by the input (Cast to whole numbers), MatMul of each step, and LSTM
// in one direction from zeros (also computed ones), between the Transposes and Squeezes that exporters write around it;
// of its steps all go on, or the last alone by Gather, Slice or its state. Rows of all samples, which a Reshape to (-1,
// values) makes, go through a Gemm and back. Slice and Concat of constants, and arithmetic of sizes, are done.
// A sum with a constant of (steps, values) is positions, whose rows may be gathered by a Range.
// An attention is what a softmax makes of two products of heads, which are parts of linear layers of each step, perhaps
// with a mask that hides what comes behind, together with the linear layer behind it (onnx_attention.h).
// A factor and a summand that follow a layer become part of its weights. A BatchNormalization is a batchnorm that goes
// on from the file's running statistics; with another epsilon than 1e-5 or momentum than 0.9 it would not train as
// there, and becomes part of the weights before it. Anything else is DATA, with the node and its op. A convolution or
// product without bias gets one of zeros.
#ifndef SOUNDER_NN_ONNX_ONNX_NET_H
#define SOUNDER_NN_ONNX_ONNX_NET_H

#include <stddef.h>

#include "base/err.h"
#include "base/shape.h"
#include "nn/spec.h"

typedef struct OnnxNet {
    char text[SPEC_TEXT_BYTES];
    float *parameters;      // (parameter_count), in the order of the text; malloc'ed, the caller frees them
    size_t parameter_count; // floats
    int folded;             // batch normalisations that have become part of the weights before them
} OnnxNet;

// What the module gives.
typedef struct OnnxModule {
    // The net of the file, for samples of this shape; it may take a sample's values as a vector, too. NOINPUT if there
    // is no such file; DATA with a sentence about the file and its node otherwise. After a failure there is nothing to
    // free.
    Status (*read)(OnnxNet *net, const char *path, Shape sample, Error *err);
    // The other way: the bytes (malloc'ed, the caller frees them) of a file with the net's layers and parameters
    // (parameter_count), opset 17; path: what it will be called, for sentences. USAGE for a layer that ONNX has no op
    // for.
    Status (*write)(void **bytes, size_t *count, const Spec *spec, const float *parameters, const char *path,
                    Error *err);
} OnnxModule;

extern const OnnxModule sounder_onnx;

// Its two functions are those of onnx_net.c and this one of onnx_write.c.
Status onnx_write_net(void **bytes, size_t *count, const Spec *spec, const float *parameters, const char *path,
                      Error *err);

#endif
