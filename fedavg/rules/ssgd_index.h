// Which samples of a shard belong to a step of synchronous SGD. The same inline code compiles for the CPU and, in .cu
// files, for the card.
#ifndef SOUNDER_FEDAVG_RULES_SSGD_INDEX_H
#define SOUNDER_FEDAVG_RULES_SSGD_INDEX_H

#include <stdint.h>

#include "base/both.h"

// Samples of a shard of `count` in batch `number` of `size`: full batches, one remainder, then none.
BOTH uint32_t ssgd_batch_samples(uint32_t count, uint32_t number, uint32_t size) {
    uint64_t first = (uint64_t)number * size;
    if (first >= count) return 0;
    uint32_t left = count - (uint32_t)first;
    return left < size ? left : size;
}

#endif
