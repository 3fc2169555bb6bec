// The exact mean of client updates: integer sums, so that neither order nor grouping changes a bit.
//
//   every worker:  aggregate_add(sum, trained, global, share, count);   // for each of its clients
//   parent:        server_apply(global, ...);    // sums the sums, steps the weights: rules/server/server_rules.h
//
// A client's update, trained - global, times its share p_k = n_k / n (known when the cohort is drawn) is rounded to
// 64-bit fixed point with 40 fractional bits and added. Integer addition is associative: the mean is bitwise identical
// for any number of workers, any order of arrival, any grouping. The rounding error is at most 2^-41 per client and
// weight, less than the precision of a float for weights above 2^-17.
//
// Sums are taken modulo 2^64, because the masks of secure aggregation rely on it (send/masks.h).
//
// Range: an update with an element that is not finite, or at least 2^20 in magnitude, must be refused whole before it
// is added. As the shares of a cohort sum to 1, the sum then stays below 2^20 * 2^40 = 2^60 and cannot overflow.
#ifndef SOUNDER_FEDAVG_RULES_SUM_AGGREGATE_H
#define SOUNDER_FEDAVG_RULES_SUM_AGGREGATE_H

#include <stddef.h>
#include <stdint.h>

// For example, a change of 0.001 with a share of 0.01 is 10,995,116 units. The error is half a unit, one part in twenty
// million, as with a float.
#define AGGREGATE_UNIT 0x1p40 // one, in fixed point

// Marks a function that sums or steps whole models: it is compiled for several vector widths, and the widest that the
// machine has is chosen at start-up. Since no operations are fused (CMakeLists.txt), all versions give the same bits.
// Not with Clang: version 14 gives such functions names that other files do not find.
#if defined __x86_64__ && !defined __clang__
#define AGGREGATE_VECTORS __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define AGGREGATE_VECTORS
#endif

// In the functions below, global may be NULL: then `trained` holds the update itself.

// The first element for which the update trained - global (count) must be refused; count if there is none.
size_t aggregate_first_unfit(const float *trained, const float *global, size_t count);

// sum (count) += fixed point of share * (trained - global). The product must be below 2^22 in magnitude; debug builds
// assert it. An update that passed aggregate_first_unfit, with a share from -1 to 1, satisfies this. Weights may be
// larger than the limit as long as their difference is not.
void aggregate_add(int64_t *sum, const float *trained, const float *global, double share, size_t count);

// The best number of elements to total at once over sum_count slots, so that the totals are still in the cache when
// they are used. At most AGGREGATE_MOST_RUN, which every result divides.
enum { AGGREGATE_MOST_RUN = 4096 };
size_t aggregate_run(size_t sum_count);

// total (count) = elements first to first + count - 1 of the sum of sum_count >= 0 slots.
void aggregate_total(int64_t *total, const int64_t *const *sums, size_t sum_count, size_t first, size_t count);

// mean (count) = the sum of sum_count slots, divided by arrived, the sum of the shares that arrived.
void aggregate_mean(float *mean, const int64_t *const *sums, size_t sum_count, double arrived, size_t count);

// The squared lengths of the update trained - global (count), of total * scale (count), of values (count); and the sum
// of the magnitudes of values (count). All of them are added in 16 fixed partial sums, so that every instruction set
// gives the same bits.
double aggregate_squared_update(const float *trained, const float *global, size_t count);
double aggregate_squared_total(const int64_t *total, double scale, size_t count);
double aggregate_squared_length(const float *values, size_t count);
double aggregate_absolute_sum(const float *values, size_t count);

#endif
