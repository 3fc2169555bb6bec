#include "plain_sum.h"

#include <string.h>

#include "fedavg/rules/sum/aggregate.h"

// Weights per block: so few that a core fetches ahead in all three arrays while it works. With 32 Ki, which fit the
// second cache, it fetches ahead in one array at a time, and a large model takes 1.8 times as long.
enum { BLOCK = 256 };

// A block that is not fit shows only when earlier blocks are in the sum. Those are subtracted again: integer sums
// forget an update exactly, as sums of floats would not.
size_t plain_sum_add(PlainSum *plain, const float *trained, const float *global, size_t count) {
    size_t unfit = count, added = 0;
    XXH3_64bits_reset(plain->hash);
    for (size_t first = 0; first < count; first += BLOCK) {
        const size_t block = count - first < BLOCK ? count - first : BLOCK,
                     found = aggregate_first_unfit(trained + first, global + first, block);
        if (unfit == count && found < block) unfit = first + found;
        XXH3_64bits_update(plain->hash, trained + first, block * sizeof *trained);
        if (!plain->sum || unfit < count) continue;
        if (plain->is_new) memset(plain->sum + first, 0, block * sizeof *plain->sum);
        aggregate_add(plain->sum + first, trained + first, global + first, plain->share, block);
        added = first + block;
    }
    plain->fingerprint = XXH3_64bits_digest(plain->hash);
    if (unfit < count && !plain->is_new && added > 0) aggregate_add(plain->sum, trained, global, -plain->share, added);
    return unfit;
}
