// Part of send_rules.h: the largest changes of each chunk of weights, rounded to a few bits, as SparseLoCo sends them
// (Sarfi, Thérien, Lidin, Belilovsky, arXiv 2508.15706, 2025). The update is cut into chunks of `chunk` weights; the
// last one may be smaller. In each chunk:
//
//   the k = ceil(share chunk) largest |x|; of equal ones those with the lower index
//   a = the largest of them;   x becomes the nearest of 2^b values, evenly apart, from -a to a
//
// Zero is none of the 2^b values, since the largest changes are far from it. The rest of the update is multiplied by
// `decay` and joins the next update. The paper's own quantiser is another one of 2 bits.
//
// On the wire, for each chunk: a; then for each of its k values the place in the chunk, in as few bits as hold all
// places, and the number of the value in b bits.
#include <math.h>

#include "fedavg/rules/send/send_rules.h"

enum { SHARE, CHUNK, BITS }; // numbers of the rule

typedef struct Chunk {
    size_t first, count, kept;
    int place_bits, value_bits;
} Chunk;

// Chunk `number` of the update; false after the last one.
static bool chunk_at(Chunk *chunk, const Coding *coding, size_t number) {
    const size_t size = (size_t)coding->number[CHUNK], first = number * size, left = coding->count - first;
    if (first >= coding->count) return false;
    *chunk = (Chunk){.first = first, .count = left < size ? left : size, .value_bits = (int)coding->number[BITS]};
    const size_t kept = (size_t)ceil(coding->number[SHARE] * (double)chunk->count);
    chunk->kept = kept < chunk->count ? kept : chunk->count;
    while ((size_t)1 << chunk->place_bits < chunk->count)
        chunk->place_bits++;
    return true;
}

static size_t bytes_of(const Chunk *chunk) {
    return 4 + bytes_of_bits(chunk->kept, chunk->place_bits + chunk->value_bits);
}

static uint64_t sparse_bytes(const Coding *coding) {
    uint64_t bytes = 0;
    Chunk chunk;
    for (size_t number = 0; chunk_at(&chunk, coding, number); number++)
        bytes += bytes_of(&chunk);
    return bytes;
}

static double top_of(const Chunk *chunk) {
    return (double)((1u << chunk->value_bits) - 1);
}

// In two passes, for the largest value, which is the scale of all, may be the last one.
static uint8_t *put_chunk(uint8_t *wire, const float *update, const Chunk *chunk) {
    size_t equal;
    const uint32_t least = code_kth_largest(&equal, update, chunk->count, chunk->kept);
    float most = 0;
    for (size_t i = 0; i < chunk->count; i++)
        most = fmaxf(most, fabsf(update[i]));
    const double a = (double)most, per_step = a > 0 ? top_of(chunk) / (2 * a) : 0;
    BitWriter writer = {.to = put_float(wire, most)};
    for (size_t i = 0; i < chunk->count; i++) {
        const uint32_t magnitude = code_magnitude(update[i]);
        if (magnitude < least || (magnitude == least && equal == 0)) continue;
        equal -= magnitude == least;
        const double number = floor(((double)update[i] + a) * per_step + 0.5);
        bits_put(&writer, (uint32_t)i, chunk->place_bits);
        bits_put(&writer, (uint32_t)fmin(number, top_of(chunk)), chunk->value_bits);
    }
    return bits_end(&writer);
}

static size_t sparse_encode(uint8_t *wire, const Payload *payload, const Coding *coding) {
    uint8_t *to = wire;
    Chunk chunk;
    for (size_t number = 0; chunk_at(&chunk, coding, number); number++)
        to = put_chunk(to, payload->update + chunk.first, &chunk);
    return (size_t)(to - wire);
}

static void sparse_decode(float *values, const uint8_t *wire, size_t bytes, const Coding *coding) {
    (void)bytes;
    Chunk chunk;
    memset(values, 0, coding->count * sizeof *values);
    for (size_t number = 0; chunk_at(&chunk, coding, number); number++) {
        const double a = (double)take_float(wire), step = 2 * a / top_of(&chunk);
        BitReader reader = {.from = wire + 4};
        for (size_t i = 0; i < chunk.kept; i++) {
            const size_t place = bits_take(&reader, chunk.place_bits);
            values[chunk.first + place] = (float)(step * (double)bits_take(&reader, chunk.value_bits) - a);
        }
        wire += bytes_of(&chunk);
    }
}

const SendCode sparse_send_code = {
    .text = {"sparse",
             "the largest changes of each chunk of weights are sent, rounded to one of 2^bits values",
             "Sarfi et al., arXiv 2508.15706, 2025",
             {[SHARE] = {.name = "share", .preset = 0.02, .minimum = 1e-9, .maximum = 1},
              [CHUNK] = {.name = "chunk", .preset = 4096, .minimum = 1, .maximum = 1 << 30, .whole = true},
              [BITS] = {.name = "bits", .preset = 2, .minimum = 1, .maximum = 16, .whole = true},
              FEEDBACK_ON,
              PER_WHOLE,
              FEEDBACK_DECAY(0.95)}},
    .bytes = sparse_bytes,
    .encode = sparse_encode,
    .decode = sparse_decode};
