// Failures of clients on the simulated clock (--failures): a client works for a time that is exponentially distributed
// with the mean mtbf, is down for `repair` seconds, and works again. All times follow from seed and client alone.
//
//   Life life = {0};
//   failures_advance(&life, &failures, client, seed, now);                            // now never decreases
//   if (life.fails <= now) ... the client is down until failures_over(&life, &failures) ...
#ifndef SOUNDER_FEDAVG_RULES_WORLD_FAILURES_H
#define SOUNDER_FEDAVG_RULES_WORLD_FAILURES_H

#include <stdbool.h>
#include <stdint.h>

// Plain data, in World.
typedef struct Failures {
    double mtbf, repair;  // seconds; mtbf 0: no client fails
    uint32_t loses_state; // 1: what a client keeps from turn to turn is lost when it fails
} Failures;

typedef struct Life {
    uint32_t failures; // before the next one
    uint64_t fails;    // microseconds of the next one; 0: not known yet
} Life;

// The next failure becomes the first one that is not over at `now`, in microseconds. Uses the C library's log1p.
void failures_advance(Life *life, const Failures *failures, uint32_t client, uint64_t seed, uint64_t now);

// Microseconds at which the client works again after its next failure.
uint64_t failures_over(const Life *life, const Failures *failures);

// Whether a failure begins after `from`, to which the life has been advanced, and not after `to`.
bool failures_begin_within(const Life *life, const Failures *failures, uint32_t client, uint64_t seed, uint64_t from,
                           uint64_t to);

#endif
