// Numbers of 16 bits that files have, as floats.
#ifndef SOUNDER_BASE_HALF_H
#define SOUNDER_BASE_HALF_H

#include <math.h>
#include <stdint.h>
#include <string.h>

// IEEE 754's binary16: a sign, 5 bits of exponent, 10 of fraction.
static inline float half_number(uint64_t bits) {
    const int exponent = (int)(bits >> 10 & 31);
    const double fraction = (double)(bits & 1023) / 1024;
    const double size = exponent == 31  ? (fraction > 0 ? (double)NAN : (double)INFINITY)
                        : exponent == 0 ? ldexp(fraction, -14)
                                        : ldexp(1 + fraction, exponent - 15);
    return (float)(bits >> 15 & 1 ? -size : size);
}

// bfloat16: the upper half of a float32.
static inline float bfloat_number(uint16_t bits) {
    const uint32_t whole = (uint32_t)bits << 16;
    float number;
    memcpy(&number, &whole, sizeof number);
    return number;
}

#endif
