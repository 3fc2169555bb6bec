// What an op does with the slope of a parameter that it has just computed: one vector of it, in registers.
#ifndef SOUNDER_NN_DESCENT_H
#define SOUNDER_NN_DESCENT_H

#include "nn/kernels.h"
#include "nn/lanes.h"

// gradient = keep * gradient + slope; with weights, weight_decay * weight joins the slope, and weight -= lr * gradient:
// one step of PyTorch's SGD whose velocity is `gradient`. `keeps` is descent->keep != 0, found out once for many
// vectors: what keep = 0 forgets is not read, it may be anything.
ALWAYS_INLINE void descend(float *gradient, float *weight, Lanes slope, const Descent *descent, bool keeps) {
    LooseLanes *to = (LooseLanes *)gradient, *from = (LooseLanes *)weight;
    if (weight) slope += descent->weight_decay * *from;
    if (keeps) slope += descent->keep * *to;
    *to = slope;
    if (weight) *from -= descent->lr * slope;
}

// The same for the first `count` lanes.
ALWAYS_INLINE void descend_part(float *gradient, float *weight, Lanes slope, const Descent *descent, size_t count) {
    Lanes new_gradient = lanes_part(gradient, count), new_weight = weight ? lanes_part(weight, count) : lanes_of(0);
    descend((float *)&new_gradient, weight ? (float *)&new_weight : NULL, slope, descent, descent->keep != 0);
    lanes_store_part(gradient, new_gradient, count);
    if (weight) lanes_store_part(weight, new_weight, count);
}

#endif
