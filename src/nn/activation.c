// Rectified linear units, in place.
#include "ops.h"

// Both comparisons are false for a NaN, which therefore stays: a diverged net must show in its loss.

void ISA_NAME(relu_forward)(float *values, size_t features, int samples) {
    Lanes *value = (Lanes *)values;
    size_t count = features * (size_t)samples / SOUNDER_LANES;
    for (size_t i = 0; i < count; i++)
        value[i] = lanes_select(value[i] < lanes_of(0), lanes_of(0), value[i]);
}

void ISA_NAME(relu_backward)(float *gradient, const float *out, size_t features, int samples) {
    Lanes *slope = (Lanes *)gradient;
    const Lanes *value = (const Lanes *)out;
    size_t count = features * (size_t)samples / SOUNDER_LANES;
    for (size_t i = 0; i < count; i++)
        slope[i] = lanes_select(value[i] <= lanes_of(0), lanes_of(0), slope[i]);
}
