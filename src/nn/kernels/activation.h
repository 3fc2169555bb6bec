// The functions of one value besides relu, and their derivatives: one source for the CPU and the GPU.
//
// They have no branches and no calls of the C library, so that the compiler turns a loop over them into vector
// instructions. All err by a few units in the last place of 1, and a NaN stays a NaN: a diverged net must show in its
// loss.
#ifndef SOUNDER_NN_KERNELS_ACTIVATION_H
#define SOUNDER_NN_KERNELS_ACTIVATION_H

#include <stdint.h>

#include "base/host_device.h"

// EACH(value of Activation, name of its functions)
#define ACTIVATIONS(EACH)                                                                                              \
    EACH(ACTIVATION_TANH, tanh)                                                                                        \
    EACH(ACTIVATION_SIGMOID, sigmoid)                                                                                  \
    EACH(ACTIVATION_LEAKY_RELU, leaky)                                                                                 \
    EACH(ACTIVATION_RELU6, relu6)                                                                                      \
    EACH(ACTIVATION_GELU, gelu)                                                                                        \
    EACH(ACTIVATION_ELU, elu)                                                                                          \
    EACH(ACTIVATION_SILU, silu)                                                                                        \
    EACH(ACTIVATION_HARDSIGMOID, hardsigmoid)                                                                          \
    EACH(ACTIVATION_HARDSWISH, hardswish)

#define ACTIVATION_NUMBER(kind, name) kind,
typedef enum Activation { ACTIVATIONS(ACTIVATION_NUMBER) } Activation;
#undef ACTIVATION_NUMBER

typedef union FloatBits {
    float value;
    uint32_t bits;
} FloatBits;

// e^x for x <= 0 (Cephes' expf); smaller results become e^-87. Adding 1.5 * 2^23 rounds to a whole number, which is
// then in the low bits: a NaN needs no conversion that would be undefined.
// With n = x / ln 2 rounded to a whole number and r = x - n ln 2, |r| <= ln 2 / 2:
//   e^x = 2^n e^r,   e^r = 1 + r + r^2 p(r)
// p is a polynomial of degree 5 that is closest to (e^r - 1 - r) / r^2 on that range; 2^n is made of the exponent's
// bits.
BOTH float small_exponential(float x) {
    const float shift = 12582912.0f;
    x = x < -87.0f ? -87.0f : x;
    FloatBits whole = {x * 1.44269504f + shift};
    float n = whole.value - shift;
    float r = (x - n * 0.693359375f) + n * 2.12194440e-4f; // x - n ln 2, ln 2 in two parts
    float p = 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    FloatBits power = {0};
    power.bits = (whole.bits + 127u) << 23; // the shift's own bits go over the edge
    return (p * r * r + r + 1.0f) * power.value;
}

BOTH float magnitude_of(float x) {
    return x < 0 ? -x : x;
}

// Near 0 a polynomial (Cephes' tanhf), as 1 - e^-2x would cancel there.
BOTH float tanh_value(float x, float number) {
    (void)number;
    const float size = magnitude_of(x), e = small_exponential(-2.0f * size), far = (1.0f - e) / (1.0f + e);
    const float square = x * x;
    float p = -5.70498872745e-3f;
    p = p * square + 2.06390887954e-2f;
    p = p * square - 5.37397155531e-2f;
    p = p * square + 1.33314422036e-1f;
    p = p * square - 3.33332819422e-1f;
    return size < 0.625f ? p * square * x + x : x < 0 ? -far : far;
}

// 1 - tanh(x)^2, written by e = e^-2|x| as 4e / (1 + e)^2: the difference would cancel far from 0.
BOTH float tanh_derivative(float x, float number) {
    (void)number;
    const float e = small_exponential(-2.0f * magnitude_of(x)), sum = 1.0f + e;
    return 4.0f * e / (sum * sum);
}

// With e^-|x| no exponential overflows, whatever the sign of x.
BOTH float sigmoid_value(float x, float number) {
    (void)number;
    const float e = small_exponential(-magnitude_of(x));
    return (x < 0 ? e : 1.0f) / (1.0f + e);
}

BOTH float sigmoid_derivative(float x, float number) {
    (void)number;
    const float e = small_exponential(-magnitude_of(x)), sum = 1.0f + e;
    return e / (sum * sum);
}

// At 0 the derivative is the factor of negative values, as in PyTorch.
BOTH float leaky_value(float x, float number) {
    return x < 0 ? number * x : x;
}

BOTH float leaky_derivative(float x, float number) {
    return x > 0 ? 1.0f : number;
}

BOTH float relu6_value(float x, float number) {
    (void)number;
    const float cut = x > 6.0f ? 6.0f : x;
    return cut < 0 ? 0 : cut;
}

// Zero at both ends, as in PyTorch.
BOTH float relu6_derivative(float x, float number) {
    (void)number;
    return x <= 0 || x >= 6.0f ? 0 : 1.0f;
}

// The share of the normal distribution beyond size >= 0, given e^(-size^2 / 2) (Abramowitz and Stegun, 7.1.26: within
// 1e-7).
BOTH float normal_tail(float size, float e) {
    const float t = 1.0f / (1.0f + 0.3275911f * 0.707106781f * size);
    float p = 1.061405429f;
    p = p * t - 1.453152027f;
    p = p * t + 1.421413741f;
    p = p * t - 0.284496736f;
    p = p * t + 0.254829592f;
    return 0.5f * p * t * e;
}

// x times the share of the normal distribution below x, as PyTorch's GELU without approximation.
BOTH float gelu_value(float x, float number) {
    (void)number;
    const float size = magnitude_of(x), tail = normal_tail(size, small_exponential(-0.5f * x * x));
    return x * (x < 0 ? tail : 1.0f - tail);
}

BOTH float gelu_derivative(float x, float number) {
    (void)number;
    const float size = magnitude_of(x), e = small_exponential(-0.5f * x * x), tail = normal_tail(size, e);
    return (x < 0 ? tail : 1.0f - tail) + 0.398942280f * x * e;
}

// Clevert et al., ICLR 2016: a smooth step down to -number, and a slope of 1 above 0. The derivative below 0 is the
// exponential itself, not value + number: where the value is almost -number, that sum would cancel.
BOTH float elu_value(float x, float number) {
    return x > 0 ? x : number * (small_exponential(x) - 1.0f);
}

BOTH float elu_derivative(float x, float number) {
    return x > 0 ? 1.0f : number * small_exponential(x);
}

// x times its sigmoid (Elfwing et al., 2018).
BOTH float silu_value(float x, float number) {
    return x * sigmoid_value(x, number);
}

// s + x s (1 - s) with s = sigmoid(x): the second term takes sigmoid's derivative, which does not cancel.
BOTH float silu_derivative(float x, float number) {
    return sigmoid_value(x, number) + x * sigmoid_derivative(x, number);
}

// A sigmoid of three straight lines (Howard et al., ICCV 2019).
BOTH float hardsigmoid_value(float x, float number) {
    return relu6_value(x + 3.0f, number) * 0.166666667f;
}

BOTH float hardsigmoid_derivative(float x, float number) {
    return relu6_derivative(x + 3.0f, number) * 0.166666667f;
}

// Its product with x.
BOTH float hardswish_value(float x, float number) {
    return x * hardsigmoid_value(x, number);
}

BOTH float hardswish_derivative(float x, float number) {
    return hardsigmoid_value(x, number) + x * hardsigmoid_derivative(x, number);
}

#endif
