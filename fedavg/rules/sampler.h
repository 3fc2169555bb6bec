// Which clients take part in a round: without replacement, a function of (seed, round) alone.
#ifndef SOUNDER_FEDAVG_RULES_SAMPLER_H
#define SOUNDER_FEDAVG_RULES_SAMPLER_H

#include <stdint.h>

// cohort (cohort_size), ascending client numbers drawn from 0 to clients - 1. scratch (clients) is the caller's.
// cohort_size <= clients; when they are equal everybody takes part.
void sampler_draw(uint32_t *cohort, uint32_t *scratch, uint32_t clients, uint32_t cohort_size, uint64_t seed,
                  uint32_t round);

#endif
