#include "datasets/batch.h"

#include <string.h>

#include "base/rng.h"

void batch_order(uint32_t *order, const uint32_t *indices, uint32_t count, uint64_t seed, uint32_t round,
                 uint32_t client, uint32_t epoch) {
    memcpy(order, indices, count * sizeof *order);
    rng_shuffle(order, count, rng_key(seed, RNG_SHUFFLE, round, client, epoch));
}
