// Which clients take part in a round: functions of (seed, round) and of the clients' sizes alone, one row of a table
// for each kind of Sampling (world.h).
//
//   uint32_t drawn = samplers[world.sampling](clients, &draw);
#ifndef SOUNDER_FEDAVG_RULES_WORLD_SAMPLER_H
#define SOUNDER_FEDAVG_RULES_WORLD_SAMPLER_H

#include <stdint.h>

#include "fedavg/rules/world/world.h"

// What is drawn from.
typedef struct Draw {
    const World *world;
    const uint32_t *samples; // (clients) of each
    const uint8_t *there;    // (clients), for available: 0 for those that are not; NULL: all are
    uint64_t *scratch;       // (clients + 1) of the caller's
    uint32_t clients, size;  // how many there are; how many are asked for, size <= clients
    uint64_t seed;
    uint32_t round; // 1, 2, ...
    bool in_order;  // drawn stays as it was drawn; for uniform, and by-size without replacement
} Draw;

// drawn (clients): ascending client numbers, of which there may be fewer than asked for; with replacement (by-size) one
// may stand there several times. A smaller draw in_order is the beginning of a larger one. Poisson: each with
// probability size / clients. Power-of-choice: the candidates. Returns how many.
typedef uint32_t (*Sampler)(uint32_t *drawn, const Draw *draw);
extern const Sampler samplers[SAMPLING_COUNT];

// Power-of-choice: keeps of the candidates (count, ascending) those `size` that have the largest losses (count), the
// lower number where losses are equal; a loss that is not a number counts as the largest. sorted (count) is scratch.
// Returns how many are kept.
uint32_t sampler_keep_largest(uint32_t *candidates, double *sorted, const double *losses, uint32_t count,
                              uint32_t size);

// Power-of-choice by a batch: where the `size` samples that stand for all of a client's (count, in random order) begin.
uint32_t sampler_batch(const Draw *draw, uint32_t client, uint32_t count, uint32_t size);

#endif
