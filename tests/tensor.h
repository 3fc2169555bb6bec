// Buffers for op tests: 64-byte aligned floats between guard bands that a test checks afterwards.
#ifndef SOUNDER_TESTS_TENSOR_H
#define SOUNDER_TESTS_TENSOR_H

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "check.h"

enum { GUARD_FLOATS = 64 };

typedef struct Tensor {
    float *at; // count floats; owned, between the guards
    size_t count;
} Tensor;

// Filled with NaN, and so are the guards: what is read before it is written shows.
static inline Tensor tensor_new(size_t count) {
    size_t floats = (count + 2 * GUARD_FLOATS + 15) / 16 * 16;
    float *base = aligned_alloc(64, floats * sizeof *base);
    assert_non_null(base);
    memset(base, 0xff, floats * sizeof *base);
    return (Tensor){base + GUARD_FLOATS, count};
}

// Random numbers in [-1, 1), different for each `stream`.
static inline Tensor tensor_random(size_t count, uint32_t stream) {
    Tensor tensor = tensor_new(count);
    for (size_t i = 0; i < count; i++)
        tensor.at[i] = 2 * rng_float(rng_block((RngKey){{stream, 99}}, (uint32_t)i, 0, 0, 0).word[0]) - 1;
    return tensor;
}

static inline Tensor tensor_zeros(size_t count) {
    Tensor tensor = tensor_new(count);
    memset(tensor.at, 0, count * sizeof *tensor.at);
    return tensor;
}

// Fails if something was written outside; frees.
static inline void tensor_free(Tensor tensor) {
    const unsigned char *before = (const unsigned char *)(tensor.at - GUARD_FLOATS);
    const unsigned char *after = (const unsigned char *)(tensor.at + tensor.count);
    for (size_t i = 0; i < GUARD_FLOATS * sizeof(float); i++)
        if (before[i] != 0xff || after[i] != 0xff) fail_msg("a guard band was overwritten");
    free(tensor.at - GUARD_FLOATS);
}

// A copy in double precision, for a reference. The caller frees it.
static inline double *doubles(const float *values, size_t count) {
    double *copy = malloc(count * sizeof *copy);
    assert_non_null(copy);
    for (size_t i = 0; i < count; i++)
        copy[i] = (double)values[i];
    return copy;
}

// Error bound: tolerance times the larger of 1 and the reference's largest magnitude.
static inline void check_close(const char *what, const float *actual, const double *expected, size_t count,
                               double tolerance) {
    double largest = 1;
    for (size_t i = 0; i < count; i++)
        largest = fmax(largest, fabs(expected[i]));
    for (size_t i = 0; i < count; i++)
        if (!(fabs((double)actual[i] - expected[i]) <= tolerance * largest))
            fail_msg("%s: element %zu is %.9g, expected %.9g (largest %.3g)", what, i, (double)actual[i], expected[i],
                     largest);
}

#endif
