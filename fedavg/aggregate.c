#include "aggregate.h"

#include <math.h>
#include <stdbool.h>

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

void aggregate_apply(float *weights, const int64_t *const *sums, size_t sum_count, double arrived, size_t count) {
    double scale = 1.0 / (UNIT * arrived);
    for (size_t i = 0; i < count; i++) {
        int64_t sum = 0;
        for (size_t k = 0; k < sum_count; k++)
            sum += sums[k][i];
        weights[i] = (float)((double)weights[i] + (double)sum * scale);
    }
}
