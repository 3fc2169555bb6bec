// What an op does with the slope of a parameter that it has just computed: one vector of it, in registers.
#ifndef SOUNDER_NN_DESCENT_H
#define SOUNDER_NN_DESCENT_H

#include "nn/kernels.h"
#include "nn/lanes.h"

// gradient = keep * gradient + slope; with weights, weight_decay * weight joins the slope, and weight -= lr * gradient:
// one step of PyTorch's SGD whose velocity is `gradient`. What keep = 0 forgets is not read: it may be anything.
ALWAYS_INLINE void descend(float *gradient, float *weight, Lanes slope, const Descent *descent) {
    LooseLanes *to = (LooseLanes *)gradient, *from = (LooseLanes *)weight;
    if (weight) slope += descent->weight_decay * *from;
    if (descent->keep != 0) slope += descent->keep * *to;
    *to = slope;
    if (weight) *from -= descent->lr * slope;
}

// The same for fewer floats than a vector has.
ALWAYS_INLINE void descend_part(float *gradient, float *weight, Lanes slope, const Descent *descent, size_t count) {
    Lanes new_gradient = lanes_part(gradient, count), new_weight = weight ? lanes_part(weight, count) : lanes_of(0);
    descend((float *)&new_gradient, weight ? (float *)&new_weight : NULL, slope, descent);
    for (size_t i = 0; i < count; i++) {
        gradient[i] = new_gradient[i];
        if (weight) weight[i] = new_weight[i];
    }
}

#endif
