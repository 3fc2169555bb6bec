#include "failures.h"

#include <math.h>

#include "base/rng.h"

enum { CLOCK_FAILURES = 2 }; // the stream of RNG_CLOCK, whose others are world.c's

// At least a microsecond, at most about thirty years.
static uint64_t working_time(const Failures *failures, uint32_t client, uint64_t seed, uint32_t number) {
    const double uniform = rng_double(rng_key(seed, RNG_CLOCK, 0, client, CLOCK_FAILURES), number);
    return 1 + (uint64_t)llround(1e6 * fmin(-failures->mtbf * log1p(-uniform), 1e9));
}

uint64_t failures_over(const Life *life, const Failures *failures) {
    return life->fails + (uint64_t)llround(1e6 * failures->repair);
}

static void next(Life *life, const Failures *failures, uint32_t client, uint64_t seed) {
    life->failures++;
    life->fails = failures_over(life, failures) + working_time(failures, client, seed, life->failures);
}

void failures_advance(Life *life, const Failures *failures, uint32_t client, uint64_t seed, uint64_t now) {
    if (life->fails == 0) life->fails = working_time(failures, client, seed, 0);
    while (failures_over(life, failures) <= now)
        next(life, failures, client, seed);
}

bool failures_begin_within(const Life *life, const Failures *failures, uint32_t client, uint64_t seed, uint64_t from,
                           uint64_t to) {
    Life after = *life;
    if (after.fails <= from) next(&after, failures, client, seed);
    return after.fails <= to;
}
