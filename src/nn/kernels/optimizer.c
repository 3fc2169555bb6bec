// Part of ops.h: stochastic gradient descent with momentum and weight decay.
#include "ops.h"

#include <stdint.h>

// weight - lr * velocity, with one rounding where the machine can. The function states it, because a compiler contracts
// such an expression in one loop and not in another.
static inline float descended(float weight, float lr, float velocity) {
#if defined __FMA__ || defined __ARM_FEATURE_FMA
    return __builtin_fmaf(-lr, velocity, weight);
#else
    return weight - lr * velocity;
#endif
}

// The formulas are those of step.h, with the last multiplication and subtraction fused where the machine can, as in the
// ops that step while they sum (ops.h).
void ISA_NAME(sgd_step)(float *restrict weights, float *restrict velocity, const float *restrict gradient,
                        const Sgd *sgd, size_t count) {
    const Sgd fixed = *sgd; // a copy, since the stores below might alias sgd
    for (size_t i = 0; i < count; i++) {
        velocity[i] = sgd_velocity(velocity[i], gradient[i], weights[i], &fixed);
        weights[i] = descended(weights[i], fixed.lr, velocity[i]);
    }
}

// Reads the weight, steps it, and writes it if no other process has changed it meanwhile; otherwise tries with the new
// value.
static void descend_atomically(float *weight, float lr, float velocity) {
    // Other processes use the weights as an ordinary array of float; here a weight is accessed as a 32-bit word.
    // Relaxed: Hogwild needs that no update is lost, but no order between weights.
    uint32_t *word = (uint32_t *)(void *)weight;
    uint32_t seen = __atomic_load_n(word, __ATOMIC_RELAXED);
    for (;;) {
        union {
            uint32_t word;
            float value;
        } next = {.word = seen};
        next.value = descended(next.value, lr, velocity);
        if (__atomic_compare_exchange_n(word, &seen, next.word, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) return;
    }
}

// The velocity is the worker's own, so only the weight needs care.
void ISA_NAME(sgd_step_atomically)(float *weights, float *velocity, const float *gradient, const Sgd *sgd,
                                   size_t count) {
    for (size_t i = 0; i < count; i++) {
        velocity[i] = sgd_velocity(velocity[i], gradient[i], weights[i], sgd);
        descend_atomically(&weights[i], sgd->lr, velocity[i]);
    }
}
