// Stochastic gradient descent with momentum and weight decay.
#include "ops.h"

void ISA_NAME(sgd_step)(float *restrict weights, float *restrict velocity, const float *restrict gradient, float lr,
                        float momentum, float weight_decay, size_t count) {
    for (size_t i = 0; i < count; i++) {
        float slope = gradient[i] + weight_decay * weights[i];
        velocity[i] = momentum * velocity[i] + slope;
        weights[i] -= lr * velocity[i];
    }
}
