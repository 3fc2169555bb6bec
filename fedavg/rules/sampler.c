#include "sampler.h"

#include <stdlib.h>
#include <string.h>

#include "base/rng.h"

static int ascending(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

void sampler_draw(uint32_t *cohort, uint32_t *scratch, uint32_t clients, uint32_t cohort_size, uint64_t seed,
                  uint32_t round) {
    for (uint32_t client = 0; client < clients; client++)
        scratch[client] = client;
    RngKey key = rng_key(seed, RNG_SAMPLER, round, 0, 0);
    for (uint32_t drawn = 0; drawn < cohort_size && cohort_size < clients; drawn++) {
        uint32_t word = rng_block(key, drawn, 0, 0, 0).word[0];
        uint32_t pick = drawn + rng_below(word, clients - drawn);
        uint32_t held = scratch[drawn];
        scratch[drawn] = scratch[pick];
        scratch[pick] = held;
    }
    memcpy(cohort, scratch, cohort_size * sizeof *cohort);
    qsort(cohort, cohort_size, sizeof *cohort, ascending);
}
