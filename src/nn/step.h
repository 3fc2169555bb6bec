// What one step of training takes and gives, whatever it is computed on: plain data for C and C++.
#ifndef SOUNDER_NN_STEP_H
#define SOUNDER_NN_STEP_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/host_device.h"

// Test samples a pass: fixed, so that losses are summed in the same order in every run.
enum { EVALUATION_CHUNK = 500 };

// A mini-batch: `count` samples of a data set that lies elsewhere (usually read-only shared memory).
typedef struct Batch {
    const uint8_t *pixels;    // (samples, C,H,W), all of the data set; bytes of float32 if the spec has float_input
    const uint16_t *labels;   // (samples); bytes of float32 targets if it has squared_loss
    const uint32_t *indices;  // (count) which samples, or NULL for first, first + 1, ...
    uint32_t first;           // used when indices is NULL
    uint32_t count;           // samples in this batch
    const float *scale;       // (C) a pixel p of channel c enters the net as p * scale[c] + shift[c]
    const float *shift;       // (C)
    const uint16_t *label_of; // (classes) what stands for each label on the CPU; NULL: the label
    uint32_t triggered;       // the first so many samples bear the spec's trigger and this label; on the CPU
    uint16_t trigger_label;
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

// The one formula of a step, everywhere in this order of rounding: the velocity that `gradient` leaves, after which
// weight -= lr * velocity.
BOTH float sgd_velocity(float velocity, float gradient, float weight, const Sgd *sgd) {
    float decayed = gradient + sgd->weight_decay * weight;
    return sgd->momentum * velocity + decayed;
}

// The same with Nesterov's momentum: changes the velocity and returns what lr is multiplied by.
BOTH float sgd_nesterov(float *velocity, float gradient, float weight, const Sgd *sgd) {
    float decayed = gradient + sgd->weight_decay * weight;
    *velocity = sgd->momentum * *velocity + decayed;
    return decayed + sgd->momentum * *velocity;
}

// Adam or AdamW as PyTorch has them.
typedef struct Adam {
    double beta1, beta2, eps;
    bool shrinks; // AdamW: the decay shrinks the weight instead of joining the gradient
} Adam;

// A step of them, as far as it is the same for all weights.
typedef struct AdamStep {
    float beta1, beta2, eps;
    float rate;   // lr / (1 - beta1^t)
    float root;   // sqrt(1 - beta2^t)
    float decay;  // that joins the gradient: Adam's
    float shrink; // what the weight is multiplied by first: AdamW's 1 - lr decay, otherwise 1
} AdamStep;

// The next step with this learning rate. forgotten (2): how much of the moment and of the square is still that of their
// start; ones at first. Products instead of powers, which C libraries round differently.
BOTH AdamStep adam_next(double *forgotten, const Adam *adam, double lr, double decay) {
    AdamStep step;
    forgotten[0] *= adam->beta1;
    forgotten[1] *= adam->beta2;
    step.beta1 = (float)adam->beta1;
    step.beta2 = (float)adam->beta2;
    step.eps = (float)adam->eps;
    step.rate = (float)(lr / (1 - forgotten[0]));
    step.root = (float)sqrt(1 - forgotten[1]);
    step.decay = adam->shrinks ? 0 : (float)decay;
    step.shrink = adam->shrinks ? (float)(1 - lr * decay) : 1;
    return step;
}

// Returns the new weight. moment, square: start as zeros.
BOTH float adam_moved(float weight, float *moment, float *square, float gradient, const AdamStep *step) {
    const float decayed = gradient + step->decay * weight;
    *moment += (1 - step->beta1) * (decayed - *moment);
    *square = step->beta2 * *square + (1 - step->beta2) * (decayed * decayed);
    return step->shrink * weight - step->rate * (*moment / (sqrtf(*square) / step->root + step->eps));
}

#endif
