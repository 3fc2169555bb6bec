// What a code is: how a client's update becomes bytes, and how the server reads them. One file a code (send/NAME.c) and
// one line in SEND_CODES (send_rules.h).
//
// A code that keeps single values (`becomes`) has on the wire what a weight becomes, the global one plus the update:
// what was only trained arrives exactly as FedAvg's clients hand it in. The other codes have values of the update
// itself.
#ifndef SOUNDER_FEDAVG_RULES_SEND_SEND_RULE_H
#define SOUNDER_FEDAVG_RULES_SEND_SEND_RULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/rng.h"
#include "fedavg/rules/rule.h"

// What both sides know.
typedef struct Coding {
    const double *number; // the code's
    size_t count;         // weights that are sent
    const size_t *ends;   // (tensors) where each tensor ends among them
    const size_t *rows;   // (tensors) of the matrix that a tensor is, its first side; 0: it is a vector
    uint32_t tensors;
    RngKey key;          // of this client in this round
    bool feeds_back;     // what is not sent now is added to the client's next update
    const float *before; // what the code has kept of the client's last turn; NULL: nothing
    float *after;        // ... and keeps of this one; NULL: nothing
} Coding;

// What the client sends: (count) each.
typedef struct Payload {
    const float *update;
    const float *become; // the global weights + update
} Payload;

typedef struct SendCode {
    RuleText text;
    bool becomes;
    bool varies; // how many bytes it makes is known only when the client has trained
    // Floats that the code keeps for a client that feeds back, besides what it leaves over; NULL: none.
    size_t (*keeps)(const Coding *coding);
    // Bytes on the wire; the most there can be where that varies.
    uint64_t (*bytes)(const Coding *coding);
    // wire: room for those; returns how many were written. NULL: nothing is encoded, the trained weights are sent.
    size_t (*encode)(uint8_t *wire, const Payload *payload, const Coding *coding);
    // values (count): of the update; where the code becomes: the global weights, of which it replaces those that were
    // sent. coding->key is not the client's: what the server has to know of it stands on the wire.
    void (*decode)(float *values, const uint8_t *wire, size_t bytes, const Coding *coding);
} SendCode;

// Whole numbers of a few bits, one behind the other, the lowest bit first.
typedef struct BitWriter {
    uint8_t *to;
    uint64_t held;
    int bits;
} BitWriter;

static inline void bits_put(BitWriter *writer, uint32_t value, int bits) {
    writer->held |= (uint64_t)value << writer->bits;
    writer->bits += bits;
    for (; writer->bits >= 8; writer->bits -= 8, writer->held >>= 8)
        *writer->to++ = (uint8_t)writer->held;
}

// Returns where the next byte goes.
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

static inline uint8_t *put_float(uint8_t *wire, float value) {
    memcpy(wire, &value, sizeof value);
    return wire + sizeof value;
}

static inline float take_float(const uint8_t *wire) {
    float value;
    memcpy(&value, wire, sizeof value);
    return value;
}

// Numbers in [0, 1) for the coordinates from first on, of `count` in all, a block at a time: as vectors they take a
// third of the time.
enum { CODE_BLOCK = 1024 };
void code_uniforms(float uniforms[CODE_BLOCK], RngKey key, size_t first, size_t count);

// Choices that several codes have; the first word is the preset.
#define FEEDBACK_ON                                                                                                    \
    {                                                                                                                  \
        .name = "feedback", .words = { "yes", "no" }                                                                   \
    }
#define FEEDBACK_OFF                                                                                                   \
    {                                                                                                                  \
        .name = "feedback", .words = { "no", "yes" }                                                                   \
    }
// What the code looks at: the whole update, or each of its tensors on its own (send_encode).
#define PER_WHOLE                                                                                                      \
    {                                                                                                                  \
        .name = "per", .words = { "whole", "tensor" }                                                                  \
    }

#endif
