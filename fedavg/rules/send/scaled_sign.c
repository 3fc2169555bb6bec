// Part of send_rules.h: signs times the mean magnitude (EF-SGD: Karimireddy, Rebjock, Stich, Jaggi, ICML 2019), (|x|_1
// / P) sign(x). On the wire: that mean, and one bit per weight. The error is fed back into the client's next update.
// Zero counts as positive.

#include "fedavg/rules/send/send_rules.h"
#include "fedavg/rules/sum/aggregate.h"

static uint64_t scaled_sign_bytes(const Coding *coding) {
    return 4 + bytes_of_bits(coding->count, 1);
}

static size_t scaled_sign_encode(uint8_t *wire, const Payload *payload, const Coding *coding) {
    const double mean = aggregate_absolute_sum(payload->update, coding->count) / (double)coding->count;
    BitWriter writer = {.to = put_float(wire, (float)mean)};
    for (size_t i = 0; i < coding->count; i++)
        bits_put(&writer, payload->update[i] < 0, 1);
    return (size_t)(bits_end(&writer) - wire);
}

static void scaled_sign_decode(float *values, const uint8_t *wire, size_t bytes, const Coding *coding) {
    (void)bytes;
    const float mean = take_float(wire);
    BitReader reader = {.from = wire + 4};
    for (size_t i = 0; i < coding->count; i++)
        values[i] = bits_take(&reader, 1) ? -mean : mean;
}

const SendCode scaled_sign_send_code = {.text = {"scaled-sign",
                                                 "the signs of the changes and their mean magnitude are sent",
                                                 "Karimireddy et al., ICML 2019 (EF-SGD)",
                                                 {FEEDBACK_ON, PER_WHOLE, FEEDBACK_DECAY(1)}},
                                        .bytes = scaled_sign_bytes,
                                        .encode = scaled_sign_encode,
                                        .decode = scaled_sign_decode};
