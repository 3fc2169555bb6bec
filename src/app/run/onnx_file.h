// Nets of ONNX's files (nn/onnx/onnx_net.h), by the module that only a run which names one loads.
//
//   OnnxNet net;
//   if (onnx_is_file(model)) TRY(onnx_read(&net, model, data->shape, err));    // free(net.parameters)
//
// UNAVAILABLE where the module is missing: the program was built without protobuf-c, or not installed whole.
#ifndef SOUNDER_APP_RUN_ONNX_FILE_H
#define SOUNDER_APP_RUN_ONNX_FILE_H

#include <stdbool.h>

#include "app/options/options.h"
#include "base/err.h"
#include "base/shape.h"
#include "nn/onnx/onnx_net.h"
#include "nn/spec.h"

// Whether the value of an option means such a file: it ends in ".onnx".
bool onnx_is_file(const char *value);

// The net that the file has for samples of this shape; a warning says what of it has been folded into weights.
Status onnx_read(OnnxNet *net, const char *path, Shape sample, Error *err);

// The same with what its text means for data of so many classes; the net has spec->parameter_count parameters then.
Status onnx_read_spec(OnnxNet *net, Spec *spec, const char *path, Shape sample, int classes, Error *err);

// The bytes of a file that has the net and its parameters; malloc'ed, the caller frees them.
Status onnx_pack(void **bytes, size_t *count, const Spec *spec, const float *parameters, const char *path, Error *err);

// parameters (parameter_count) from the file, layer after layer. DATA, with both, for a layer whose weights have
// another shape than the net's.
Status onnx_begin_from(float *parameters, const Spec *spec, const char *path, Error *err);

// A model that is told as an ONNX file, where a run says what that was read as: then it is the same, with its weights.
void onnx_recognise(Options *options, const Options *saved);

#endif
