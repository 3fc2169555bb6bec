// Counter-based random numbers: Philox4x32-10 (Salmon et al., SC 2011).
//
//   RngKey key = rng_key(seed, RNG_SHUFFLE, round, client, epoch);
//   RngBlock four = rng_block(key, 0, 0, 0, 0);        // four 32-bit words, a pure function of key and counter
//
// There is no state: a number depends only on its use (seed, purpose, round, client, step), never on the worker that
// draws it or on the time. That is why any worker can recompute any client at any time to the same bits. The same
// inline code compiles for the CPU and, in .cu files, for the GPU.
#ifndef SOUNDER_BASE_RNG_H
#define SOUNDER_BASE_RNG_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>

#include "base/host_device.h"

typedef enum RngPurpose {
    RNG_INIT = 1,        // initial weights
    RNG_SHUFFLE = 2,     // order of a client's samples
    RNG_DROPOUT = 3,     // dropout masks
    RNG_SAMPLER = 4,     // which clients form a round's cohort
    RNG_PARTITION = 5,   // assigns samples to clients
    RNG_SYNTHETIC = 6,   // the synthetic data set
    RNG_EPOCH = 7,       // the order in which a distributed sampler hands out an epoch
    RNG_CLOCK = 20,      // simulated durations
    RNG_DROP_OUT = 21,   // chooses members of a cohort that drop out
    RNG_STRAGGLER = 22,  // chooses stragglers, and how many epochs they manage
    RNG_AVAILABLE = 23,  // chooses the clients that are available
    RNG_ATTACK = 24,     // chooses attackers; the content of their updates
    RNG_DRIFT = 25,      // when a client drifts, and to which data
    RNG_COMPRESS = 30,   // random choices of update compression
    RNG_DP_NOISE = 31,   // noise of differential privacy
    RNG_DP_TREE = 32,    // the same on the nodes of a tree over the rounds
    RNG_MASK = 33,       // masks of secure aggregation
    RNG_BUCKETS = 34,    // chooses the updates that are mixed in one bucket
    RNG_NEWCOMERS = 35,  // chooses the clients that never train
    RNG_AUGMENT = 40,    // crops and flips of training images
    RNG_FEDERATION = 41, // synthetic data of users
    RNG_FEATURES = 42,   // noise that a client adds to its own samples
    RNG_TRAINER = 43,    // seeds of the turns of a trainer
    RNG_AGGREGATOR = 44, // seeds of the rounds of an aggregator
    RNG_HOLDOUT = 45,    // chooses test samples of files that have none of their own
    RNG_DP_BATCH = 46,   // chooses the samples of a private step
    RNG_DP_STEP = 47,    // noise of a private step
} RngPurpose;

typedef struct RngKey {
    uint32_t word[2];
} RngKey;

typedef struct RngBlock {
    uint32_t word[4];
} RngBlock;

BOTH void rng_round(uint32_t counter[4], const uint32_t key[2]) {
    uint64_t product0 = (uint64_t)0xD2511F53u * counter[0];
    uint64_t product1 = (uint64_t)0xCD9E8D57u * counter[2];
    uint32_t next0 = (uint32_t)(product1 >> 32) ^ counter[1] ^ key[0];
    uint32_t next2 = (uint32_t)(product0 >> 32) ^ counter[3] ^ key[1];
    counter[1] = (uint32_t)product1;
    counter[3] = (uint32_t)product0;
    counter[0] = next0;
    counter[2] = next2;
}

// Four random words for one 128-bit counter.
BOTH RngBlock rng_block(RngKey key, uint32_t c0, uint32_t c1, uint32_t c2, uint32_t c3) {
    RngBlock block = {{c0, c1, c2, c3}};
    for (int i = 0; i < 10; i++) {
        rng_round(block.word, key.word);
        key.word[0] += 0x9E3779B9u;
        key.word[1] += 0xBB67AE85u;
    }
    return block;
}

// The key for one purpose: `a`, `b` and `c` are the purpose's indices (for example round, client, epoch).
BOTH RngKey rng_key(uint64_t seed, RngPurpose purpose, uint32_t a, uint32_t b, uint32_t c) {
    RngKey root = {{(uint32_t)seed, (uint32_t)(seed >> 32)}};
    RngBlock block = rng_block(root, (uint32_t)purpose, a, b, c);
    RngKey key = {{block.word[0], block.word[1]}};
    return key;
}

// A float in [0, 1) with 24 random bits: every value is exact, 1 is never reached.
BOTH float rng_float(uint32_t word) {
    return (float)(word >> 8) * (1.0f / 16777216.0f);
}

// A double in [0, 1) with 53 random bits, from a block; as number `index` of the stream `key`.
static inline double rng_double_of(RngBlock block) {
    return (double)(((uint64_t)block.word[0] << 21) | (block.word[1] >> 11)) * 0x1p-53;
}

static inline double rng_double(RngKey key, uint32_t index) {
    return rng_double_of(rng_block(key, index, 0, 0, 0));
}

// A whole number in [0, bound), bound >= 1. Multiply-shift: the bias is below bound / 2^32.
BOTH uint32_t rng_below(uint32_t word, uint32_t bound) {
    return (uint32_t)(((uint64_t)word * bound) >> 32);
}

// Shuffles items in place (Fisher-Yates); the order depends on key and count alone. count < 2^32.
void rng_shuffle(uint32_t *items, size_t count, RngKey key);

// A double in (0, 1) from two random words; never 0, so that its logarithm is finite.
BOTH double rng_open_unit(uint32_t high, uint32_t low) {
    return ((double)(((uint64_t)high << 20) | (low >> 12)) + 0.5) * 0x1p-52;
}

// A standard normal number (Box-Muller) from a block; as number `index` of the stream `key`. CUDA's cos of any angle
// keeps an array in local memory, its cospi does not; they differ in the last bits of a double, as those of libraries.
BOTH double rng_normal_of(RngBlock block) {
    const double radius = sqrt(-2.0 * log(rng_open_unit(block.word[0], block.word[1])));
    const double turn = rng_open_unit(block.word[2], block.word[3]);
#ifdef __CUDA_ARCH__
    return radius * cospi(2 * turn);
#else
    return radius * cos(6.283185307179586 * turn);
#endif
}

BOTH double rng_normal(RngKey key, uint32_t index) {
    return rng_normal_of(rng_block(key, index, 1, 0, 0));
}

// A gamma(shape, 1) number (Marsaglia-Tsang 2000), as number `index` of the stream `key`. shape > 0.
double rng_gamma(RngKey key, uint32_t index, double shape);

// The logarithm of rng_gamma; finite also if the shape is so small that the number itself rounds to 0.
double rng_log_gamma(RngKey key, uint32_t index, double shape);

#endif
