// What one step of training takes and gives, whatever it is computed on: plain data for C and C++.
#ifndef SOUNDER_NN_STEP_H
#define SOUNDER_NN_STEP_H

#include <stdint.h>

#include "base/both.h"

// Test samples a pass: fixed, so that losses are summed in the same order in every run.
enum { EVALUATION_CHUNK = 500 };

// A mini-batch: `count` samples of a data set that lies elsewhere (usually read-only shared memory).
typedef struct Batch {
    const uint8_t *pixels;   // (samples, C,H,W), all of the data set; bytes of float32 if the spec has float_input
    const uint8_t *labels;   // (samples); bytes of float32 targets if it has squared_loss
    const uint32_t *indices; // (count) which samples, or NULL for first, first + 1, ...
    uint32_t first;          // used when indices is NULL
    uint32_t count;          // samples in this batch
    const float *scale;      // (C) a pixel p of channel c enters the net as p * scale[c] + shift[c]
    const float *shift;      // (C)
} Batch;

// What dropout masks depend on, besides layer, channel and sample. NULL where a function takes it: no dropout.
typedef struct Noise {
    uint64_t seed;
    uint32_t round, client, step;
    uint32_t first_sample; // place of the batch's first sample, where it is a part of a larger batch
} Noise;

typedef struct BatchResult {
    double loss_sum; // sum over the samples of the cross-entropy, in nats
    uint32_t hits;   // samples whose largest logit is their label (evaluation; 0 after training)
} BatchResult;

// Stochastic gradient descent as PyTorch's SGD has it.
typedef struct Sgd {
    float lr, momentum, weight_decay;
} Sgd;

// The one formula of a step, everywhere in this order of rounding: the velocity that `slope` leaves, after which
// weight -= lr * velocity.
BOTH float sgd_velocity(float velocity, float slope, float weight, const Sgd *sgd) {
    float decayed = slope + sgd->weight_decay * weight;
    return sgd->momentum * velocity + decayed;
}

#endif
