#include "aggregate.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

enum { BLOCK = 1024 }; // weights of 8 bytes: half a first-level cache holds the totals and the slot being read

static const double UNIT = 0x1p40;  // one, in fixed point
static const float LIMIT = 0x1p20f; // updates from here on are refused

// A comparison with a NaN is false, so this also refuses what is not a number.
static bool fits(float trained, float global) {
    return fabsf(trained - global) < LIMIT;
}

size_t aggregate_first_unfit(const float *trained, const float *global, size_t count) {
    size_t unfit = 0;
    for (size_t i = 0; i < count; i++) // without an early exit: this loop becomes vectors
        unfit += !fits(trained[i], global[i]);
    size_t first = unfit ? 0 : count;
    while (first < count && fits(trained[first], global[first]))
        first++;
    return first;
}

void aggregate_add(int64_t *sum, const float *trained, const float *global, double share, size_t count) {
    double scale = share * UNIT;
    for (size_t i = 0; i < count; i++)
        sum[i] += llrint(((double)trained[i] - (double)global[i]) * scale);
}

// One block that fits the first-level cache: slot after slot, so that memory is read in long runs and adding is
// vectors.
static void apply_block(float *weights, const int64_t *const *sums, size_t sum_count, size_t first, size_t count,
                        double scale) {
    int64_t total[BLOCK];
    memcpy(total, sums[0] + first, count * sizeof *total);
    for (size_t k = 1; k < sum_count; k++)
        for (size_t i = 0; i < count; i++)
            total[i] += sums[k][first + i];
    for (size_t i = 0; i < count; i++)
        weights[first + i] = (float)((double)weights[first + i] + (double)total[i] * scale);
}

void aggregate_apply(float *weights, const int64_t *const *sums, size_t sum_count, double arrived, size_t count) {
    double scale = 1.0 / (UNIT * arrived);
    for (size_t first = 0; first < count; first += BLOCK)
        apply_block(weights, sums, sum_count, first, count - first < BLOCK ? count - first : BLOCK, scale);
}
