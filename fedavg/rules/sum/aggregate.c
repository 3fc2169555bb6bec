#include "aggregate.h"

#include <assert.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

// Lengths of runs, in elements. Few slots are read side by side in short runs: the core prefetches from each of them,
// and the totals stay in the first-level cache. If there are more slots than the core prefetches, they are read in
// groups, in long runs.
enum { SHORT_RUN = 256, LONG_RUN = AGGREGATE_MOST_RUN, FEW_SUMS = 4, MOST_STREAMS = 8 };

static const float LIMIT = 0x1p20f; // larger updates are refused

// Addition modulo 2^64; signed overflow would be undefined.
static inline int64_t plus(int64_t a, int64_t b) {
    return (int64_t)((uint64_t)a + (uint64_t)b);
}

// Whether any difference reaches the limit. The loop has no early exit and uses 32-bit flags, as wide as the
// differences, so that the compiler vectorises it.
AGGREGATE_VECTORS static uint32_t reach(const float *trained, const float *global, float limit, size_t count) {
    uint32_t any = 0;
    for (size_t i = 0; i < count; i++)
        any |= (uint32_t) !(fabsf(trained[i] - global[i]) < limit);
    return any;
}

AGGREGATE_VECTORS static uint32_t values_reach(const float *values, float limit, size_t count) {
    uint32_t any = 0;
    for (size_t i = 0; i < count; i++)
        any |= (uint32_t) !(fabsf(values[i]) < limit);
    return any;
}

static bool updates_reach(const float *trained, const float *global, float limit, size_t count) {
    return global ? reach(trained, global, limit, count) : values_reach(trained, limit, count);
}

size_t aggregate_first_unfit(const float *trained, const float *global, size_t count) {
    assert(trained && trained != global);
    size_t first = updates_reach(trained, global, LIMIT, count) ? 0 : count;
    // This comparison is false for a NaN, too, so the search stops there.
    while (first < count && fabsf(trained[first] - (global ? global[first] : 0)) < LIMIT)
        first++;
    return first;
}

// The plain form: llrint of each product. Correct for all products that fit, but not vectorised.
static void add_rounded(int64_t *sum, const float *trained, const float *global, double scale, size_t count) {
    for (size_t i = 0; i < count; i++)
        sum[i] = plus(sum[i], llrint(((double)trained[i] - (global ? (double)global[i] : 0)) * scale));
}

typedef union Bits {
    double number;
    int64_t whole;
} Bits;

// Rounds without llrint, so that the loop vectorises: adding 1.5 * 2^52 to a product below 2^51 leaves the rounded
// product in the low bits of the sum. Rounds to nearest even, exactly as llrint does. Between 2^52 and 2^53
// neighbouring doubles differ by 1, so that the addition itself rounds. Half of 2^52 on top keeps negative products in
// that range, too. In it the difference of two bit patterns is the difference of the numbers.
AGGREGATE_VECTORS static void add_near_differences(int64_t *sum, const float *trained, const float *global,
                                                   double scale, size_t count) {
    const Bits zero = {0x1.8p52};
    for (size_t i = 0; i < count; i++) {
        const Bits product = {((double)trained[i] - (double)global[i]) * scale + zero.number};
        sum[i] = plus(sum[i], product.whole - zero.whole);
    }
}

AGGREGATE_VECTORS static void add_near_values(int64_t *sum, const float *values, double scale, size_t count) {
    const Bits zero = {0x1.8p52};
    for (size_t i = 0; i < count; i++) {
        const Bits product = {(double)values[i] * scale + zero.number};
        sum[i] = plus(sum[i], product.whole - zero.whole);
    }
}

#ifndef NDEBUG
// Whether 64 bits hold all products with room to add a few. Callers guarantee this; only debug builds check it.
static bool products_fit(const float *trained, const float *global, double scale, size_t count) {
    bool fit = true;
    for (size_t i = 0; i < count; i++)
        fit = fit && fabs(((double)trained[i] - (global ? (double)global[i] : 0)) * scale) <= 0x1p62;
    return fit;
}
#endif

// Chooses the fast loop unless a product could reach 2^50. Updates are below LIMIT, so the test over all elements is
// needed only for shares above 2^-10. The bound is half of what the fast loop allows, since it is rounded to a float.
static void add_block(int64_t *sum, const float *trained, const float *global, double scale, size_t count) {
    assert(products_fit(trained, global, scale, count));
    const float near = (float)(0x1p50 / fabs(scale));
    if (near < LIMIT && updates_reach(trained, global, near, count))
        add_rounded(sum, trained, global, scale, count);
    else if (global)
        add_near_differences(sum, trained, global, scale, count);
    else
        add_near_values(sum, trained, scale, count);
}

void aggregate_add(int64_t *sum, const float *trained, const float *global, double share, size_t count) {
    assert(sum && isfinite(share));
    for (size_t first = 0; first < count; first += SHORT_RUN)
        add_block(sum + first, trained + first, global ? global + first : NULL, share * AGGREGATE_UNIT,
                  count - first < SHORT_RUN ? count - first : SHORT_RUN);
}

// total (count) += the sums of `streams` slots, read side by side. `streams` is a constant wherever this is inlined.
static inline __attribute__((always_inline)) void add_streams(int64_t *restrict total, const int64_t *const *sums,
                                                              size_t streams, size_t first, size_t count) {
    const int64_t *at[MOST_STREAMS];
    for (size_t k = 0; k < streams; k++)
        at[k] = sums[k] + first;
    for (size_t i = 0; i < count; i++)
#pragma GCC unroll 8
        for (size_t k = 0; k < streams; k++)
            total[i] = plus(total[i], at[k][i]);
}

AGGREGATE_VECTORS static void add_slots(int64_t *total, const int64_t *const *sums, size_t streams, size_t first,
                                        size_t count) {
    if (streams == MOST_STREAMS)
        add_streams(total, sums, MOST_STREAMS, first, count);
    else if (streams == MOST_STREAMS / 2)
        add_streams(total, sums, MOST_STREAMS / 2, first, count);
    else
        add_streams(total, sums, 1, first, count);
}

size_t aggregate_run(size_t sum_count) {
    return sum_count > FEW_SUMS ? LONG_RUN : SHORT_RUN;
}

// Adds slot after slot to a run of totals, several slots at a time, so that each total is loaded and stored once per
// group.
void aggregate_total(int64_t *total, const int64_t *const *sums, size_t sum_count, size_t first, size_t count) {
    const size_t most = aggregate_run(sum_count);
    for (size_t done = 0; done < count; done += most) {
        const size_t run = count - done < most ? count - done : most;
        memset(total + done, 0, run * sizeof *total);
        for (size_t k = 0, streams; k < sum_count; k += streams) {
            const size_t left = sum_count - k;
            streams = left >= MOST_STREAMS ? MOST_STREAMS : left >= MOST_STREAMS / 2 ? MOST_STREAMS / 2 : 1;
            add_slots(total + done, sums + k, streams, first + done, run);
        }
    }
}

// Shares of refused clients are in no sum: dividing by the shares that arrived makes the result the mean of the others.
void aggregate_mean(float *mean, const int64_t *const *sums, size_t sum_count, double arrived, size_t count) {
    int64_t total[LONG_RUN];
    assert(arrived > 0 && isfinite(arrived));
    const size_t most = aggregate_run(sum_count);
    for (size_t first = 0; first < count; first += most) {
        const size_t run = count - first < most ? count - first : most;
        aggregate_total(total, sums, sum_count, first, run);
        for (size_t i = 0; i < run; i++)
            mean[first + i] = (float)((double)total[i] / (AGGREGATE_UNIT * arrived));
    }
}

enum { LANES = 16 };

// Adds in pairs, in an order that does not depend on the width of the machine's vectors.
static double sum_lanes(double lanes[LANES]) {
    for (int half = LANES / 2; half > 0; half /= 2)
        for (int l = 0; l < half; l++)
            lanes[l] += lanes[l + half];
    return lanes[0];
}

// A sum over `count` elements of a term in x, where x is a value at i. The elements of one lane are LANES apart: the
// compiler may keep the lanes in vectors of any width, and each lane adds its elements in one order.
#define SUM_IN_LANES(name, parameters, value, term)                                                                    \
    AGGREGATE_VECTORS double name parameters {                                                                         \
        double lanes[LANES] = {0};                                                                                     \
        const size_t whole = count / LANES * LANES;                                                                    \
        for (size_t first = 0; first < whole; first += LANES)                                                          \
            for (size_t l = 0; l < LANES; l++) {                                                                       \
                const size_t i = first + l;                                                                            \
                const double x = value;                                                                                \
                lanes[l] += term;                                                                                      \
            }                                                                                                          \
        for (size_t i = whole; i < count; i++) {                                                                       \
            const double x = value;                                                                                    \
            lanes[i - whole] += term;                                                                                  \
        }                                                                                                              \
        return sum_lanes(lanes);                                                                                       \
    }

SUM_IN_LANES(aggregate_squared_update, (const float *trained, const float *global, size_t count),
             (double)trained[i] - (double)global[i], x *x)
SUM_IN_LANES(aggregate_squared_total, (const int64_t *total, double scale, size_t count), (double)total[i] * scale,
             x *x)
SUM_IN_LANES(aggregate_squared_length, (const float *values, size_t count), (double)values[i], x *x)
SUM_IN_LANES(aggregate_absolute_sum, (const float *values, size_t count), (double)values[i], fabs(x))
