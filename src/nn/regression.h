// float32 samples, and the squared loss of a net's one output against float32 targets: for data whose theory is known
// (datasets/synthetic/federation.h), not for speed. Plain C: the same bits for every instruction set.
#ifndef SOUNDER_NN_REGRESSION_H
#define SOUNDER_NN_REGRESSION_H

#include <stddef.h>
#include <stdint.h>

// out (size,N): sample s < count is row indices[s] (or first + s if indices is NULL) of values (rows, size), floats
// at any byte; the samples from count on are zero. The contract of Kernels.gather, without scale and shift.
void values_gather(float *out, const uint8_t *values, const uint32_t *indices, uint32_t first, size_t size, int count,
                   int samples);

// Kernels.gather_rows for float32: rows (count, row_floats), with zeros after the last value up to a whole vector.
void values_gather_rows(float *rows, const uint8_t *values, const uint32_t *indices, uint32_t first, size_t size,
                        size_t row_floats, int count);

// Returns the sum of (output - target)^2 over the first `count` samples, PyTorch's MSELoss. Overwrites gradient (1,N)
// with scale times the derivative of half of it, output - target, zero from count on, unless it is NULL. If hits is not
// NULL it gets the number of samples whose output is less than 0.5 from the target. outputs: (1,N); targets: (count).
double squared_loss(float *gradient, uint32_t *hits, const float *outputs, const float *targets, float scale, int count,
                    int samples);

#endif
