// Part of send_rules.h: top-k sparsification (Aji, Heafield, EMNLP 2017; with error feedback: Stich, Cordonnier, Jaggi,
// NeurIPS 2018):
//
//   the k = ceil(share P) largest |x|; of equal ones those with the lower index
//
// On the wire: pairs of index and value, or one bit per weight followed by the values, whichever is shorter: min(8 k, 4
// k + P/8) bytes.
#include "fedavg/rules/send/send_rules.h"

// Both sides know k and P, so that the shorter form needs no mark on the wire.
static bool sends_pairs(size_t kept, size_t count) {
    return 8 * kept <= 4 * kept + bytes_of_bits(count, 1);
}

static uint64_t top_k_bytes(const Coding *coding) {
    const size_t kept = shared_count(coding);
    return sends_pairs(kept, coding->count) ? 8 * kept : 4 * kept + bytes_of_bits(coding->count, 1);
}

// A step of a radix selection: finds one digit of the k-th largest magnitude among those whose higher digits are
// `prefix`. *left: how many of them belong to the k largest; reduced by those with a larger digit.
static uint32_t select_digit(size_t *left, const float *values, size_t count, uint32_t prefix, int shift, int bits) {
    size_t histogram[2048] = {0};
    const uint32_t mask = (1u << bits) - 1;
    for (size_t i = 0; i < count; i++) {
        const uint32_t m = code_magnitude(values[i]);
        histogram[m >> shift & mask] += (m >> (shift + bits)) == prefix;
    }
    uint32_t digit = mask;
    for (; digit > 0 && histogram[digit] < *left; digit--)
        *left -= histogram[digit];
    return digit;
}

uint32_t code_kth_largest(size_t *equal, const float *values, size_t count, size_t kept) {
    enum { HIGH = 11, LOW = 10 };
    *equal = kept;
    uint32_t found = select_digit(equal, values, count, 0, 2 * LOW, HIGH);
    found = found << LOW | select_digit(equal, values, count, found, LOW, LOW);
    return found << LOW | select_digit(equal, values, count, found, 0, LOW);
}

// Among the weights whose magnitude equals the k-th, the first ones are sent, as many as make k: the choice is a
// function of the values, with no sort whose order of equal elements could differ.
static size_t top_k_encode(uint8_t *wire, const Payload *payload, const Coding *coding) {
    const size_t kept = shared_count(coding), count = coding->count;
    const bool pairs = sends_pairs(kept, count);
    size_t equal;
    const uint32_t least = code_kth_largest(&equal, payload->update, count, kept);
    uint8_t *value = pairs ? wire : wire + bytes_of_bits(count, 1);
    if (!pairs) memset(wire, 0, bytes_of_bits(count, 1));
    for (size_t i = 0; i < count; i++) {
        const uint32_t m = code_magnitude(payload->update[i]);
        if (m < least || (m == least && equal == 0)) continue;
        equal -= m == least;
        const uint32_t index = (uint32_t)i;
        if (pairs)
            memcpy(value, &index, sizeof index), value += sizeof index;
        else
            wire[i / 8] |= (uint8_t)(1u << i % 8);
        value = put_float(value, payload->become[i]);
    }
    return (size_t)(value - wire);
}

static void top_k_decode(float *values, const uint8_t *wire, size_t bytes, const Coding *coding) {
    const size_t kept = shared_count(coding), count = coding->count;
    if (sends_pairs(kept, count)) {
        for (size_t at = 0; at + 8 <= bytes; at += 8) {
            uint32_t index;
            memcpy(&index, wire + at, sizeof index);
            values[index] = take_float(wire + at + sizeof index);
        }
        return;
    }
    const uint8_t *value = wire + bytes_of_bits(count, 1);
    for (size_t i = 0; i < count; i++)
        if (wire[i / 8] >> i % 8 & 1) values[i] = take_float(value), value += 4;
}

const SendCode top_k_send_code = {.text = {"top-k",
                                           "only the largest changes are sent",
                                           "Aji, Heafield, EMNLP 2017; Stich et al., NeurIPS 2018",
                                           {{.name = "share", .preset = 0.1, .minimum = 1e-9, .maximum = 1},
                                            FEEDBACK_ON,
                                            PER_WHOLE,
                                            FEEDBACK_DECAY(1)}},
                                  .becomes = true,
                                  .bytes = top_k_bytes,
                                  .encode = top_k_encode,
                                  .decode = top_k_decode};
