// Part of send_rules.h: random-k sparsification (Stich, Cordonnier, Jaggi, NeurIPS 2018; Konecny et al. 2016,
// "subsampled"): k = ceil(share P) weights, drawn for each client and round. Without error feedback they are multiplied
// by P/k, which makes the mean unbiased. On the wire: the values, and the key from which the server draws the same
// weights, 4 k + 8 bytes.
#include "fedavg/rules/send/send_rules.h"

static uint64_t random_k_bytes(const Coding *coding) {
    return 4 * shared_count(coding) + sizeof(RngKey);
}

// Selection sampling (Knuth, algorithm S): each set of k weights is equally likely, and they are drawn in order.
static bool is_drawn(RngKey key, size_t i, size_t needed, size_t count) {
    return needed > 0 && rng_below(rng_block(key, (uint32_t)i, 0, 0, 0).word[0], (uint32_t)(count - i)) < needed;
}

// The factor multiplies the update: the wire has a weight, so (factor - 1) times the update is added to it.
static size_t random_k_encode(uint8_t *wire, const Payload *payload, const Coding *coding) {
    const size_t kept = shared_count(coding), count = coding->count;
    const double factor = coding->feeds_back || kept == count ? 1 : (double)count / (double)kept;
    memcpy(wire, &coding->key, sizeof coding->key);
    uint8_t *value = wire + sizeof coding->key;
    for (size_t i = 0, needed = kept; i < count; i++) {
        if (!is_drawn(coding->key, i, needed, count)) continue;
        needed--;
        const double more = (factor - 1) * (double)payload->update[i];
        value = put_float(value, factor == 1 ? payload->become[i] : (float)((double)payload->become[i] + more));
    }
    return (size_t)(value - wire);
}

// The server repeats the client's draw from the key, so that no index travels. A message that is too short ends the
// reading and leaves the other weights as they are.
static void random_k_decode(float *values, const uint8_t *wire, size_t bytes, const Coding *coding) {
    RngKey key;
    memcpy(&key, wire, sizeof key);
    size_t at = sizeof key;
    for (size_t i = 0, needed = shared_count(coding); i < coding->count; i++) {
        if (!is_drawn(key, i, needed, coding->count) || at + 4 > bytes) continue;
        needed--;
        values[i] = take_float(wire + at), at += 4;
    }
}

const SendCode random_k_send_code = {.text = {"random-k",
                                              "the changes of weights drawn at random are sent",
                                              "Stich et al., NeurIPS 2018",
                                              {{.name = "share", .preset = 0.1, .minimum = 1e-9, .maximum = 1},
                                               FEEDBACK_OFF,
                                               PER_WHOLE,
                                               FEEDBACK_DECAY(1)}},
                                     .becomes = true,
                                     .bytes = random_k_bytes,
                                     .encode = random_k_encode,
                                     .decode = random_k_decode};
