// Part of send_rules.h: signs only (signSGD: Bernstein, Wang, Azizzadenesheli, Anandkumar, ICML 2018), for the server's
// majority vote (server/vote.h). On the wire: one bit per weight. A change of exactly zero gets a random sign, so that
// a weight that no client changes stays in place on average.
#include "fedavg/rules/send/send_rules.h"

static uint64_t sign_bytes(const Coding *coding) {
    return bytes_of_bits(coding->count, 1);
}

// The random bit is keyed by the coordinate, so that it does not depend on how many changes were zero before it.
static size_t sign_encode(uint8_t *wire, const Payload *payload, const Coding *coding) {
    BitWriter writer = {.to = wire};
    for (size_t i = 0; i < coding->count; i++) {
        const float value = payload->update[i];
        const bool minus = value == 0 ? rng_block(coding->key, (uint32_t)i, 0, 0, 0).word[0] & 1 : value < 0;
        bits_put(&writer, minus, 1);
    }
    return (size_t)(bits_end(&writer) - wire);
}

// The values are votes and have no scale; the server's rule gives the step its length.
static void sign_decode(float *values, const uint8_t *wire, size_t bytes, const Coding *coding) {
    (void)bytes;
    BitReader reader = {.from = wire};
    for (size_t i = 0; i < coding->count; i++)
        values[i] = bits_take(&reader, 1) ? -1 : 1;
}

const SendCode sign_send_code = {
    .text = {"sign", "only the signs of the changes are sent", "Bernstein et al., ICML 2018 (signSGD)", {{0}}},
    .bytes = sign_bytes,
    .encode = sign_encode,
    .decode = sign_decode};
