#include "masks.h"

#include <math.h>

// values += or -= the stream's words, one of 64 bits per parameter, for the parameters from first to end - 1. A word
// that is uniform modulo 2^64 hides any number that is added to it modulo 2^64, which is why sums are integers here.
static void add_stream(int64_t *values, NoiseStream *stream, uint32_t which, bool minus, size_t first, size_t end) {
    for (size_t i = first; i < end; i++) { // a block has two words; those of the client state follow 2^40 blocks later
        const RngBlock block = noise_block(stream, ((uint64_t)which << 40) + i / 2);
        const uint64_t word = (uint64_t)block.word[i % 2 * 2] << 32 | block.word[i % 2 * 2 + 1];
        values[i] = (int64_t)((uint64_t)values[i] + (minus ? 0 - word : word));
    }
}

static void add(int64_t *values, const Masking *masking, uint32_t i, uint32_t j, uint32_t which, bool minus) {
    NoiseStream stream;
    noise_begin(&stream, masking->key, RNG_MASK, masking->round, i, j);
    add_stream(values, &stream, which, minus, 0, masking->still_first);
    add_stream(values, &stream, which, minus, masking->still_end, masking->parameters);
}

// No pair of two clients has the stream (k, k).
static void add_own(int64_t *values, const Masking *masking, uint32_t client, uint32_t which, bool undo) {
    add(values, masking, client, client, which, undo);
}

// The two clients of a pair apply its stream with opposite signs: the lower number adds it.
static void add_pair(int64_t *values, const Masking *masking, uint32_t client, uint32_t other, uint32_t which,
                     bool undo) {
    const bool lower = client < other;
    const uint32_t i = lower ? client : other, j = lower ? other : client;
    add(values, masking, i, j, which, lower == undo);
}

void masks_put(int64_t *sum, const Masking *masking, uint32_t client, uint32_t which) {
    add_own(sum, masking, client, which, false);
    for (uint32_t k = 0; k < masking->count; k++)
        if (masking->clients[k] != client) add_pair(sum, masking, client, masking->clients[k], which, false);
}

// A search in a list is cheap beside the streams, of which a cohort of m clients draws m (m + 1).
static bool is_among(const uint32_t *clients, uint32_t count, uint32_t client) {
    for (uint32_t k = 0; k < count; k++)
        if (clients[k] == client) return true;
    return false;
}

// Subtracts the own streams of the survivors, and the pair streams that no counterpart has cancelled: those between a
// survivor and a client that did not hand in.
void masks_take(int64_t *total, const Masking *masking, const uint32_t *alive, uint32_t count, uint32_t which) {
    for (uint32_t k = 0; k < count; k++)
        add_own(total, masking, alive[k], which, true);
    for (uint32_t d = 0; d < masking->count; d++) {
        const uint32_t dead = masking->clients[d];
        if (is_among(alive, count, dead)) continue;
        for (uint32_t k = 0; k < count; k++)
            add_pair(total, masking, alive[k], dead, which, true);
    }
}

bool masks_suffice(const Masking *masking, uint32_t alive, double threshold) {
    return (double)alive >= threshold * masking->count - 1e-9; // tolerance for a threshold like 2/3
}
