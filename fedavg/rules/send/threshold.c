// Part of send_rules.h: sparsification by a threshold (Strom, INTERSPEECH 2015; Dryden et al. 2016) sends the changes
// with |x| >= tau. On the wire: their number, then pairs of index and value, 8 bytes each. The length is known only
// after training.
#include <math.h>

#include "fedavg/rules/send/send_rules.h"

static uint64_t threshold_bytes(const Coding *coding) {
    return 8 * coding->count + 4;
}

// The number of pairs is written last, into the place that was left for it.
static size_t threshold_encode(uint8_t *wire, const Payload *payload, const Coding *coding) {
    const float tau = (float)coding->number[0];
    uint32_t sent = 0;
    uint8_t *pair = wire + sizeof sent;
    for (size_t i = 0; i < coding->count; i++) {
        if (!(fabsf(payload->update[i]) >= tau)) continue;
        const uint32_t index = (uint32_t)i;
        memcpy(pair, &index, sizeof index);
        pair = put_float(pair + sizeof index, payload->become[i]);
        sent++;
    }
    memcpy(wire, &sent, sizeof sent);
    return (size_t)(pair - wire);
}

static void threshold_decode(float *values, const uint8_t *wire, size_t bytes, const Coding *coding) {
    (void)bytes, (void)coding;
    uint32_t sent;
    memcpy(&sent, wire, sizeof sent);
    for (const uint8_t *pair = wire + sizeof sent; sent > 0; sent--, pair += 8) {
        uint32_t index;
        memcpy(&index, pair, sizeof index);
        values[index] = take_float(pair + sizeof index);
    }
}

const SendCode threshold_send_code = {
    .text = {"threshold",
             "only changes of at least tau are sent",
             "Strom, INTERSPEECH 2015",
             {{.name = "tau", .preset = 0.001, .minimum = 0, .maximum = 1e6}, FEEDBACK_ON, FEEDBACK_DECAY(1)}},
    .becomes = true,
    .varies = true,
    .bytes = threshold_bytes,
    .encode = threshold_encode,
    .decode = threshold_decode};
