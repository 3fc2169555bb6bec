// An update that goes into the sum as it was trained: checked, fingerprinted and added block by block, while a block is
// in the cache. A large model then passes through memory once instead of three times.
//
//   const size_t unfit = plain_sum_add(&plain, trained, global, count);
//   if (unfit < count) ... trained[unfit] must be refused, and the sum is what it was, or as new ...
//
// The bits are those of aggregate_first_unfit, XXH3 of all that was trained, and aggregate_add, one after the other. A
// refusal is known only when a part of the update has been added; integer sums take it away again.
#ifndef SOUNDER_FEDAVG_WORKER_PLAIN_SUM_H
#define SOUNDER_FEDAVG_WORKER_PLAIN_SUM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fedavg/memory/fingerprint.h"

typedef struct PlainSum {
    int64_t *sum; // (count) in and out; NULL: only check and fingerprint
    double share; // of the client
    bool is_new;  // what the sum holds is of an earlier round. After a refusal it is still new
    XXH3_state_t *hash;
    uint64_t fingerprint; // out
} PlainSum;

// Returns the first element for which the update must be refused (rules/sum/aggregate.h), count when there is none.
// trained, global: (count).
size_t plain_sum_add(PlainSum *plain, const float *trained, const float *global, size_t count);

#endif
