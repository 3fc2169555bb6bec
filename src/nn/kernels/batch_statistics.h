// The statistics that batch normalisation passes from the forward to the backward pass, and the update of its running
// statistics after a step.
//
// Running means and variances are tensors of the net, as in PyTorch (norm1.running_mean, norm1.running_var). In
// training each batch moves them norm_momentum of the way, the variance without bias (a batch of one value says
// nothing about the variance and leaves it); no gradient, decay or rule of the local training changes them. They are
// sent with the update and averaged as weights are; with `personal norms` (FedBN) they stay with the client. A frozen
// tensor does not move. A variance that a server rule makes negative becomes zero, also in a test of weights from
// elsewhere. An update of 2^20 or more is refused, also for a running variance: such data need a mean and a deviation.
#ifndef SOUNDER_NN_KERNELS_BATCH_STATISTICS_H
#define SOUNDER_NN_KERNELS_BATCH_STATISTICS_H

#include "nn/spec.h"

typedef struct BatchStatistics {
    float mean, variance, scale;    // of the batch, or in tests the running ones; 1 / sqrt(variance + epsilon)
    float next_mean, next_variance; // running, after this batch; written in training alone
} BatchStatistics;

// The running statistics after a batch with `values` values of the channel; momentum: norm_momentum.
BOTH float norm_follow_mean(float running, float of_batch, float momentum) {
    return (1 - momentum) * running + momentum * of_batch;
}

BOTH float norm_follow_variance(float running, float of_batch, float values, float momentum) {
    const float unbiased = values > 1 ? of_batch * (values / (values - 1)) : running;
    return (1 - momentum) * running + momentum * unbiased;
}

static inline size_t batch_statistics_floats(const Layer *layer) {
    return (size_t)layer->in.channels * sizeof(BatchStatistics) / sizeof(float);
}

#endif
