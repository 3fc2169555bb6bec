// Part of send_rules.h: stochastic rounding to b bits, as in FedPAQ (Reisizadeh, Mokhtari, Hassani, Jadbabaie,
// Pedarsani, AISTATS 2020):
//
//   a = max|x|,   floor((x + a) / 2a (2^b - 1) + u)
//
// FedPAQ's theorems allow any unbiased rounding; the paper's own example is QSGD (send qsgd).
//
// On the wire: a, and b bits per weight.
#include <math.h>

#include "fedavg/rules/send/send_rules.h"

static int value_bits(const Coding *coding) {
    return (int)coding->number[0];
}

static double top_of(const Coding *coding) {
    return (double)((1u << value_bits(coding)) - 1);
}

static uint64_t bits_bytes(const Coding *coding) {
    return 4 + bytes_of_bits(coding->count, value_bits(coding));
}

// u is uniform in [0, 1), so that floor(level + u) is the upper level with a probability equal to the fraction of
// `level`: the rounding is unbiased. The largest change has the top level already, and fmin keeps u from lifting it
// above.
static size_t bits_encode(uint8_t *wire, const Payload *payload, const Coding *coding) {
    float most = 0;
    for (size_t i = 0; i < coding->count; i++)
        most = fmaxf(most, fabsf(payload->update[i]));
    const double top = top_of(coding), a = (double)most, per_step = a > 0 ? top / (2 * a) : 0;
    BitWriter writer = {.to = put_float(wire, most)};
    float uniforms[CODE_BLOCK];
    for (size_t i = 0; i < coding->count; i++) {
        if (i % CODE_BLOCK == 0) code_uniforms(uniforms, coding->key, i, coding->count);
        const double level = ((double)payload->update[i] + a) * per_step;
        const double rounded = floor(level + (double)uniforms[i % CODE_BLOCK]);
        bits_put(&writer, (uint32_t)fmin(rounded, top), value_bits(coding));
    }
    return (size_t)(bits_end(&writer) - wire);
}

static void bits_decode(float *values, const uint8_t *wire, size_t bytes, const Coding *coding) {
    (void)bytes;
    const double a = (double)take_float(wire), step = 2 * a / top_of(coding);
    BitReader reader = {.from = wire + 4};
    for (size_t i = 0; i < coding->count; i++)
        values[i] = (float)(step * (double)bits_take(&reader, value_bits(coding)) - a);
}

const SendCode bits_send_code = {
    .text = {"bits",
             "each change is rounded at random to one of 2^b levels between plus and minus the largest; the paper's "
             "own example is qsgd",
             "Reisizadeh et al., AISTATS 2020 (FedPAQ)",
             {{.name = "b", .preset = 8, .minimum = 1, .maximum = 16, .whole = true},
              FEEDBACK_OFF,
              PER_WHOLE,
              FEEDBACK_DECAY(1)}},
    .bytes = bits_bytes,
    .encode = bits_encode,
    .decode = bits_decode};
