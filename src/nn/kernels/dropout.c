// Part of ops.h: dropout (Srivastava et al., JMLR 2014) of elements or, as dropout2d, of whole channels. Philox draws
// the masks, which therefore depend on seed, round, client, layer, step, sample and feature alone.
#include "ops.h"

#include <assert.h>

typedef uint64_t DoubleWords __attribute__((vector_size(4 * SOUNDER_LANES), may_alias));
typedef int8_t ByteLanes __attribute__((vector_size(SOUNDER_LANES), may_alias));

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "even words are the low halves of double words");

// The four counters of rng_block, with one sample per lane.
typedef struct WordBlock {
    WordLanes word[4];
} WordBlock;

// The high and low words of factor * words, lane by lane. Vector units multiply 32-bit words to 64 bits in every other
// lane, so the even and the odd words take turns.
ALWAYS_INLINE void multiply(WordLanes *high, WordLanes *low, WordLanes words, uint32_t factor) {
    const DoubleWords low_half = (DoubleWords){0} + 0xffffffffu;
    DoubleWords pairs = (DoubleWords)words;
    DoubleWords even = (pairs & low_half) * factor, odd = (pairs >> 32) * factor;
    *high = (WordLanes)((even >> 32) | (odd & ~low_half));
    *low = (WordLanes)((even & low_half) | (odd << 32));
}

// rng_block (base/rng.h) for one sample per lane.
static WordBlock block_lanes(RngKey key, WordBlock counter) {
    WordLanes *word = counter.word;
    for (int i = 0; i < 10; i++) {
        WordLanes high0, low0, high1, low1;
        multiply(&high0, &low0, word[0], 0xD2511F53u);
        multiply(&high1, &low1, word[2], 0xCD9E8D57u);
        word[0] = high1 ^ word[1] ^ key.word[0];
        word[2] = high0 ^ word[3] ^ key.word[1];
        word[1] = low1;
        word[3] = low0;
        key.word[0] += 0x9E3779B9u;
        key.word[1] += 0xBB67AE85u;
    }
    return counter;
}

// One block of random words serves four neighbouring features of a sample, as the GPU's twin draws it. A byte of the
// mask is all ones or zeros, so that widening it gives a mask for lanes_select.
void ISA_NAME(dropout_draw)(int8_t *keep, const DropoutNoise *noise, size_t features, int samples) {
    const WordLanes none = {0};
    WordLanes lane;
    for (uint32_t i = 0; i < SOUNDER_LANES; i++)
        lane[i] = i;
    for (size_t f = 0; f < features; f += 4)
        for (size_t s = 0; s < (size_t)samples; s += SOUNDER_LANES) {
            WordLanes sample = lane + (noise->first_sample + (uint32_t)s);
            WordBlock block = {{none + (uint32_t)(f / 4), sample, none + noise->step, none}};
            block = block_lanes(noise->key, block);
            for (size_t i = 0; i < 4 && f + i < features; i++) {
                // As rng_float: 24 bits, exact.
                Lanes uniform = __builtin_convertvector((IntLanes)(block.word[i] >> 8), Lanes) * 0x1p-24f;
                IntLanes kept = uniform >= lanes_of(noise->rate);
                *(ByteLanes *)(keep + (f + i) * (size_t)samples + s) = __builtin_convertvector(kept, ByteLanes);
            }
        }
}

// A channel's mask is read once and used for the whole plane. The kept values are divided by the share that is kept, so
// that the sums in the next layer keep their mean, and tests need no factor.
void ISA_NAME(dropout_apply)(float *values, const int8_t *keep, float rate, size_t features, size_t plane,
                             int samples) {
    const Lanes factor = lanes_of(1.0f / (1.0f - rate));
    size_t vectors = (size_t)samples / SOUNDER_LANES;
    for (size_t f = 0; f < features; f++)
        for (size_t v = 0; v < vectors; v++) {
            ByteLanes kept = ((const ByteLanes *)keep)[f * vectors + v];
            Lanes multiplier = lanes_select(__builtin_convertvector(kept, IntLanes), factor, lanes_of(0));
            Lanes *value = (Lanes *)values + f * plane * vectors + v;
            for (size_t p = 0; p < plane; p++)
                value[p * vectors] *= multiplier;
        }
}
