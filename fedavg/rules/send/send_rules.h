// Sending: a client clips its update, adds noise, and encodes it, in this order, before it hands it in. Each is a
// part of the recipe of its own; the text of an algorithm calls all three "send":
//
//   send clip norm=1                        limits the length of the update
//   send noise multiplier=2                 adds noise of 2 times that length to every weight
//   send top-k share=0.01                   encodes the result (send_rule.h)
//
//   clipped = clip_factor(squared_length, most);                    // 1: the update is left as it is
//   bytes = send_encode(wire, &payload, code, &coding);  send_decode(values, wire, bytes, code, &coding);
#ifndef SOUNDER_FEDAVG_RULES_SEND_SEND_RULES_H
#define SOUNDER_FEDAVG_RULES_SEND_SEND_RULES_H

#include "base/err.h"
#include "fedavg/rules/local/fragments.h"
#include "fedavg/rules/local/personal_rules.h"
#include "fedavg/rules/rule.h"
#include "fedavg/rules/send/send_rule.h"
#include "nn/tensors.h"

enum { CLIP_NONE, CLIP_FIXED, CLIP_ADAPTIVE, CLIP_RULE_COUNT };
enum { CLIP_NORM, CLIP_QUANTILE, CLIP_RATE, CLIP_COUNT_NOISE }; // numbers of a clip
extern const RuleText clip_rules[CLIP_RULE_COUNT];

enum { NOISE_NONE, NOISE_GAUSSIAN, NOISE_RULE_COUNT };
enum { NOISE_MULTIPLIER, NOISE_EPSILON, NOISE_DELTA }; // numbers of a noise
extern const RuleText noise_rules[NOISE_RULE_COUNT];

// The rows of the table of codes, in this order. Recipes that name none have the first.
#define SEND_CODES(X)                                                                                                  \
    X(whole)                                                                                                           \
    X(top_k) X(random_k) X(threshold) X(qsgd) X(ternary) X(bits) X(scaled_sign) X(sign) X(power) X(masked) X(float4)   \
        X(sparse)

#define SEND_ROW(name) SEND_ROW_##name,
enum { SEND_CODES(SEND_ROW) SEND_CODE_COUNT };

#define DECLARE_SEND(name) extern const SendCode name##_send_code;
SEND_CODES(DECLARE_SEND)

extern const SendCode *const send_codes[SEND_CODE_COUNT];

// The factor that shortens an update of this length to at most `most`: exactly 1 if it is not longer.
double clip_factor(double squared_length, double most);

// Whether the chosen code adds the part that it does not send to the client's next update.
bool send_feeds_back(const Chosen *code);

// The factor of an earlier leftover that joins an update; NAN for a code without feedback.
double send_decay(const Chosen *code);

// The weights that are sent: all but those that stay with the client and the frozen ones.
typedef struct SentWeights {
    size_t count;
    PersonalRun runs[TENSORS_MOST];
    uint32_t run_count;
    size_t ends[TENSORS_MOST], rows[TENSORS_MOST]; // as in Coding
    uint32_t tensors;
} SentWeights;

// Frozen tensors are left out, too: all clients have them already, and they do not change. fragments: of the round's
// fragment alone; NULL: of the whole model.
void sent_weights(SentWeights *sent, const TensorList *list, const PersonalPlan *personal, const Fragments *fragments,
                  uint32_t round);

// Bytes of an update on the wire: exact, or the most if the code varies.
uint64_t send_bytes(const Chosen *code, const SentWeights *sent);

// As in SendCode, with the code's numbers in coding. With per=tensor each tensor is encoded on its own, with its own
// key.
size_t send_encode(uint8_t *wire, const Payload *payload, const Chosen *code, const Coding *coding);
void send_decode(float *values, const uint8_t *wire, size_t bytes, const Chosen *code, const Coding *coding);

// Floats of code state per client, besides the leftover.
size_t send_keeps(const Chosen *code, const SentWeights *sent);

// left (count): on entry the leftover of earlier turns, on return the part of the payload that the server still lacks.
// sent: as the server reads it; global: NULL if sent holds values of the update.
void send_left_over(float *left, const Payload *payload, const float *sent, const float *global, size_t count);

#endif
