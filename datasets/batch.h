// The order in which a client visits its samples in one local epoch.
#ifndef SOUNDER_DATASETS_BATCH_H
#define SOUNDER_DATASETS_BATCH_H

#include <stdint.h>

// Copies indices (count) to order (count, of the caller's, not overlapping) and shuffles them. The order depends on the
// arguments alone: seed, round, client and epoch choose it, never the worker or the time.
// Batch b of size s is order[b * s] to order[min((b + 1) * s, count) - 1].
void batch_order(uint32_t *order, const uint32_t *indices, uint32_t count, uint64_t seed, uint32_t round,
                 uint32_t client, uint32_t epoch);

#endif
