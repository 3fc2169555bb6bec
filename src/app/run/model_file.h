// Models as safetensors files: which tensors a net has, what the file says about the net, and loading one back.
//
// Notes in a model file: "format" = "pt" (PyTorch's names and layout), "sounder.model" = the layer list,
// "sounder.input" = "1x28x28" and "sounder.classes", so that `sounder eval` needs nothing but the file and the data.
// Nothing in it depends on the time, the machine or the number of workers: equal models are equal files.
#ifndef SOUNDER_APP_RUN_MODEL_FILE_H
#define SOUNDER_APP_RUN_MODEL_FILE_H

#include "base/err.h"
#include "io/checkpoint.h"
#include "io/safetensors.h"
#include "nn/spec.h"

enum { MODEL_NOTES = 4 };

// The notes of a net; the strings lie in this struct.
typedef struct ModelNotes {
    TensorNote notes[MODEL_NOTES];
    char input[48], classes[16];
} ModelNotes;

// text: the layer list, borrowed.
void model_notes(ModelNotes *notes, const Spec *spec, const char *text);

// The head of a file that holds this net's parameters: malloc'ed, the caller frees it; payload follows at header_bytes.
Status model_header(char **header, size_t *header_bytes, const Spec *spec, const char *text, Error *err);

// tensors (spec->tensor_count): views into parameters (parameter_count) for checkpoint_write.
void model_tensors(NamedTensor *tensors, const Spec *spec, const float *parameters);

// parameters (parameter_count) from a file with tensors of these names and sizes. DATA, naming the tensor, when one
// does not fit.
Status model_load(float *parameters, const Spec *spec, const Safetensors *file, Error *err);

#endif
