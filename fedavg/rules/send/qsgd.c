// Part of send_rules.h: QSGD (Alistarh, Grubic, Li, Tomioka, Vojnovic, NIPS 2017), with one bucket and without Elias
// coding:
//
//   norm sign(x) xi / s,   l = floor(s |x| / norm),   xi = l + [u < s |x| / norm - l]
//
// On the wire: the norm, then a sign and ceil(log2(s + 1)) bits per weight.
#include <math.h>

#include "fedavg/rules/send/send_rules.h"
#include "fedavg/rules/sum/aggregate.h"

static int level_bits(const Coding *coding) {
    const uint32_t levels = (uint32_t)coding->number[0];
    int bits = 0;
    while (bits < 31 && levels >> bits)
        bits++;
    return bits; // for the levels 0 to s
}

static uint64_t qsgd_bytes(const Coding *coding) {
    return 4 + bytes_of_bits(coding->count, 1 + level_bits(coding));
}

// The norm bounds every magnitude, so that levels reach from 0 to s; fmin covers the rounding of the quotient. The sign
// is stored above the level's bits.
static size_t qsgd_encode(uint8_t *wire, const Payload *payload, const Coding *coding) {
    const float norm = (float)sqrt(aggregate_squared_length(payload->update, coding->count));
    const double levels = coding->number[0], per_length = norm > 0 ? levels / (double)norm : 0;
    const int bits = level_bits(coding);
    BitWriter writer = {.to = put_float(wire, norm)};
    float uniforms[CODE_BLOCK];
    for (size_t i = 0; i < coding->count; i++) {
        if (i % CODE_BLOCK == 0) code_uniforms(uniforms, coding->key, i, coding->count);
        const double level = fmin(fabs((double)payload->update[i]) * per_length, levels), below = floor(level);
        const bool up = (double)uniforms[i % CODE_BLOCK] < level - below;
        const uint32_t minus = payload->update[i] < 0;
        bits_put(&writer, ((uint32_t)below + up) | minus << bits, bits + 1);
    }
    return (size_t)(bits_end(&writer) - wire);
}

static void qsgd_decode(float *values, const uint8_t *wire, size_t bytes, const Coding *coding) {
    (void)bytes;
    const float norm = take_float(wire), step = (float)((double)norm / coding->number[0]);
    const int bits = level_bits(coding);
    BitReader reader = {.from = wire + 4};
    for (size_t i = 0; i < coding->count; i++) {
        const uint32_t taken = bits_take(&reader, bits + 1);
        const float value = step * (float)(taken & ((1u << bits) - 1));
        values[i] = taken >> bits ? -value : value;
    }
}

const SendCode qsgd_send_code = {
    .text = {"qsgd",
             "rounds each change at random to one of LEVELS levels of the update's length",
             "Alistarh et al., NIPS 2017",
             {{.name = "levels", .preset = 255, .minimum = 1, .maximum = 65535, .whole = true},
              FEEDBACK_OFF,
              PER_WHOLE,
              FEEDBACK_DECAY(1)}},
    .bytes = qsgd_bytes,
    .encode = qsgd_encode,
    .decode = qsgd_decode};
