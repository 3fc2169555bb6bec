// The noise of private rules, and the draws that an epsilon takes for secret: streams of a key of 256 bits.
//
//   NoiseStream noise;
//   noise_begin(&noise, &key, RNG_DP_NOISE, round, client, 0);
//   update[i] += deviation * noise_normal(&noise, i);         // a function of key, purpose, indices and i alone
//
// A stream is AES-256 in counter mode (NIST FIPS 197, SP 800-38A; nettle computes it): block i is the encryption of i
// under a key of the stream's own, which is two blocks of the run's key at (purpose, a, b, c). Philox (base/rng.h) has
// a key of 64 bits, and its outputs give it away, so that noise drawn from it could be removed by trying all seeds;
// with AES an attacker who knows all but the key has 2^256 keys to try. Noise is keyed by the weight's place, and it is
// made on the host for runs on a GPU, too, so that workers, nodes, devices and resumes keep its bits.
//
// By default a run's key is a hash of --seed and of all that makes the run (src/app/train/run_noise_key.h): two
// different runs share no noise, and each repeats. With --noise-key it is the user's, or the system's random numbers.
#ifndef SOUNDER_FEDAVG_RULES_NOISE_KEY_H
#define SOUNDER_FEDAVG_RULES_NOISE_KEY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/rng.h"

enum { NOISE_KEY_BYTES = 32, NOISE_BLOCKS = 64 };

// Where the key of a run is from.
typedef enum NoiseKeyKind {
    NOISE_KEY_NONE,   // no rule of the run adds noise or masks
    NOISE_KEY_OF_RUN, // from --seed, and what the run is
    NOISE_KEY_GIVEN,  // --noise-key HEX
    NOISE_KEY_SYSTEM  // --noise-key system
} NoiseKeyKind;

// Plain data, in Control and in checkpoints.
typedef struct NoiseKey {
    uint64_t word[NOISE_KEY_BYTES / sizeof(uint64_t)];
} NoiseKey;

// Reads 64 hexadecimal digits; false if the text is something else.
bool noise_key_read(NoiseKey *key, const char *hex);

// Owned by the caller, without a need to free it. The fields are the functions' own.
typedef struct NoiseStream {
    uint8_t key[NOISE_KEY_BYTES];
    uint64_t first, pair;          // of the blocks below; of the normals: half of the even one's index
    RngBlock blocks[NOISE_BLOCKS]; // those from `first` on
    double normals[2];
} NoiseStream;

void noise_begin(NoiseStream *stream, const NoiseKey *key, RngPurpose purpose, uint32_t a, uint32_t b, uint32_t c);

// Number `index` of the stream: 128 random bits, or a standard normal number (Box-Muller: two from a block). Neighbours
// are cheap one after the other. A stream serves one of the two.
RngBlock noise_block(NoiseStream *stream, uint64_t index);
double noise_normal(NoiseStream *stream, uint64_t index);

// A draw that follows from the seed (key NULL), or that the key keeps secret.
typedef struct DrawStream {
    bool is_secret;
    RngKey key;
    NoiseStream noise;
} DrawStream;

void draw_begin(DrawStream *stream, const NoiseKey *key, uint64_t seed, RngPurpose purpose, uint32_t a, uint32_t b,
                uint32_t c);
RngBlock draw_block(DrawStream *stream, uint32_t index);

#endif
