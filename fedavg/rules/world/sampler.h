// Draws the clients of a round, by the kind of Sampling (world.h): functions of (seed, round) and the clients' sizes.
//
//   uint32_t drawn = sampler_draw(clients, &draw);
#ifndef SOUNDER_FEDAVG_RULES_WORLD_SAMPLER_H
#define SOUNDER_FEDAVG_RULES_WORLD_SAMPLER_H

#include <stdint.h>

#include "fedavg/rules/noise_key.h"
#include "fedavg/rules/world/world.h"

// The population, and how to draw from it.
typedef struct Draw {
    const World *world;
    const uint32_t *samples; // (clients)
    const uint8_t *there;    // (clients), for available: 0 for absent clients; NULL: all are present
    const uint32_t
        *among;        // (clients), ascending: numbers of the clients, by which samples and there are found; NULL: all
    uint64_t *scratch; // (clients + 1) of the caller's memory
    uint32_t clients, size; // clients in all; clients to draw, at most all
    uint64_t seed;
    const NoiseKey *secret; // borrowed: the key of uniform and Poisson draws; NULL: all draws follow from the seed
    uint32_t round;         // 1, 2, ...
    bool in_order;          // keeps the order of drawing; for uniform, and by-size without replacement
} Draw;

// drawn (clients): the drawn clients, ascending. They may be fewer than asked for; with replacement (by-size) a client
// may occur several times. A smaller draw in_order is a prefix of a larger one. Poisson draws each client with
// probability size / clients. Power-of-choice draws the candidates. Clients that are drawn among others are drawn as if
// they were all, numbered from 0. Returns how many were drawn.
uint32_t sampler_draw(uint32_t *drawn, const Draw *draw);

// Power-of-choice: keeps the `size` candidates (count, ascending) with the largest losses (count), the lower number
// where losses are equal. NaN counts as the largest loss. sorted (count) is scratch. Returns how many are kept.
uint32_t sampler_keep_largest(uint32_t *candidates, double *sorted, const double *losses, uint32_t count,
                              uint32_t size);

// Power-of-choice by a batch: the first of the `size` samples that represent all of a client's samples (count, in
// random order).
uint32_t sampler_batch(uint64_t seed, uint32_t round, uint32_t client, uint32_t count, uint32_t size);

#endif
