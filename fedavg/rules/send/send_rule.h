// The contract of a code: how a client's update becomes bytes, and how the server reads them. One file per code
// (send/NAME.c) and one line in SEND_CODES (send_rules.h).
//
// A code that sends single values (`becomes`) puts the new weight on the wire, global + update, so that a weight
// arrives exactly as it was trained, as in FedAvg. All other codes send values of the update itself.
#ifndef SOUNDER_FEDAVG_RULES_SEND_SEND_RULE_H
#define SOUNDER_FEDAVG_RULES_SEND_SEND_RULE_H

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/rng.h"
#include "fedavg/rules/rule.h"

// The information that client and server share.
typedef struct Coding {
    const double *number; // the code's
    size_t count;         // number of weights that are sent
    const size_t *ends;   // (tensors): the end of each tensor among them
    const size_t *rows;   // (tensors): the first dimension of a tensor, as a matrix; 0 for a vector
    uint32_t tensors;
    RngKey key;          // of this client in this round
    bool feeds_back;     // the part that is not sent is added to the client's next update
    const float *before; // the code's state from the client's last turn; NULL if there is none
    float *after;        // ... its state after this turn; NULL if it has none
} Coding;

// The client's data, (count) each. Both are made once per client, since some codes choose by the update and send the
// weight.
typedef struct Payload {
    const float *update;
    const float *become; // global weights + update
} Payload;

typedef struct SendCode {
    RuleText text;
    bool becomes;
    bool varies; // its number of bytes is known only after training
    // Floats of state per client that feeds back, besides the leftover; NULL: none.
    size_t (*keeps)(const Coding *coding);
    // Bytes on the wire; if they vary, the most.
    uint64_t (*bytes)(const Coding *coding);
    // Writes to wire, which has room for that; returns the bytes written. NULL: nothing is encoded, the trained weights
    // are sent.
    size_t (*encode)(uint8_t *wire, const Payload *payload, const Coding *coding);
    // values (count): the update; with `becomes` the global weights on entry, of which the sent ones are replaced.
    // coding->key is not set: what the server needs of it is on the wire.
    void (*decode)(float *values, const uint8_t *wire, size_t bytes, const Coding *coding);
} SendCode;

// Packs integers of a few bits each, lowest bit first.
typedef struct BitWriter {
    uint8_t *to;
    uint64_t held;
    int bits;
} BitWriter;

// At most 7 bits are held over from the last value, so that 64 bits have room for any value of 32.
static inline void bits_put(BitWriter *writer, uint32_t value, int bits) {
    writer->held |= (uint64_t)value << writer->bits;
    writer->bits += bits;
    for (; writer->bits >= 8; writer->bits -= 8, writer->held >>= 8)
        *writer->to++ = (uint8_t)writer->held;
}

// Writes the last byte; returns the position after it.
static inline uint8_t *bits_end(BitWriter *writer) {
    if (writer->bits > 0) *writer->to++ = (uint8_t)writer->held;
    return writer->to;
}

typedef struct BitReader {
    const uint8_t *from;
    uint64_t held;
    int bits;
} BitReader;

static inline uint32_t bits_take(BitReader *reader, int bits) {
    for (; reader->bits < bits; reader->bits += 8)
        reader->held |= (uint64_t)*reader->from++ << reader->bits;
    const uint32_t value = (uint32_t)(reader->held & ((UINT64_C(1) << bits) - 1));
    reader->held >>= bits;
    reader->bits -= bits;
    return value;
}

static inline size_t bytes_of_bits(size_t count, int bits) {
    return (count * (size_t)bits + 7) / 8;
}

// The number of weights that a code with a `share` (its first number) sends.
static inline size_t shared_count(const Coding *coding) {
    const size_t kept = (size_t)ceil(coding->number[0] * (double)coding->count);
    return kept < coding->count ? kept : coding->count;
}

static inline uint8_t *put_float(uint8_t *wire, float value) {
    memcpy(wire, &value, sizeof value);
    return wire + sizeof value;
}

static inline float take_float(const uint8_t *wire) {
    float value;
    memcpy(&value, wire, sizeof value);
    return value;
}

// Random numbers in [0, 1) for the coordinates from `first` on, of `count` in all, one block at a time: vectorised,
// they take a third of the time.
enum { CODE_BLOCK = 1024 };
void code_uniforms(float uniforms[CODE_BLOCK], RngKey key, size_t first, size_t count);

// The magnitude as an integer: floats without their sign are ordered like their bits.
static inline uint32_t code_magnitude(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits & 0x7fffffffu;
}

// The kept-th largest magnitude of the values (count), in three passes over them. *equal: how many values of this
// magnitude belong to the largest `kept` (top_k.c).
uint32_t code_kth_largest(size_t *equal, const float *values, size_t count, size_t kept);

// Choices that several codes share; the first word is the preset.
#define FEEDBACK_ON                                                                                                    \
    {                                                                                                                  \
        .name = "feedback", .words = { "yes", "no" }                                                                   \
    }
#define FEEDBACK_OFF                                                                                                   \
    {                                                                                                                  \
        .name = "feedback", .words = { "no", "yes" }                                                                   \
    }
// The factor of the part that was not sent, when it joins the next update.
#define FEEDBACK_DECAY(all)                                                                                            \
    { .name = "decay", .preset = (all), .minimum = 0, .maximum = 1 }
// Whether the code works on the whole update or on each tensor (send_encode).
#define PER_WHOLE                                                                                                      \
    {                                                                                                                  \
        .name = "per", .words = { "whole", "tensor" }                                                                  \
    }
#define PER_TENSOR                                                                                                     \
    {                                                                                                                  \
        .name = "per", .words = { "tensor", "whole" }                                                                  \
    }

#endif
