// What an op does with the slope of a parameter that it has just computed: one vector of it, in registers.
#ifndef SOUNDER_NN_DESCENT_H
#define SOUNDER_NN_DESCENT_H

#include "nn/kernels.h"
#include "nn/lanes.h"

// gradient = keep * gradient + slope; with weights, weight_decay * weight joins the slope, and weight -= lr * gradient:
// one step of PyTorch's SGD whose velocity is `gradient`. What keep = 0 forgets is not read: it may be anything.
ALWAYS_INLINE void descend(LooseLanes *gradient, LooseLanes *weight, Lanes slope, const Descent *descent) {
    if (weight) slope += descent->weight_decay * *weight;
    if (descent->keep != 0) slope += descent->keep * *gradient;
    *gradient = slope;
    if (weight) *weight -= descent->lr * slope;
}

// The same for fewer floats than a vector has.
ALWAYS_INLINE void descend_part(float *gradient, float *weight, Lanes slope, const Descent *descent, size_t count) {
    LooseLanes old_gradient = lanes_part(gradient, count), old_weight = lanes_of(0);
    if (weight) old_weight = lanes_part(weight, count);
    descend(&old_gradient, weight ? &old_weight : NULL, slope, descent);
    for (size_t i = 0; i < count; i++) {
        gradient[i] = old_gradient[i];
        if (weight) weight[i] = old_weight[i];
    }
}

#endif
