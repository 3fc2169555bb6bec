// Functions of one value: rectified linear units, in place, and those of activation.h. Sums and products of two values.
#include "activation.h"

#include "ops.h"

// Both comparisons are false for a NaN, which therefore stays: a diverged net must show in its loss.

void ISA_NAME(relu_forward)(float *values, size_t features, int samples) {
    Lanes *value = (Lanes *)values;
    size_t count = features * (size_t)samples / SOUNDER_LANES;
    for (size_t i = 0; i < count; i++)
        value[i] = lanes_rectified(value[i]);
}

void ISA_NAME(relu_backward)(float *gradient, const float *out, size_t features, int samples) {
    Lanes *to = (Lanes *)gradient;
    const Lanes *value = (const Lanes *)out;
    size_t count = features * (size_t)samples / SOUNDER_LANES;
    for (size_t i = 0; i < count; i++)
        to[i] = lanes_select(value[i] <= lanes_of(0), lanes_of(0), to[i]);
}

// One loop per function, whose derivative and value are inlined: the compiler turns each into vector instructions. The
// switch is outside of the loops: inside, it would branch for each value.
void ISA_NAME(activation_forward)(float *restrict out, const float *restrict in, const Layer *layer, int samples) {
    const size_t count = shape_size(layer->in) * (size_t)samples;
    const float number = layer->rate;
#define APPLY(kind, name)                                                                                              \
    case kind:                                                                                                         \
        for (size_t i = 0; i < count; i++)                                                                             \
            out[i] = name##_value(in[i], number);                                                                      \
        break;
    switch ((Activation)layer->activation) { ACTIVATIONS(APPLY) }
#undef APPLY
}

// The derivative is a function of the input, which the layer therefore keeps: gelu gives some outputs for two inputs,
// so that the output does not tell.
void ISA_NAME(activation_backward)(float *restrict in_gradient, const float *restrict in,
                                   const float *restrict out_gradient, const Layer *layer, int samples) {
    const size_t count = shape_size(layer->in) * (size_t)samples;
    const float number = layer->rate;
#define APPLY(kind, name)                                                                                              \
    case kind:                                                                                                         \
        for (size_t i = 0; i < count; i++)                                                                             \
            in_gradient[i] = out_gradient[i] * name##_derivative(in[i], number);                                       \
        break;
    switch ((Activation)layer->activation) { ACTIVATIONS(APPLY) }
#undef APPLY
}

// `out` may be `a` or `b`: every place is read before it is written.
void ISA_NAME(add)(float *out, const float *a, const float *b, size_t features, int samples) {
    const Lanes *left = (const Lanes *)a, *right = (const Lanes *)b;
    Lanes *sum = (Lanes *)out;
    const size_t count = features * (size_t)samples / SOUNDER_LANES;
    for (size_t i = 0; i < count; i++)
        sum[i] = left[i] + right[i];
}

// A factor of fewer values than the product serves as many neighbours: all places of a channel.
void ISA_NAME(mul_forward)(float *out, const float *a, const float *b, size_t a_features, size_t b_features,
                           size_t out_features, int samples) {
    const size_t vectors = (size_t)samples / SOUNDER_LANES;
    const size_t a_plane = out_features / a_features, b_plane = out_features / b_features;
    Lanes *product = (Lanes *)out;
    for (size_t f = 0; f < out_features; f++, product += vectors) {
        const Lanes *left = (const Lanes *)a + f / a_plane * vectors, *right = (const Lanes *)b + f / b_plane * vectors;
        for (size_t v = 0; v < vectors; v++)
            product[v] = left[v] * right[v];
    }
}

// A factor that serves a channel sums up over the channel's places.
void ISA_NAME(mul_backward)(float *gradient, bool adds, const float *factor, const float *out_gradient, size_t features,
                            size_t factor_features, size_t out_features, int samples) {
    const size_t vectors = (size_t)samples / SOUNDER_LANES;
    const size_t plane = out_features / features, factor_plane = out_features / factor_features;
    const Lanes *given = (const Lanes *)out_gradient;
    for (size_t f = 0; f < out_features; f++, given += vectors) {
        const Lanes *of = (const Lanes *)factor + f / factor_plane * vectors;
        Lanes *sum = (Lanes *)gradient + f / plane * vectors;
        const bool begins = !adds && f % plane == 0;
        for (size_t v = 0; v < vectors; v++)
            sum[v] = begins ? given[v] * of[v] : sum[v] + given[v] * of[v];
    }
}
