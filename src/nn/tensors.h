// The named tensors of a model, which are stored one after the other in its parameters, as PyTorch's state_dict names
// them.
//
//   const TensorList tensors = spec_tensors(&spec);
//   log_warning("a weight of %s is not finite", tensors_at(&tensors, parameter)->name);
//
// A net of layers (spec.h) derives its tensors from its text; another program that trains says which it has.
#ifndef SOUNDER_NN_TENSORS_H
#define SOUNDER_NN_TENSORS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum { TENSOR_NAME_BYTES = 128, TENSOR_MOST_DIMENSIONS = 8, TENSORS_MOST = 4096 };

// One tensor of float32. Plain data.
typedef struct ParameterTensor {
    char name[TENSOR_NAME_BYTES]; // "conv1.weight"
    int rank;                     // number of dimensions, 0 to TENSOR_MOST_DIMENSIONS
    int64_t shape[TENSOR_MOST_DIMENSIONS];
    size_t first;   // first float in the parameter array
    size_t count;   // floats
    int64_t fan_in; // inputs of one output, which bound the initial values; 0: all values start as `start`
    double stretch; // the bound is stretch / sqrt(fan_in)
    float start;
    bool normal;  // the initial values are normally distributed with deviation `stretch`
    bool frozen;  // training leaves it unchanged, and it is not sent
    bool follows; // running statistics (batch_statistics.h): batches change it, gradients do not
} ParameterTensor;

// A view: it borrows the array.
typedef struct TensorList {
    const ParameterTensor *tensors; // (count), in parameter order
    int count;                      // at most TENSORS_MOST
    bool freezes;                   // some tensor is frozen
} TensorList;

// The tensor of which this parameter is part; it must be one of the list's.
const ParameterTensor *tensors_at(const TensorList *list, size_t parameter);

// Sets fits (count) of the tensors whose names fit a pattern of `patterns`, which commas or blanks separate. USAGE for
// a pattern that fits none, with the names that there are, for a text without a pattern, and for more than 2,047 bytes
// of patterns.
Status tensors_fitting(bool *fits, const TensorList *list, const char *patterns, Error *err);

// Whether the tensor holds running variances. tensors_floor_variances sets negative variances to zero: a server rule
// that extrapolates can make them negative.
static inline bool tensor_is_variance(const ParameterTensor *tensor) {
    return tensor->follows && tensor->start > 0;
}
void tensors_floor_variances(float *parameters, const TensorList *list);

#endif
