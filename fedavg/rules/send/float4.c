// Part of send_rules.h: floats of 4 bits, a sign and three bits of exponent (E3M0), in which Streaming DiLoCo sends the
// changes of its replicas (Douillard et al., arXiv 2501.18512, 2025). For each tensor:
//
//   a = max|x|,   x becomes +-a 2^-k, k = 0 to 6, or +-0, whichever is nearest; halfway, the larger one
//
// The paper leaves the scale open. On the wire: a, and for each weight 7 - k, or 0 for zero, plus 8 below zero.
#include "fedavg/rules/send/send_rules.h"

enum { VALUE_BITS = 4, MOST_LEVEL = 7, MINUS = 8 };

static uint64_t float4_bytes(const Coding *coding) {
    return 4 + bytes_of_bits(coding->count, VALUE_BITS);
}

// The middle between a level and the one below it, in parts of a. Between the lowest level and zero it is half of the
// level, between two powers of two three quarters of the upper one. All products with a float are exact.
static double middle(int level) {
    return ldexp(level == 1 ? 0.5 : 0.75, level - MOST_LEVEL);
}

static size_t float4_encode(uint8_t *wire, const Payload *payload, const Coding *coding) {
    float most = 0;
    double from[MOST_LEVEL + 1];
    for (size_t i = 0; i < coding->count; i++)
        most = fmaxf(most, fabsf(payload->update[i]));
    for (int level = 1; level <= MOST_LEVEL; level++)
        from[level] = middle(level) * (double)most;
    BitWriter writer = {.to = put_float(wire, most)};
    for (size_t i = 0; i < coding->count; i++) {
        const float value = payload->update[i];
        uint32_t level = 0;
        for (int l = 1; l <= MOST_LEVEL; l++)
            level += fabs((double)value) >= from[l];
        bits_put(&writer, level | (signbit(value) ? MINUS : 0), VALUE_BITS);
    }
    return (size_t)(bits_end(&writer) - wire);
}

static void float4_decode(float *values, const uint8_t *wire, size_t bytes, const Coding *coding) {
    (void)bytes;
    const float a = take_float(wire);
    float value_of[MINUS];
    for (int level = 0; level <= MOST_LEVEL; level++)
        value_of[level] = level > 0 ? ldexpf(a, level - MOST_LEVEL) : 0;
    BitReader reader = {.from = wire + 4};
    for (size_t i = 0; i < coding->count; i++) {
        const uint32_t code = bits_take(&reader, VALUE_BITS);
        values[i] = code & MINUS ? -value_of[code - MINUS] : value_of[code];
    }
}

const SendCode float4_send_code = {
    .text =
        {"float4",
         "each change becomes a float of 4 bits, a sign and three bits of exponent, below the largest of its tensor",
         "Douillard et al., arXiv 2501.18512, 2025",
         {FEEDBACK_OFF, PER_TENSOR, FEEDBACK_DECAY(1)}},
    .bytes = float4_bytes,
    .encode = float4_encode,
    .decode = float4_decode};
