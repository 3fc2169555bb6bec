// The ops of src/nn, built once per instruction set, and the choice among them at start-up.
//
// Each op's .c file is compiled three times with SOUNDER_LANES set to 16 (AVX-512), 8 (AVX2 and FMA) or 4 (baseline):
// a vector of lanes then fills exactly one register. Kernels is the table of one build; everything outside src/nn
// calls ops through it.
#ifndef SOUNDER_NN_KERNELS_H
#define SOUNDER_NN_KERNELS_H

#include <stddef.h>
#include <stdint.h>

typedef struct Kernels Kernels;

struct Kernels {
    const char *name; // "avx512", "avx2" or "baseline"
    int lanes;        // floats in one vector

    // One SGD step as PyTorch's SGD does it: g = gradient + weight_decay * w; m = momentum * m + g; w -= lr * m.
    // weights, velocity, gradient: (count). velocity starts as zeros.
    void (*sgd_step)(float *weights, float *velocity, const float *gradient, float lr, float momentum,
                     float weight_decay, size_t count);

    // The layer ops follow; see the header of each (conv.h, pool.h, ...).
    const struct LayerOps *layers;
};

// The widest build this machine can run. `kernels_named` finds one by name (NULL: unknown or not runnable here).
const Kernels *kernels_best(void);
const Kernels *kernels_named(const char *name);

#endif
