// Part of send_rules.h: TernGrad (Wen, Xu, Yan, Wu, Wang, Chen, Li, NIPS 2017), for each tensor:
//
//   max|x| sign(x) [u < |x| / max|x|]
//
// On the wire: the largest magnitude of each tensor, and 2 bits per weight. Before, the values of a tensor are cut at
// `clip` standard deviations (2.5 in all experiments of the paper; 0: no cut), except a single value, which has no
// deviation. The rounding is unbiased, the cut is not.
#include <math.h>

#include "fedavg/rules/send/send_rules.h"
#include "fedavg/rules/sum/aggregate.h"

enum { ZERO, PLUS, MINUS };

static uint64_t ternary_bytes(const Coding *coding) {
    return 4 * (uint64_t)coding->tensors + bytes_of_bits(coding->count, 2);
}

static float largest(const float *values, size_t count) {
    float most = 0;
    for (size_t i = 0; i < count; i++)
        most = fmaxf(most, fabsf(values[i]));
    return most;
}

// The variance is the mean square minus the squared mean, which rounding may make slightly negative: hence fmax.
static float limit_of(const float *values, size_t count, double deviations) {
    const float most = largest(values, count);
    if (deviations == 0 || count < 2) return most;
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += (double)values[i];
    const double mean = sum / (double)count;
    const double variance = aggregate_squared_length(values, count) / (double)count - mean * mean;
    return fminf(most, (float)(deviations * sqrt(fmax(variance, 0))));
}

// A uniform number times the limit is below |x| with probability |x| / limit. The comparison needs no quotient, and a
// limit of 0 sends zeros.
static size_t ternary_encode(uint8_t *wire, const Payload *payload, const Coding *coding) {
    BitWriter writer = {.to = wire + 4 * (size_t)coding->tensors};
    float uniforms[CODE_BLOCK];
    size_t i = 0;
    for (uint32_t t = 0; t < coding->tensors; t++) {
        const float limit = limit_of(payload->update + i, coding->ends[t] - i, coding->number[0]);
        put_float(wire + 4 * (size_t)t, limit);
        for (; i < coding->ends[t]; i++) {
            if (i % CODE_BLOCK == 0) code_uniforms(uniforms, coding->key, i, coding->count);
            const float value = payload->update[i];
            const bool sent = uniforms[i % CODE_BLOCK] * limit < fabsf(value);
            bits_put(&writer, !sent || limit == 0 ? ZERO : value > 0 ? PLUS : MINUS, 2);
        }
    }
    return (size_t)(bits_end(&writer) - wire);
}

// Two bits hold three values; the fourth is never written, and reads as 0.
static void ternary_decode(float *values, const uint8_t *wire, size_t bytes, const Coding *coding) {
    (void)bytes;
    BitReader reader = {.from = wire + 4 * (size_t)coding->tensors};
    size_t i = 0;
    for (uint32_t t = 0; t < coding->tensors; t++) {
        const float limit = take_float(wire + 4 * (size_t)t);
        for (; i < coding->ends[t]; i++) {
            const uint32_t sign = bits_take(&reader, 2);
            values[i] = sign == PLUS ? limit : sign == MINUS ? -limit : 0;
        }
    }
}

const SendCode ternary_send_code = {
    .text = {"terngrad",
             "each change becomes 0, or plus or minus the largest of its tensor, unbiased except for values cut at "
             "CLIP deviations",
             "Wen et al., NIPS 2017",
             {{.name = "clip", .preset = 2.5, .minimum = 0, .maximum = 1000}, FEEDBACK_OFF, FEEDBACK_DECAY(1)}},
    .bytes = ternary_bytes,
    .encode = ternary_encode,
    .decode = ternary_decode};
