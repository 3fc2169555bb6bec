// The arguments and results of one step of training, and the formulas of its optimizers: plain data for C and C++, the
// same for the CPU and the GPU.
#ifndef SOUNDER_NN_STEP_H
#define SOUNDER_NN_STEP_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/host_device.h"

// Number of test samples per pass. It is fixed, so that losses are summed in the same order in every run.
enum { EVALUATION_CHUNK = 500 };

// A mini-batch: `count` samples of a data set, which is stored elsewhere (usually in read-only shared memory).
typedef struct Batch {
    const uint8_t *pixels;    // (samples, C,H,W), all of the data set; bytes of float32 if the spec has float_input
    const uint16_t *labels;   // (samples); bytes of float32 targets if it has squared_loss, of rows if label_rows
    const uint32_t *indices;  // (count) numbers of the samples; NULL: first, first + 1, ...
    uint32_t first;           // used when indices is NULL
    uint32_t count;           // samples in this batch
    const float *scale;       // (C) a pixel p of channel c enters the net as p * scale[c] + shift[c]
    const float *shift;       // (C)
    const uint16_t *label_of; // (classes) the label that replaces each label, on the CPU; NULL: none is replaced
    uint32_t triggered;       // the first `triggered` samples get the spec's trigger and trigger_label; on the CPU
    uint16_t trigger_label;
} Batch;

// The key of dropout masks, besides layer, channel and sample. A function that gets NULL drops nothing.
typedef struct Noise {
    uint64_t seed;
    uint32_t round, client, step;
    uint32_t first_sample; // number of the batch's first sample in the larger batch that it is a part of
} Noise;

// Sums over the samples of a batch, so that results of chunks, batches and workers can be added.
typedef struct BatchResult {
    double loss_sum; // sum over the samples of the cross-entropy, in nats; of targets, of the squared distance
    uint32_t hits;   // samples whose largest logit is their label (evaluation; 0 after training)
} BatchResult;

// Stochastic gradient descent as PyTorch's SGD has it.
typedef struct Sgd {
    float lr, momentum, weight_decay;
} Sgd;

// The formula of a step, in this order of rounding everywhere, so that the CPU, the GPU and fused ops agree: returns
// the velocity after `gradient`. The step ends with weight -= lr * velocity.
BOTH float sgd_velocity(float velocity, float gradient, float weight, const Sgd *sgd) {
    float decayed = gradient + sgd->weight_decay * weight;
    return sgd->momentum * velocity + decayed;
}

// The step with Nesterov's momentum: changes the velocity and returns the direction that lr multiplies.
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

// The numbers of one step of Adam or AdamW that are the same for all weights.
typedef struct AdamStep {
    float beta1, beta2, eps;
    float rate;   // lr / (1 - beta1^t)
    float root;   // sqrt(1 - beta2^t)
    float decay;  // weight decay that joins the gradient (Adam); 0 for AdamW
    float shrink; // factor of the weight before the step: 1 - lr decay for AdamW, otherwise 1
} AdamStep;

// The next step with this learning rate. forgotten (2) holds beta1^t and beta2^t, ones at first: the shares of the
// moments that are still their initial zeros. They are products, as C libraries round powers differently.
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

// Makes the step for one weight and returns the new weight. moment and square start as zeros.
BOTH float adam_moved(float weight, float *moment, float *square, float gradient, const AdamStep *step) {
    const float decayed = gradient + step->decay * weight;
    *moment += (1 - step->beta1) * (decayed - *moment);
    *square = step->beta2 * *square + (1 - step->beta2) * (decayed * decayed);
    return step->shrink * weight - step->rate * (*moment / (sqrtf(*square) / step->root + step->eps));
}

#endif
